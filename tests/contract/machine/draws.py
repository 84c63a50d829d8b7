"""What can be drawn for each act, said once for both sources of luck: Hypothesis, which shrinks, and a plain one.

Jobs, owners and tokens are drawn by number; `trial` finds the one that is meant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from machine import deeds
from machine.runs import ANSWERS, Ending
from machine.site import OWNERS, QUEUES
from perenne.core.job import OnDependency

T = TypeVar("T")
Drawn = tuple[Any, ...]

KINDS = ("mail", "picture")
NUMBERS = range(64)
RESULTS = (None, b'"done"')
BEFORE_START = "not_called"
_YES, _NO = True, False


class Pick(Protocol):
    """One of several, each as likely as its share."""

    def __call__(self, choices: Sequence[T], /) -> T: ...


def wish(pick: Pick) -> dict[str, Any]:
    return {
        "kind": pick(KINDS),
        "queue": pick(("wide", "wide", "narrow")),
        "input": pick((b"1", b"1", b"2")),
        "key": pick((None,) * 6 + ("key 1", "key 2")),
        "unique_key": pick((None,) * 5 + ("active 1", "active 2")),
        "priority": pick((0, 0, 0, 1, -1)),
        "max_attempts": pick((1, 2, 3)),
        "max_interruptions": pick((None, None, None, 1, 2, 3)),
        "on_dependency": pick(tuple(OnDependency)),
    }


def published(pick: Pick) -> str:
    return pick(("absent",) * 10 + ("coherent", "coherent", "incoherent", "unknown"))


def ending(pick: Pick) -> Ending:
    answer = pick((*ANSWERS, "raised", "raised", "returned", "returned", "snoozed", BEFORE_START))
    return Ending(
        answer=answer,
        published="coherent" if answer == BEFORE_START else published(pick),
        limit_used=pick((False,) * 9 + (True,)),
        overrun=pick((False,) * 12 + (True,)),
        result=pick(RESULTS),
        active_ms=pick((0, 7)),
        wait_s=pick((0.2, 2.0, 30.0)),
        luck=pick((0.0, 0.5)),
    )


def asked(pick: Pick) -> str | None:
    """What was asked of a running job just before."""
    return pick((None, None, None, "cancel", "pause"))


def kinds(pick: Pick) -> Sequence[str]:
    return pick((KINDS, KINDS, KINDS[:1]))


# One deed, by its name and what it is about; see `trial.Trial.deed_of`.


def submit(pick: Pick) -> Drawn:
    needs = tuple(pick(NUMBERS) for _ in range(pick((0, 0, 0, 1, 1, 2))))
    return "submit", wish(pick), needs, pick((0, 0, 30, 300))


def submit_two(pick: Pick) -> Drawn:
    return "submit_two", wish(pick), wish(pick)


def children(pick: Pick) -> Drawn:
    return "submit_children", pick(NUMBERS), wish(pick), wish(pick), pick(("one", "one", "two", "join"))


def claim(pick: Pick) -> Drawn:
    return "claim", kinds(pick), pick(OWNERS)


def tell(pick: Pick) -> Drawn:
    return "tell", pick(NUMBERS), pick(("cancel", "pause", "resume", "requeue", "release"))


def close(pick: Pick) -> Drawn:
    """A deed that ends attempts."""
    number = pick(NUMBERS)
    return pick(
        (
            ("end", number, ending(pick)),
            ("settle", number, published(pick)),
            ("turn", number, ending(pick), kinds(pick), pick(OWNERS), pick((_YES, _NO))),
        )
    )


def any_deed(pick: Pick) -> Drawn:
    return pick((submit, claim, tell, close, close, submit_two, children))(pick)


def pair(pick: Pick) -> tuple[Drawn, Drawn]:
    """Two of a kind, or two that touch one job, or any two."""
    one, two = pick(_PAIRS)
    return one(pick), two(pick)


_PAIRS = (
    *(
        (claim, claim),
        (claim, claim),
        (submit, submit),
        (tell, claim),
        (tell, tell),
        (tell, tell),
        (close, tell),
        (close, close),
        (children, close),
    ),
    (any_deed, any_deed),
)


def after(pick: Pick) -> int:
    """So many queries; a deed has up to some twenty."""
    return pick((0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 10, 14))


_WORDS = (*deeds.WORDS, "cancel", "cancel", "pause", "resume", "release", "requeue", "requeue")
_SHAPES = ("chain",) * 4 + ("tree",) * 4 + ("circle", "twice")

# The arguments of each act of `acts.Acts`.
ACTS: dict[str, Callable[[Pick], Drawn]] = {
    "submit": lambda pick: submit(pick)[1:],
    "submit_again": lambda pick: (pick(NUMBERS), pick((_YES, _NO))),
    "submit_many": lambda pick: (wish(pick), wish(pick), wish(pick), pick(_SHAPES)),
    "submit_children": lambda pick: children(pick)[1:],
    "claim": lambda pick: (*claim(pick)[1:], pick((_YES, _NO)), pick((1, 2, 3))),
    "end": lambda pick: (pick(NUMBERS), ending(pick), asked(pick)),
    "owner_died": lambda pick: (pick(NUMBERS), published(pick), asked(pick)),
    "write_late": lambda pick: (
        *(pick(NUMBERS), ending(pick), pick(("old", "attempt", "number", "epoch"))),
        pick(("check", "report", "settle", "children", "end", "end")),
    ),
    "turn": lambda pick: (pick(NUMBERS), ending(pick), kinds(pick), pick(OWNERS), pick((_YES, _NO))),
    "tell": lambda pick: (pick(NUMBERS), pick(_WORDS), pick(("because",) * 9 + ("",)), pick((_YES, _NO))),
    "ask": lambda pick: (pick(NUMBERS), pick(("cancel", "pause", "pause", "resume"))),
    "help": lambda pick: (pick(NUMBERS),),
    "control": lambda pick: (
        pick(("pause", "pause", "resume", "stop")),
        pick((None, *QUEUES, *QUEUES, *QUEUES, "absent")),
    ),
    "world": lambda pick: (
        pick(("clock",) * 6 + ("reopen", "reopen", "epoch", "backup", "restore")),
        pick((-3600, -3600, -5, 10, 40, 600)),
    ),
    "listen": lambda pick: (pick(("first", "second")), pick((1, 100))),
    "meanwhile": lambda pick: (pair(pick), after(pick), pick((_YES, _NO)), pick((_YES, _NO))),
    "killed": lambda pick: (pick((close, close, any_deed))(pick), after(pick)),
}
# More of what moves jobs on.
OFTEN = (
    *ACTS,
    "submit",
    "claim",
    "claim",
    "end",
    "end",
    "owner_died",
    "write_late",
    "tell",
    "help",
    *["meanwhile"] * 3,
)
