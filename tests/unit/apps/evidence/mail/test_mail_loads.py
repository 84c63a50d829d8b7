"""Hostile loads: each within two seconds and 256 MiB, the interpreter included."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LIMIT_S, LIMIT_MIB = 2.0, 256


def test_no_load_takes_long_or_much() -> None:
    """What exhausted stack, memory or hours of others is read within the bounds."""
    program = Path(__file__).with_name("mail_loads.py")
    ended = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=110, check=True)
    told = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(told) > 40
    assert [one for one in told if one[1] > LIMIT_S or one[2] > LIMIT_MIB] == []
