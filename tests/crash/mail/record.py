"""`record.py --runs 20000`: mails changed by their seeds, asked of the analyser and kept as evidence.

The record is docs/evidence/mail-mutations.json.

Here: the count, the slowest, the memory of the process. Not here: what is changed, and what is a fault
(`mail_mutations`, which the tests ask as well).
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests/unit/apps/evidence/mail"))

import mail_mutations

RECORD = Path(__file__).parents[3] / "docs/evidence/mail-mutations.json"
MOST_BYTES = 256 << 20


def main() -> int:
    """Ask so many mails; 1 when one has a fault or the process took too much memory."""
    parser = argparse.ArgumentParser(description="Changed mails, asked of the mail analyser.")
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    slowest_s, faulty = 0.0, {}
    for seed in range(asked.first, asked.first + asked.runs):
        began_s = time.process_time()
        if said := list(mail_mutations.faults(mail_mutations.mutated(seed))):
            faulty[seed] = said
        slowest_s = max(slowest_s, time.process_time() - began_s)  # of two analyses and all comparisons
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    record = {
        "what": "mails changed by a seed: each is analysed twice, without an exception, with the same bytes",
        "samples": len(mail_mutations.SAMPLES),
        "first_seed": asked.first,
        "runs": asked.runs,
        "slowest_s": round(slowest_s, 3),
        "limit_s": mail_mutations.LIMIT_S,
        "peak_bytes_of_the_process": peak_bytes,
        "limit_bytes": MOST_BYTES,
        "faults": faulty,
        "python": platform.python_version(),
    }
    RECORD.write_text(json.dumps(record, indent=2) + "\n")
    print(
        f"{asked.runs} changed mails, {len(faulty)} with a fault, at most {slowest_s:.2f} s and {peak_bytes >> 20} MiB"
    )
    return bool(faulty) or peak_bytes > MOST_BYTES


if __name__ == "__main__":
    sys.exit(main())
