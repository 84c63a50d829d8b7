"""Writes what the pages of this folder take from the code; `make docs` calls it, and a test that nothing changed.

In a page the generated part stands between `<!-- generated: name -->` and `<!-- end -->`; the rest is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import command_pages
import life_picture

from perenne.core.states import TABLE, Spends

HERE = Path(__file__).parent
_PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def pages() -> dict[str, str]:
    """The text of every page that is generated, wholly or in part, by its name in this folder."""
    written = {"life-of-a-job.md": _filled("life-of-a-job.md"), "life-of-a-job.svg": life_picture.draw()}
    return written | {"cli.md": command_pages.page()} | command_pages.schemas()


def table() -> Iterator[str]:
    """The moves, one row each."""
    yield "| from | verb | to | when | spends |"
    yield "| --- | --- | --- | --- | --- |"
    for move in TABLE:
        yield f"| {_names(move.sources)} | `{move.verb}` | {_names(move.targets)} | {move.when} | {move.spends} |"


def chart() -> Iterator[str]:
    """The moves as a Mermaid diagram: one line for each pair of states, with all verbs between them."""
    verbs: dict[tuple[str, str], list[str]] = {}
    for move in TABLE:
        for source in move.sources:
            for target in move.targets:
                verbs.setdefault((source or "[*]", target), []).append(move.verb)
    yield "```mermaid"
    yield "stateDiagram-v2"
    for (leaves, reaches), said in verbs.items():
        yield f"    {leaves} --> {reaches}: {', '.join(said)}"
    yield "```"


def _names(states: tuple[object, ...]) -> str:
    return ", ".join(f"`{state}`" if state else Spends.NONE for state in states)


def _filled(name: str) -> str:
    """The page with each generated part written anew."""
    parts = {"table": table, "chart": chart}
    text = (HERE / name).read_text(encoding="utf-8")
    return _PART.sub(lambda match: match[1] + "".join(f"{line}\n" for line in parts[match[2]]()) + match[3], text)


def main() -> None:
    for name, text in pages().items():
        (HERE / name).parent.mkdir(exist_ok=True)
        (HERE / name).write_text(text, encoding="utf-8")
        print(f"docs/{name}")


if __name__ == "__main__":
    main()
