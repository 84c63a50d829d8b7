"""Fixtures of the scenarios: a stage with a workspace, on this disk or on a small one of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the stage and its application are imported by name

import scenario_app
from scenario_stage import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A workspace where many workers may serve."""
    return Stage(tmp_path / "stage")


@pytest.fixture
def stage_alone(tmp_path: Path) -> Stage:
    """A workspace of which only one worker at a time is allowed."""
    return Stage(tmp_path / "alone", scenario_app.alone)
