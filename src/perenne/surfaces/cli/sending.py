"""`submit`: one job, or one for each line of a file, waiting for room when the queue is full."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perenne.surfaces import faults, views
from perenne.surfaces.cli import inputs, options
from perenne.surfaces.cli.bar import Bar
from perenne.surfaces.cli.run import place_of

if TYPE_CHECKING:
    from perenne import App, Engine, Kind

_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
MOST_AT_ONCE = 100
PATIENCE_S = 3600.0  # of one wait; then the wait begins anew


@click.command(short_help="Store jobs durably.")
@click.argument("words", nargs=-1, required=True, metavar="[APP] KIND [INPUT]")
@options.maybe_workspace
@click.option(
    "--many",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="One job for each line of FILE (- is the standard input).",
)
@click.option("--key", help="The same key and content again is the same job; with --many, KEY:1, KEY:2 and so on.")
@click.option("--queue", help="Else the kind's own.")
@click.option("--priority", type=int, default=0, show_default=True, help="-1000 to 1000, higher first.")
@click.option("--after", "depends_on", multiple=True, type=options.Job(), help="A job to wait for; may be given again.")
@click.option(
    "--on-dependency",
    metavar="POLICY",
    help="When one of them ends badly: block (the default), fail, or continue once all have ended.",
)
@click.option("--not-before", metavar="TIME", help="As 2027-01-15T08:00:00+01:00.")
@click.option("--max-attempts", type=int, help="1 to 100; else the kind's own.")
@options.as_json
def submit(words: tuple[str, ...], workspace: Path | None, many: str | None, as_json: bool, **wishes: Any) -> int:
    """Store a job durably: KIND of APP with INPUT, which is JSON (- reads the standard input).

    Prints its id, its state, whether it is new or was there already, and that it is on disk.

    With --many each line is an INPUT; when the queue is full it waits for room and says how many wait outside.

    Example: perenne submit shop:app add '{"a": 2, "b": 3}'
    """
    import perenne

    ctx = click.get_current_context()
    reference, name, text = _words(ctx, words, many)
    said = options.settings(ctx, app=reference, workspace=None if workspace is None else str(workspace))
    app = options.app_of(ctx, reference, said)
    kind, root = _kind(app, name), place_of(said, app)
    if not (root / "workspace.toml").exists():
        raise _unmade(root, reference or app.name)
    with perenne.open(root, app) as engine:
        chosen = _wishes(engine, wishes)
        if many is not None:
            return _Many(engine, kind, many, chosen, as_json).send()
        _say(engine.submit(kind, inputs.one(kind, text), **chosen), as_json)
    return faults.Exit.DONE


def _words(ctx: click.Context, words: tuple[str, ...], many: str | None) -> tuple[str | None, str, str | None]:
    """Application, kind and input; an application is told by its colon, or by standing first of three."""
    rest = list(words)
    reference = rest.pop(0) if _REFERENCE.fullmatch(rest[0]) or len(rest) == (3 if many is None else 2) else None
    if not rest or len(rest) > (2 if many is None else 1):
        raise click.UsageError(f"give [APP] KIND{' [INPUT]' if many is None else ''}, not {' '.join(words)}", ctx)
    return reference, rest[0], rest[1] if len(rest) == 2 else None


def _unmade(root: Path, app: str) -> Exception:
    from perenne.errors import StoreMissing

    return StoreMissing(f"workspace: {root} is none yet; `perenne worker {app}` makes it, or give --workspace FOLDER")


def _kind(app: App, name: str) -> Kind:
    """The newest kind of this name, or the only one whose last part it is.

    Raises: UnknownKind.
    """
    from perenne.errors import UnknownKind

    try:
        return app.kind(name)
    except UnknownKind:
        found = {kind.name for kind in app.kinds if kind.name.endswith(f".{name}")}
        if len(found) != 1:
            raise
        return app.kind(found.pop())


def _wishes(engine: Engine, given: dict[str, Any]) -> dict[str, Any]:
    """What the options wish, as `Engine.submit` names it."""
    from perenne.errors import InvalidInput

    chosen = {name: value for name, value in given.items() if value is not None}
    chosen["depends_on"] = [engine.view.find(prefix) for prefix in given["depends_on"]]
    if given["not_before"] is not None:
        try:
            chosen["not_before"] = datetime.fromisoformat(given["not_before"])
        except ValueError:
            raise InvalidInput(
                f"not_before: {given['not_before']!r} is no time; write it as 2027-01-15T08:00:00+01:00",
                field="not_before",
            ) from None
    return chosen


def _say(receipt: Any, as_json: bool) -> None:
    new = "reused" if receipt.reused else "new"
    if as_json:
        from perenne.surfaces.cli.documents import Submitted

        options.echo_line(
            Submitted(
                contract="perenne.receipt.v1",
                id=receipt.job_id,
                state=receipt.state,
                reused=receipt.reused,
                durability=receipt.durability,
            )
        )
    else:
        click.echo(f"{receipt.job_id}  {views.painted(receipt.state)}  {new}  {receipt.durability}")


class _Many:
    """A job for each line, as many in one transaction as there is room for."""

    def __init__(self, engine: Engine, kind: Kind, file: str, wishes: dict[str, Any], as_json: bool) -> None:
        self._engine, self._kind, self._file, self._wishes, self._as_json = engine, kind, file, wishes, as_json
        self._queue = wishes.get("queue") or kind.queue
        self._lines = 0  # in the file; 0 when that is not known
        self._done = 0
        self._new = 0
        self._bar = Bar()

    def send(self) -> int:
        """Send all; a file is read through before its first job is stored, so that a fault in it stores none."""
        if self._file != "-":
            for _ in self._inputs():
                self._lines += 1
        batch: list[tuple[int, bytes]] = []
        entries = self._inputs()
        try:
            for entry in entries:
                batch.append(entry)
                if len(batch) >= self._room():
                    self._store(batch)
            while batch:
                self._store(batch)
        except BaseException:
            self._finish(f"stopped: {self._told()}")
            raise
        self._finish(self._told())
        return faults.Exit.DONE

    def _inputs(self) -> Iterator[tuple[int, bytes]]:
        return inputs.lines(self._kind, self._file)

    def _room(self) -> int:
        """How many to send at once: what the queue has room for, at least one, which then waits."""
        room = next((q.capacity - q.unfinished for q in self._engine.queues() if q.name == self._queue), 1)
        return max(min(room, MOST_AT_ONCE), 1)

    def _store(self, batch: list[tuple[int, bytes]]) -> None:
        """Store the first so many that there is room for, and take them out of the batch."""
        from perenne.errors import QueueFull

        step = batch[: self._room()]
        requests = [self._engine.request(self._kind, data, **self._wishes_of(number)) for number, data in step]
        try:
            receipts = self._engine.submit_many(requests)
        except QueueFull:
            self._bar.say(self._waiting(len(batch)))
            requests = requests[:1]
            receipts = self._wait_for_room(requests)
        del batch[: len(requests)]
        self._done += len(receipts)
        self._new += sum(not receipt.reused for receipt in receipts)
        if self._as_json:
            for receipt in receipts:
                _say(receipt, as_json=True)
        self._bar.show(self._done, self._lines)

    def _wait_for_room(self, requests: list[Any]) -> list[Any]:
        from perenne.errors import QueueFull

        while True:
            try:
                return self._engine.submit_many(requests, patience_s=PATIENCE_S)
            except QueueFull:
                continue

    def _wishes_of(self, number: int) -> dict[str, Any]:
        key = self._wishes.get("key")
        return self._wishes if key is None else {**self._wishes, "key": f"{key}:{number}"}

    def _waiting(self, held: int) -> str:
        outside = self._lines - self._done if self._lines else held
        word = views.count(outside, "job waits", "jobs wait")
        more = "" if self._lines else " or more"
        return f"{word}{more} outside: queue {views.one_line(self._queue)} is full; a worker makes room"

    def _told(self) -> str:
        left = f", {self._lines - self._done:,} not" if self._lines > self._done else ""
        reused = self._done - self._new
        return f"{views.count(self._done, 'job')} submitted{f', {reused:,} of them reused' if reused else ''}{left}"

    def _finish(self, sentence: str) -> None:
        self._bar.clear()
        if self._as_json:
            options.note(sentence)
        else:
            click.echo(sentence)
