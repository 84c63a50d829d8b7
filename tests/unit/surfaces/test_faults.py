"""What each error means to whoever asked."""

from __future__ import annotations

import errno

import pytest

from perenne import errors
from perenne.surfaces import faults
from perenne.surfaces.cli.main import cli, main

CLASSES = [
    value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.EngineError)
]
FAMILIES = {
    errors.UsageError: (2, 400),
    errors.StaleError: (3, 409),
    errors.RefusedError: (3, 429),
    errors.StorageError: (3, 503),
    errors.ToolError: (1, 500),
    errors.DoubtError: (4, 409),
}
# The classes that differ from their family, by the table of the house and the exit codes of the specification.
OWN = {
    errors.InvalidInput: (2, 422),
    errors.TooLarge: (2, 413),
    errors.JobNotFound: (2, 404),
    errors.DuplicateJob: (2, 409),
    errors.DiskLow: (3, 507),
    errors.StoreFailed: (1, 503),
    errors.NotDurable: (1, 503),
    errors.ToolMissing: (4, 500),
    errors.ConfinementMissing: (4, 500),
    errors.EngineError: (1, 500),
}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_has_its_answer(kind: type[errors.EngineError]) -> None:
    """Each class is answered as the table says, else as its family; its docstring is its sentence."""
    family = next((family for family in FAMILIES if issubclass(kind, family)), errors.EngineError)
    assert faults.fault_of(kind()) == OWN.get(kind, FAMILIES.get(family))
    assert faults.sentence_of(kind()) == (kind.__doc__ or "").strip()


def test_a_sentence_is_one_harmless_line() -> None:
    """Line breaks and control characters from names never reach the terminal as such."""
    assert faults.sentence_of(errors.InvalidInput("file a\nb\x1b[31m: no")) == "file a b\\x1b[31m: no"


def test_the_system_is_quoted_with_its_file() -> None:
    """What the operating system refused is told with the file it refused, and what to look at."""
    error = PermissionError(errno.EACCES, "Permission denied", "/x/y")
    assert faults.fault_of(error) == (1, 500)
    assert faults.sentence_of(error).startswith("/x/y: Permission denied; check ")


def fall(value: str) -> Exception:
    try:
        raise ZeroDivisionError(value)
    except ZeroDivisionError as error:
        return error


def test_what_nobody_expected_gets_an_id() -> None:
    """An unknown exception is a failure with an id that depends on the place, not on the values."""
    first, second = fall("1"), fall("2")
    assert faults.fault_of(first) == (1, 500)
    assert faults.error_id(first) == faults.error_id(second)
    assert faults.error_id(first) in faults.sentence_of(first)
    assert "PERENNE_DEBUG=1" in faults.sentence_of(first)
    assert faults.error_id(ZeroDivisionError()) != faults.error_id(first)


@pytest.mark.parametrize("debug", ["", "1"])
def test_a_traceback_is_shown_only_when_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], debug: str
) -> None:
    """A fault in a command ends as one line and exit code 1; PERENNE_DEBUG=1 adds where it happened."""

    def broken(**_: object) -> None:
        raise KeyError("x")

    monkeypatch.setenv("PERENNE_DEBUG", debug)
    monkeypatch.setattr(cli.commands["version"], "callback", broken)
    assert main(["version"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1].startswith("perenne: unexpected error ")
    assert ("Traceback" in err) == (debug == "1")
    assert len(err.splitlines()) == 1 or debug == "1"


def test_an_interrupt_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C ends a command with one line and exit code 1."""

    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.commands["version"], "callback", interrupted)
    assert main(["version"]) == 1
    assert capsys.readouterr().err.strip() == "perenne: interrupted; what was running is settled by the next run"
