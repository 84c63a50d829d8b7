"""The one place where parts are plugged together: a folder and an application become an engine."""

from __future__ import annotations

import atexit
import os
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from perenne import config, crashpoints, nearest
from perenne.app import App
from perenne.core import identity, limits, takes
from perenne.errors import InvalidInput, NotAllowed, StoreForeign
from perenne.files import ground
from perenne.files import workspace as folder
from perenne.files.workspace import Workspace
from perenne.runtime import clock, governor_rule, luck, owner, retention_rule
from perenne.runtime.engine import Engine
from perenne.runtime.snapshot_keeper import Keeper, Watched
from perenne.store import apptables, migrate
from perenne.store.apptables import AppTables
from perenne.store.driver import Driver
from perenne.store.ledger import Ledger

Access = Literal["read", "write", "work"]

_guard = threading.Lock()
_own: dict[tuple[int, str], Engine] = {}


def create(
    root: Path | str,
    app: App,
    *,
    name: str,
    id: str | None = None,
    specimen: bool = False,
    allow_filesystems: Sequence[str] = (),
) -> Workspace:
    """Make a folder a workspace of this app: folders, ledger, and at last the manifest.

    Args: allow_filesystems: names of unsafe file systems to accept in spite of the danger; the manifest records them.
    Raises: StoreExists, UnsafeFilesystem, InvalidInput, DiskLow, StoreFailed, NotDurable.
    Guarantees: on an error no file of it is left; empty folders may be.
    """
    from perenne.store.sqlite import driver

    takes.check(root=root, app=app, specimen=specimen, allow_filesystems=allow_filesystems)
    root = Path(root).absolute()
    limits.check_text("name", name, limits.NAME_BYTES)
    if id is not None:
        identity.check_uuid("id", id)
    tables = tables_of(app)
    folder.refuse_existing(root)
    accepted = ground.accepted(root, allow_filesystems)
    made = Workspace(root, id or str(uuid.uuid4()), name, app.name, specimen, app.runtime, accepted)
    made.make_folders()
    now = clock.SYSTEM.now()
    driver.create(made.ledger, workspace=made.id, now=now, allowed=accepted, tables=tables)
    try:
        opened = driver.SQLiteDriver(made.ledger, workspace=made.id, allowed=accepted)
        try:
            for queue, capacity in app.queues.items():
                Ledger(opened).add_queue(queue, capacity)
        finally:
            opened.close()
        made.write_manifest()
    except BaseException:
        made.remove()  # the ledger's creation proved that nobody else makes one here
        raise
    return made


def open(root: Path | str, app: App, *, access: Access = "write", clock: clock.Clock = clock.SYSTEM) -> Engine:
    """Open a workspace: to read, to submit and steer, or to work, which only one process may at a time.

    Raises: StoreMissing, StoreForeign, SchemaTooNew, SchemaTooOld, UnsafeFilesystem, WorkerAlreadyRuns, NotAllowed.
    Guarantees: for work the lock is taken before the store is opened or migrated; nothing is repaired for reading.
    """
    from perenne.store.sqlite.driver import SQLiteDriver

    takes.check(root=root, app=app, clock=clock)
    if access not in get_args(Access):
        raise InvalidInput(
            f"access: {access!r}; give one of {', '.join(get_args(Access))}", field="access", value=access
        )
    found = folder.read(Path(root))
    if found.app != app.name:
        raise StoreForeign(
            f"workspace {found.root}: belongs to app {found.app!r}, not {app.name!r}; use its own command"
        )
    if access != "read":
        crashpoints.arm(os.environ, specimen=found.specimen)
    if access == "work":
        retention_rule.of(found)  # a rule that cannot be carried out is refused before anything is opened
        governor_rule.of(found)
    holding = owner.take(found, alone=app.one_worker) if access == "work" else None
    try:
        driver = SQLiteDriver(
            found.ledger,
            workspace=found.id,
            mode="read" if access == "read" else "write",
            may_migrate=access == "work",
            allowed=found.allow_filesystems,
            tables=tables_of(app),
        )
    except BaseException:
        if holding is not None:
            holding.release()
        raise
    shown: Driver = driver if access == "read" else Watched(driver, Keeper(found, driver, clock))
    return Engine(found, app, shown, clock, luck.SYSTEM, holding)


def tables_of(app: App) -> AppTables | None:
    """The app's own tables; None when it brings none.

    Raises: InvalidInput: its name is one that no table of an app can begin with.
    """
    given = app.migrations
    steps = tuple(migrate.steps(given)) if isinstance(given, Path) else tuple(given)
    return AppTables(apptables.prefix_of(app.name), steps) if steps else None


def open_own(app: App) -> Engine:
    """The engine of the app's own workspace; opened once, until the end of the process.

    Its folder is what the settings name (PERENNE_WORKSPACE, else [tool.perenne] in pyproject.toml), else the folder
    below this one that is named like the app, else one that is found here and is the app's.
    Raises: NotAllowed: there is none; and as `open`.
    """
    root = _own_workspace(app, Path.cwd())
    if root is None:
        raise NotAllowed(
            f"app {app.name}: no engine of it is open here; open one with `with perenne.open(…)`, "
            f"or name its workspace in PERENNE_WORKSPACE"
        )
    place = (id(app), os.path.abspath(root))
    with _guard:
        if place not in _own:
            _own[place] = open(root, app)
            atexit.register(_own[place].close)
        return _own[place]


def _own_workspace(app: App, here: Path) -> Path | None:
    said = config.read({}, os.environ, here)
    if said.workspace is not None and not (said.sources or {}).get("workspace", "").startswith("found"):
        return said.workspace
    for place in (here / app.name, said.workspace):
        if place is not None and (place / config.MANIFEST).is_file() and folder.read(place).app == app.name:
            return place
    return None


nearest.register(open_own)
