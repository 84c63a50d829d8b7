"""Six mails and six pictures of our own, analysed by a worker that is killed once at a random moment.

Run it with the Python that Perenne is installed in; a seed as its only argument repeats a run. It works in a new
temporary folder. What was found is shown by `findings.py`, beside this file.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import findings

from perenne import tools

HERE = Path(__file__).parent
LIMIT_S = 120
NEEDS_A_PERSON = 4


def main() -> int:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else random.SystemRandom().randrange(10_000)
    case = Path(tempfile.mkdtemp(prefix="perenne-example-")) / "case"
    print(f"\nSix mails and six pictures, into {case}:")
    evidence("create", "--title", "Samples", "--workspace", case)
    for command in (["import", HERE / "eml", HERE / "img"], ["enqueue"]):
        print(f"  {evidence(*command, '--workspace', case).splitlines()[-1]}")
    print(f"\nA worker that will be killed at a random moment (seed {seed}):")
    was_killed = run_and_kill(case, random.Random(seed))
    print("\nAnother worker settles what it left, and goes on:")
    code, _ = watched(start(case))
    jobs = json.loads(evidence("status", "--json", "--workspace", case))["jobs"]
    print("\nWhat was found:")
    print("\n".join(findings.table(case, jobs)))
    return verdict(findings.faults(case, jobs), code, was_killed)


def run_and_kill(case: Path, luck: random.Random) -> bool:
    """Start a worker and kill it some milliseconds after one of its jobs; true when it died of that."""
    # The mails take a few milliseconds each, the pictures a hundred; without ExifTool only the mails are done.
    last, longest_s = (10, 0.03) if tools.find("exiftool") else (5, 0.005)
    code, done = watched(start(case), kill_after=luck.randrange(1, last), delay_s=luck.uniform(0, longest_s))
    was_killed = code == -signal.SIGKILL
    print(f"  {'killed by SIGKILL' if was_killed else 'it ended before it could be killed'}, {done} of 12 jobs done")
    return was_killed


def watched(worker: subprocess.Popen[str], *, kill_after: int | None = None, delay_s: float = 0.0) -> tuple[int, int]:
    """Show what a worker says until it ends; its exit code, negative for a signal, and how many jobs it ended."""
    done = 0
    overdue = threading.Timer(LIMIT_S, worker.kill)
    overdue.start()
    with worker:
        for line in worker.stdout or ():
            print(f"  {line}", end="", flush=True)
            done += line.startswith("[")
            if done == kill_after:
                time.sleep(delay_s)  # so that the kill meets it anywhere
                worker.kill()
                kill_after = None
    overdue.cancel()
    return worker.returncode, done


def verdict(faults: list[str], code: int, was_killed: bool) -> int:
    """The last word; gives the exit code."""
    print()
    for fault in faults:
        print(f"NO  {fault}")
    if faults or code not in (0, NEEDS_A_PERSON):
        return 1
    print(f"{'Killed once, ' if was_killed else ''}nothing lost, nothing done twice, nothing left over.")
    return 0


def evidence(*words: str | Path) -> str:
    """Run one command to its end and give what it printed."""
    return subprocess.run(_command(*words), check=True, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S).stdout


def start(case: Path) -> subprocess.Popen[str]:
    """A worker in a process of its own."""
    return subprocess.Popen(_command("run", "--workspace", case), stdout=subprocess.PIPE, text=True)


def _command(*words: Any) -> list[str]:
    return [sys.executable, "-m", "perenne", "evidence", *map(str, words)]


if __name__ == "__main__":
    sys.exit(main())
