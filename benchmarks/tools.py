"""Outside tools: one run against a bare `subprocess.run`, and one request of a session against a bare pipe to it.

The short tool is a Perl that works for about 50 ms, as ExifTool does on one picture; the shortest, `true`, shows what a
run costs above a bare one in milliseconds. A request of the session takes about 8 ms, as one of ExifTool's.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from figures import Figure

from perenne import tools

LIMITS = tools.Limits(
    wall_s=60,
    cpu_s=60,
    address_space_bytes=1 << 30,
    file_size_bytes=1 << 20,
    descriptors=64,
    stdout_bytes=1 << 20,
    stderr_bytes=1 << 20,
)
WORK = "my $x = 0; $x += $_ for 1 .. %d;"
SHORT = ["/usr/bin/perl", "-e", WORK % 1_500_000]
SHORTEST = ["/bin/true"]
SESSION = ["/usr/bin/perl", "-e", "$| = 1; while (<STDIN>) { " + WORK % 250_000 + ' print "answer $_<end>"; }']


def measure(folder: Path, *, rounds: int, quick: bool) -> tuple[dict[str, Any], list[Figure]]:
    """Ratios of medians, round by round, and what a run costs above a bare one."""
    runs, requests = (5, 20) if quick else (20, 100)
    figures = [*_short(folder, rounds, runs), *_session(folder, rounds, requests)]
    confined = tools.offer().by
    return {"rounds": rounds, "runs_a_round": runs, "requests_a_round": requests, "confined_by": confined}, figures


def _short(folder: Path, rounds: int, runs: int) -> list[Figure]:
    confinement = tools.Confinement(stage=folder)
    taken: dict[str, list[float]] = {}
    for _ in range(rounds):
        for argv, length in ((SHORT, "short"), (SHORTEST, "shortest")):
            for name, work in (
                ("bare", partial(_bare, argv, folder)),
                ("ours", partial(_ours, argv, folder, None)),
                ("confined", partial(_ours, argv, folder, confinement)),
            ):
                taken.setdefault(f"{length} {name}", []).append(_median_ms(work, runs))
    figures = [Figure("short tool, bare", statistics.median(taken["short bare"]), "ms", "", taken["short bare"])]
    for name, words in (("ours", "runner"), ("confined", "runner, confined")):
        ratios = [ours / bare for ours, bare in zip(taken[f"short {name}"], taken["short bare"], strict=True)]
        figures.append(Figure(f"short tool, {words} / bare", statistics.median(ratios), "ratio", "<= 1.3", ratios))
    for name, words in (("ours", "runner"), ("confined", "runner, confined")):
        above = [ours - bare for ours, bare in zip(taken[f"shortest {name}"], taken["shortest bare"], strict=True)]
        figures.append(Figure(f"shortest tool, {words} above bare", statistics.median(above), "ms", "", above))
    return figures


def _bare(argv: list[str], folder: Path) -> None:
    subprocess.run(argv, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, start_new_session=True, check=True)


def _ours(argv: list[str], folder: Path, confinement: tools.Confinement | None) -> None:
    result = tools.run(argv, cwd=folder, limits=LIMITS, confinement=confinement)
    assert result.ending == "exited", result.sentence


def _median_ms(work: Callable[[], None], times: int) -> float:
    work()
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        taken.append((time.perf_counter() - started) * 1000)
    return statistics.median(taken)


def _session(folder: Path, rounds: int, requests: int) -> list[Figure]:
    confined = tools.Confinement(stage=folder)
    limits = replace(LIMITS, stdout_bytes=1000)
    with (
        tools.Session(SESSION, cwd=folder, limits=limits, confinement=confined, requests=1_000_000) as session,
        subprocess.Popen(SESSION, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as bare,
    ):
        ours_ms, bare_ms = [], []
        for _ in range(rounds):
            bare_ms.append(_median_ms(lambda: _bare_request(bare), requests))
            ours_ms.append(_median_ms(lambda: _request(session), requests))
        bare.kill()
    ratios = [ours / theirs for ours, theirs in zip(ours_ms, bare_ms, strict=True)]
    return [
        Figure("request of a session, bare", statistics.median(bare_ms), "ms", "", bare_ms),
        Figure("request of a session, confined / bare", statistics.median(ratios), "ratio", "<= 1.2", ratios),
    ]


def _bare_request(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"7\n")
    answer = b""
    while not answer.endswith(b"<end>"):
        answer += os.read(process.stdout.fileno(), 65536)


def _request(session: tools.Session) -> None:
    assert session.ask(b"7\n", stdout_end=b"<end>").whole_stdout() == b"answer 7\n"
