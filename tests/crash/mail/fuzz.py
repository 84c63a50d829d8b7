"""`python tests/crash/mail/fuzz.py --seconds N`: coverage-guided fuzzing of the mail analyser, kept as evidence.

Here: the run, its restarts, the record in docs/evidence/mail-fuzz.json and the corpus, which holds bytes of our own
alone: it grows from our samples and the corpus that is kept. Not here: what is a fault (`mail_mutations`).
Needs `pip install perenne[fuzz]`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[3]
CORPUS, SEEDS = Path(__file__).parent / "corpus", ROOT / "examples/evidence/eml"
RECORD = ROOT / "docs/evidence/mail-fuzz.json"
INPUT_BYTES = 8192
KEPT_BYTES = 200_000  # of the corpus in the repository: the smallest inputs of the minimised one


def main() -> int:
    """Fuzz for so many seconds, then minimise the corpus and write the record; 1 when a fault was found."""
    parser = argparse.ArgumentParser(description="Coverage-guided fuzzing of the mail analyser.")
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--seed", type=int, default=1)
    asked, engine = parser.parse_known_args()
    if engine:
        # The engine starts itself again through a shell when it minimises a corpus.
        return fuzz_here([f"{sys.executable} {__file__}", *engine])
    with tempfile.TemporaryDirectory(prefix="perenne-fuzz-") as folder:
        return run(asked.seconds, asked.seed, Path(folder))


def run(seconds: int, seed: int, folder: Path) -> int:
    """One run with restarts after each fault."""
    grown, minimised, faulty = (folder / name for name in ("grown", "minimised", "faulty"))
    for one in (grown, minimised, faulty):
        one.mkdir()
    began_s, executions, edges, features = time.monotonic(), 0, 0, 0
    while (left_s := int(seconds - (time.monotonic() - began_s))) > 0:
        said = fuzzer(grown, CORPUS, SEEDS, f"-max_total_time={left_s}", f"-seed={seed}", f"-artifact_prefix={faulty}/")
        executions += last(r"stat::number_of_executed_units: +(\d+)", said)
        edges, features = max(edges, last(r"cov: (\d+)", said)), max(features, last(r"ft: (\d+)", said))
        seed += 1
        if not executions:
            sys.exit(f"the fuzzer did not start: {said[-2000:]}")
    took_s = time.monotonic() - began_s
    fuzzer("-merge=1", minimised, grown, CORPUS, SEEDS)
    record = {
        "seconds": round(took_s), "executions": executions, "edges": edges, "features": features,
        "input_bytes_at_most": INPUT_BYTES, "corpus": len(list(minimised.iterdir())), "kept": keep(minimised),
        "faults": [one.read_bytes().hex() for one in sorted(faulty.iterdir())],
        "python": platform.python_version(), "load": [round(one, 1) for one in os.getloadavg()],
    }  # fmt: skip
    RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=2))
    return bool(record["faults"])


def fuzzer(*arguments: object) -> str:
    """Run this file as the fuzzing engine; gives what it said."""
    command = [sys.executable, __file__, *map(str, arguments), f"-max_len={INPUT_BYTES}", "-print_final_stats=1"]
    return subprocess.run(command, capture_output=True, text=True, errors="replace").stderr


def last(pattern: str, said: str) -> int:
    found = re.findall(pattern, said)
    return int(found[-1]) if found else 0


def keep(minimised: Path) -> int:
    """Replace the corpus in the repository by the smallest inputs of the minimised one; gives their number."""
    for old in CORPUS.iterdir():
        old.unlink()
    kept, size_bytes = 0, 0
    for one in sorted(minimised.iterdir(), key=lambda path: (path.stat().st_size, path.name)):
        size_bytes += one.stat().st_size
        if size_bytes > KEPT_BYTES:
            break
        (CORPUS / one.name).write_bytes(one.read_bytes())
        kept += 1
    return kept


def fuzz_here(arguments: list[str]) -> int:
    """The engine itself; it ends the process."""
    import atheris

    sys.path.insert(0, str(ROOT / "tests/unit/apps/evidence/mail"))
    with atheris.instrument_imports(include=["perenne.apps.evidence.mail"]):
        import mail_mutations

    def ask(data: bytes) -> None:
        said = list(mail_mutations.faults(data))
        if said:
            raise AssertionError("; ".join(said))

    atheris.Setup(arguments, ask)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
