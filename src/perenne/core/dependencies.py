"""Who waits for whom inside one batch: an order in which it can be entered, or the circle that forbids it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from perenne.errors import DependencyCycle


def ordered(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """The jobs of a batch, each after those of the batch that it waits for; otherwise in the order given.

    Args: needs: ids that each job waits for; ids outside the batch are somebody else's to check.
    Raises: DependencyCycle: names the circle from its first member to that member again.
    """
    done: dict[str, None] = {}
    for start in needs:
        _enter(start, needs, done)
    return list(done)


def _enter(start: str, needs: Mapping[str, Sequence[str]], done: dict[str, None]) -> None:
    """Depth first with a stack of our own: a chain may be longer than Python recurses."""
    path: dict[str, Iterator[str]] = {} if start in done else {start: iter(needs[start])}
    while path:
        job, left = next(reversed(path.items()))
        for needed in left:
            if needed in path:
                raise _cycle([*path, needed])
            if needed in needs and needed not in done:
                path[needed] = iter(needs[needed])
                break
        else:
            del path[job]
            done[job] = None


def _cycle(walked: list[str]) -> DependencyCycle:
    circle = walked[walked.index(walked[-1]) :]
    shown = [*circle[:4], "…", *circle[-4:]] if len(circle) > 9 else circle
    return DependencyCycle(
        f"dependencies: {' → '.join(shown)}; a job cannot wait for itself, take one of these arrows away",
        field="dependencies",
        path=circle,
    )
