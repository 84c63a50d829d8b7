"""Looks at one workspace and says what is wrong with it, why, and what to do; reads only, repairs nothing.

What lives here: the order of the looks, and what a look that fails becomes. What does not: the looks (`doctor_machine`,
`doctor_folder`, `doctor_ledger`, `doctor_work`, `doctor_artefacts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from perenne.app import App
from perenne.errors import EngineError
from perenne.files import workspace as folder
from perenne.files.workspace import Workspace
from perenne.runtime import (
    clock,
    doctor_artefacts,
    doctor_folder,
    doctor_ledger,
    doctor_machine,
    doctor_resources,
    doctor_work,
)
from perenne.runtime.doctor_work import Ward
from perenne.runtime.findings import Finding, bad, ok, refused
from perenne.runtime.saying import said
from perenne.store.driver import Driver
from perenne.store.inspection import Inspector


def doctor(
    root: Path, app: App | None, *, inspector: Inspector, deep: bool = False, clock: clock.Clock = clock.SYSTEM
) -> list[Finding]:
    """Everything that can be said about the workspace in this folder; what cannot be looked at is a finding too.

    Args: app: whose jobs they are; None where that is not known. deep: also read every page of the
    ledger, and every byte of the artefacts.
    Guarantees: no byte of the database or its WAL and no file changes, whatever its state, with and without workers.
    """
    try:
        workspace = folder.read(root)
    except EngineError as error:
        return [refused("manifest", error)]
    return [
        *_manifest(workspace, app),
        *_looked("confinement", partial(doctor_machine.confinement, app)),
        *(finding for check in doctor_folder.CHECKS for finding in _looked(check.__name__, partial(check, workspace))),
        *_ledger(workspace, app if app and app.name == workspace.app else None, inspector, deep, clock),
        *(_of_app(workspace, app, deep) if app and app.name == workspace.app else ()),
    ]


def _of_app(workspace: Workspace, app: App, deep: bool) -> list[Finding]:
    """What the application says of its own files; its code may fail in any way."""
    if app.doctor is None:
        return []
    try:
        return [Finding(*look) for look in app.doctor(workspace.root, deep)]
    except EngineError as error:
        return [refused(app.name, error)]
    except Exception as error:
        return [bad(app.name, f"its own look failed: {said(error)}", "report it to whoever maintains the app")]


def _manifest(workspace: Workspace, app: App | None) -> list[Finding]:
    specimen = ", a specimen: crash points may be armed" if workspace.specimen else ""
    sentence = f"workspace {workspace.name!r} ({workspace.id}) of app {workspace.app!r}{specimen}"
    if app is not None and app.name != workspace.app:
        return [bad("manifest", f"{sentence}, not of {app.name!r}", "use the command of its own app")]
    return [ok("manifest", sentence)]


def _ledger(
    workspace: Workspace, app: App | None, inspector: Inspector, deep: bool, clock: clock.Clock
) -> list[Finding]:
    missing = inspector.missing_files(workspace.ledger)
    if missing:
        names = ", ".join(Path(name).name for name in missing)
        whole = workspace.ledger.name in names.split(", ")
        next_step = "restore a backup" if whole else "open it once for writing: start a worker"
        return [bad("ledger", f"{names} missing in {workspace.own_folder}", next_step)]
    looks: list[tuple[str, Callable[[], Iterable[Finding]]]] = [
        ("ledger", partial(doctor_ledger.file, workspace, inspector)),
        ("write lock", partial(doctor_ledger.write_lock, workspace, inspector)),
    ]
    if deep:
        looks.append(("integrity", partial(doctor_ledger.integrity, workspace, inspector)))
    return [
        *(finding for name, look in looks for finding in _looked(name, look)),
        *_looked("ledger", partial(_work, workspace, app, inspector, clock, deep)),
    ]


def _work(workspace: Workspace, app: App | None, inspector: Inspector, clock: clock.Clock, deep: bool) -> list[Finding]:
    driver = inspector.open(workspace.ledger, workspace=workspace.id, allowed=workspace.allow_filesystems)
    try:
        return [*_whose(driver), *_all_work(Ward(workspace, app, driver, clock), deep)]
    finally:
        driver.close()


def _whose(driver: Driver) -> list[Finding]:
    row = driver.read(lambda tx: tx.one("read_store"))
    assert row is not None
    return [ok("ledger", f"of workspace {row[0]}, as the manifest says; epoch {row[1]}")]


def _all_work(ward: Ward, deep: bool) -> list[Finding]:
    checks = (*doctor_work.CHECKS, *doctor_resources.CHECKS)
    found = [finding for check in checks for finding in _looked(check.__name__, partial(check, ward))]
    return [*found, *_looked("artefacts", partial(doctor_artefacts.artefact_files, ward, deep=deep))]


def _looked(name: str, look: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """The findings of one look; one that fails says so and keeps no other from being made."""
    name = name.replace("_", " ")
    try:
        return list(look())
    except EngineError as error:
        return [refused(name, error)]
    except OSError as error:
        return [bad(name, f"cannot be looked at: {error.strerror}: {error.filename}", "check that it may be read")]
