"""The installed ExifTool, for the tests of this folder that run the real one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perenne.apps.evidence.images import exiftool
from perenne.apps.evidence.images.exiftool import Availability


@pytest.fixture
def real_tool(tmp_path: Path) -> Availability:
    """The installed ExifTool; where it is missing the test is skipped, and fails on the machines (`CI=true`)."""
    tool = exiftool.probe(tmp_path)
    if tool.state != "available":
        if os.environ.get("CI") == "true":
            pytest.fail(tool.reason)
        pytest.skip(f"this test runs the real ExifTool: {tool.reason}")
    return tool
