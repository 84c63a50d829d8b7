"""Fixtures that tests of several folders share; nothing else lives here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real mails and photographs beside the checkout; the test is skipped where it is absent.

    On the machines (`CI=true`) an absent folder is a failure, so that a skip cannot hide there.
    """
    if SHARED_DATA.is_dir():
        return SHARED_DATA
    reason = f"{SHARED_DATA} is absent: this test reads the shared mails and photographs"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
