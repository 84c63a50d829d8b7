"""What a benchmark hands back: figures with their targets, as a table for people and as JSON that is kept."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
_HOLDS: dict[str, Callable[[float, float], bool]] = {">=": operator.ge, "<=": operator.le}


@dataclass(frozen=True)
class Figure:
    """One measured number: the median of its rounds, or None when it could not be measured.

    Args: target: `>= 0.8` or `<= 150`; empty for a figure that only informs. rounds: the values the median is of.
    """

    name: str
    value: float | None
    unit: str
    target: str = ""
    rounds: Sequence[float] = field(default=())

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if not self.target or self.value is None:
            return None if not self.target else False
        comparison, limit = self.target.split()
        return _HOLDS[comparison](self.value, float(limit))

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "rounds": [round(value, 4) for value in self.rounds], "met": self.met}


def show(title: str, figures: Sequence[Figure]) -> str:
    """The table of one benchmark."""
    width = max(len(figure.name) for figure in figures)
    lines = [title, *(_line(figure, width) for figure in figures)]
    return "\n".join(lines)


def _line(figure: Figure, width: int) -> str:
    value = "none" if figure.value is None else f"{figure.value:,.3g}" if figure.value < 10 else f"{figure.value:,.0f}"
    verdict = {None: "", True: "met", False: "MISSED"}[figure.met]
    spread = f"{min(figure.rounds):.3g} … {max(figure.rounds):.3g}" if figure.rounds else ""
    return f"  {figure.name:<{width}}  {value:>8} {figure.unit:<10} {figure.target:>8} {verdict:<7} {spread}".rstrip()


def keep(name: str, machine: dict[str, Any], settings: dict[str, Any], figures: Sequence[Figure]) -> Path:
    """Write `results/<name>.json`."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    content = {"machine": machine, "settings": settings, "figures": [figure.as_json() for figure in figures]}
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path
