"""What an error means to whoever asked: exit code, HTTP status, one sentence. The only table of them.

A class not in the table counts as its family, and what is no error of ours as a failure nobody expected.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from perenne import errors
from perenne.surfaces import views


class Exit(IntEnum):
    """The exit codes of every command."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    REFUSED = 3
    PERSON = 4  # somebody must look, or install something


class Fault(NamedTuple):
    """How a surface answers to an error."""

    exit_code: Exit
    http_status: int


UNEXPECTED = Fault(Exit.FAILED, 500)

# fmt: off
TABLE: dict[type[BaseException], Fault] = {
    errors.UsageError:        Fault(Exit.USAGE, 400),
    errors.InvalidInput:      Fault(Exit.USAGE, 422),
    errors.TooLarge:          Fault(Exit.USAGE, 413),
    errors.JobNotFound:       Fault(Exit.USAGE, 404),
    errors.DuplicateJob:      Fault(Exit.USAGE, 409),
    errors.StaleError:        Fault(Exit.REFUSED, 409),
    errors.RefusedError:      Fault(Exit.REFUSED, 429),
    errors.DiskLow:           Fault(Exit.REFUSED, 507),
    errors.StorageError:      Fault(Exit.REFUSED, 503),
    errors.StoreFailed:       Fault(Exit.FAILED, 503),
    errors.NotDurable:        Fault(Exit.FAILED, 503),
    errors.ToolError:         Fault(Exit.FAILED, 500),
    errors.ToolMissing:       Fault(Exit.PERSON, 500),
    errors.ConfinementMissing: Fault(Exit.PERSON, 500),
    errors.DoubtError:        Fault(Exit.PERSON, 409),
    errors.EngineError:       UNEXPECTED,
    OSError:                  UNEXPECTED,
    KeyboardInterrupt:        UNEXPECTED,
}
# fmt: on


def fault_of(error: BaseException) -> Fault:
    """The line of the table for this error: of its class, else of its nearest family."""
    return next((TABLE[kind] for kind in type(error).__mro__ if kind in TABLE), UNEXPECTED)


def sentence_of(error: BaseException) -> str:
    """One line for people; what nobody expected gets an id, the same for the same fault."""
    match error:
        case errors.EngineError():
            return views.one_line(str(error))
        case KeyboardInterrupt():
            return "interrupted; what was running is settled by the next run"
        case OSError(strerror=str(reason)):
            place = "" if error.filename is None else f"{error.filename}: "
            return views.one_line(f"{place}{reason}; check that it exists, its permissions and the free space")
    said = views.one_line(f"{type(error).__name__}: {error}")
    return (
        f"unexpected error {error_id(error)} ({said}); nothing half-done is left, try again, "
        "and report it with what PERENNE_DEBUG=1 prints"
    )


def error_id(error: BaseException) -> str:
    """Eight hexadecimal digits that depend only on what was raised and where."""
    import hashlib  # both here, because they are seldom needed and every command would wait for them
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames]
    return hashlib.sha256(" ".join([type(error).__name__, *places]).encode()).hexdigest()[:8]
