"""What an operator does with a whole workspace: find its app, look, copy, move, clean, migrate. The operator's door.

Parts are plugged together here as in `wiring`, which opens a workspace for its work; no rule and no row lives here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perenne import crashpoints
from perenne.app import App
from perenne.errors import EngineError
from perenne.files import workspace as folder
from perenne.files.workspace import Workspace
from perenne.runtime import actor, clock, registry
from perenne.store.retention import Removed, Retention, Rule

if TYPE_CHECKING:  # what a command does not use, it does not wait for
    from perenne.runtime.findings import Finding
    from perenne.runtime.snapshot_keeper import Watched
    from perenne.runtime.transfer import Exported, Imported
    from perenne.store.copies import Copy
    from perenne.store.migrate import Step

Progress = Callable[[int, int], object]

__all__ = [
    "Rule",
    "app_of",
    "backup",
    "check_records",
    "doctor",
    "export",
    "find_app",
    "import_",
    "migrate",
    "plan",
    "purge",
    "restore",
    "stand_in",
]


def doctor(root: Path, app: App | None, *, deep: bool = False) -> list[Finding]:
    """All that can be said about a workspace, reading only; deep: every page of the ledger and every artefact, too."""
    from perenne.runtime import doctor as looking
    from perenne.store.sqlite import inspection

    return looking.doctor(root, app, inspector=inspection, deep=deep)


def plan(root: Path, app: App | None = None) -> list[Step]:
    """The migrations that the ledger still needs, in order, those of the app's own tables last; reads only.

    Raises: StoreMissing, StoreForeign, SchemaTooNew, InvalidInput: the app can have no tables.
    """
    from perenne import wiring
    from perenne.store.sqlite import app_migration, driver, migration

    found = folder.read(root)
    steps = migration.plan(found.ledger, allowed=found.allow_filesystems)
    tables = None if app is None else wiring.tables_of(app)
    if tables is not None:
        steps += app_migration.plan(found.ledger, tables, driver.queries(), allowed=found.allow_filesystems)
    return steps


def migrate(root: Path, app: App) -> list[Step]:
    """Bring the ledger to this program's schema, under the worker's lock; the steps that were taken.

    Raises: as `perenne.open` for work.
    """
    from perenne import wiring

    steps = plan(root, app)
    wiring.open(root, app, access="work").close()
    return steps


def backup(root: Path, path: Path, *, progress: Progress | None = None) -> Copy:
    """Copy the ledger to a new file, verified, while work goes on. See `runtime.backup.backup`."""
    from perenne.runtime import backup as copying
    from perenne.store.sqlite import backup as copies

    return copying.backup(_armed(root), path, copies=copies, progress=progress)


def restore(root: Path, path: Path, *, progress: Progress | None = None) -> Copy:
    """Put a backup in the ledger's place, with a higher epoch; nobody may work. See `runtime.backup.restore`."""
    from perenne.runtime import backup as copying
    from perenne.store.sqlite import backup as copies

    found = _armed(root)
    done = copying.restore(found, path, copies=copies, clock=clock.SYSTEM, actor=actor.person(), progress=progress)
    with _changing(found) as driver:
        driver.touch()  # by no write of ours, the whole ledger is another one
    return done


def export(root: Path, path: Path, *, progress: Progress | None = None) -> Exported:
    """Write the whole workspace to a new file of JSON lines that checks itself. See `runtime.transfer.export`."""
    from perenne.runtime import transfer
    from perenne.store.sqlite import backup as copies

    return transfer.export(_armed(root), path, copies=copies, clock=clock.SYSTEM, progress=progress)


def import_(root: Path, path: Path) -> Imported:
    """Take an exported workspace into this new one, all or nothing. See `runtime.transfer.import_`."""
    from perenne.runtime import transfer

    found = _armed(root)
    with _changing(found) as driver:
        return transfer.import_(path, found, driver, clock=clock.SYSTEM, actor=actor.person())


def check_records(given: Iterable[Mapping[str, Any]]) -> None:
    """Whether each of these could be adopted, one for one; for before there is a workspace. See `takeover.adopt`.

    Raises: InvalidInput: names the first that could not, and what is wrong with it.
    """
    from perenne.runtime import takeover

    takeover.read_all(given)


def purge(root: Path, rule: Rule, *, progress: Callable[[Removed], object] | None = None) -> Removed:
    """Remove the finished jobs that the rule means, step by step, beside whoever works. See `runtime.pruner`."""
    from perenne.runtime.pruner import Pruner

    found = _armed(root)
    with _changing(found) as driver:
        return Pruner(found, Retention(driver), clock.SYSTEM, actor.person()).purge(rule, progress=progress)


def stand_in(root: Path) -> App:
    """The application of a workspace as far as the manifest tells: enough to look and to steer, without its code.

    Raises: StoreMissing, StoreForeign, InvalidInput.
    """
    found = folder.read(root)
    return App(found.app, runtime=found.runtime)


def app_of(root: Path) -> App | None:
    """The installed application of a workspace; None when the folder does not tell, or it is not installed here."""
    try:
        name = folder.read(root).app
    except EngineError:
        return None
    return registry.installed(name)


def find_app(reference: str, place: Path | None = None) -> App:
    """The application that is meant: an installed name, or `module:name` importable from `place`, else from here.

    Raises: InvalidInput: with file and line when the module does not import.
    """
    return registry.find(reference, place or Path.cwd())


def _armed(root: Path) -> Workspace:
    """The workspace, with the crash point armed that the environment names, if it is a specimen."""
    found = folder.read(root)
    crashpoints.arm(os.environ, specimen=found.specimen)
    return found


@contextmanager
def _changing(found: Workspace) -> Iterator[Watched]:
    """The ledger, for a command that changes it beside whoever works; the snapshot tells of it at the end."""
    from perenne.runtime.snapshot_keeper import Keeper, Watched
    from perenne.store.sqlite.driver import SQLiteDriver

    driver = SQLiteDriver(found.ledger, workspace=found.id, allowed=found.allow_filesystems)
    shown = Watched(driver, Keeper(found, driver, clock.SYSTEM))
    try:
        yield shown
    finally:
        shown.close()
