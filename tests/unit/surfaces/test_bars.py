"""Lines that are drawn again in a terminal, and stay away from pipes."""

from __future__ import annotations

import pytest

from perenne.surfaces.cli import bars


def test_a_pipe_gets_what_is_said_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    """What is shown to who looks on is not in a file, and no control sequence is."""
    shown = bars.Bars()
    shown.show(["1/9"])
    shown.say("paused", ["2/9"])
    assert capsys.readouterr().out == "paused\n2/9\n"


def test_a_terminal_sees_the_lines_move(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines that are shown again take the place of the old ones, and a sentence stands where they stood."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr(bars, "EVERY_S", 0.0)
    shown = bars.Bars()
    shown.show(["1/9", "1/5"])
    shown.show(["2/9", "1/5"])
    shown.say("paused")
    shown.show(["3/9", "1/5"])
    said = capsys.readouterr().out.replace("\x1b[2A\x1b[J", "<up 2>")
    assert said == "1/9\n1/5\n<up 2>2/9\n1/5\n<up 2>paused\n3/9\n1/5\n"
