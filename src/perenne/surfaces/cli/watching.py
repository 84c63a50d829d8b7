"""What a person looks on at until Ctrl-C: a page that is drawn anew in place, a log that grows.

What does not live here: the pages.
"""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from perenne.surfaces import views

_CLEAR = "\x1b[H\x1b[J"


def again_and_again(page: Callable[[], list[str]], every_s: float) -> None:
    """Show the page until Ctrl-C; in a terminal in place, and no more of it than has room."""
    with until_interrupted():
        while True:
            _show(page())
            time.sleep(every_s)  # a person looks on: nobody has to be woken for that


def _show(lines: list[str]) -> None:
    if not _in_a_terminal():
        click.echo("\n".join(lines))
        return
    shown = "\n".join(_that_fit(lines))
    if click.get_current_context().color is False:
        shown = click.unstyle(shown)
    click.echo(_CLEAR + shown, color=True)  # to draw in place is no colour, and goes with NO_COLOR too


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Ctrl-C is how a person ends this, and no fault; what comes after it stands on a line of its own."""
    try:
        yield
    except KeyboardInterrupt:
        if _in_a_terminal():
            click.echo()


def _in_a_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _that_fit(lines: list[str]) -> Iterator[str]:
    """The first lines of a page, as many as a terminal shows with the cursor below them."""
    width, left = shutil.get_terminal_size()
    for line in lines:
        left -= max(math.ceil(views.columns(click.unstyle(line)) / width), 1)
        if left < 1:
            return
        yield line
