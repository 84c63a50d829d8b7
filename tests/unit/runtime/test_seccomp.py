"""The filter of system calls: its numbers are the kernel's, and its program is one that any kernel takes."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from perenne.runtime import seccomp, syscalls

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
MACHINES = sorted(syscalls.AUDIT_ARCHITECTURE)


@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_are_those_of_the_system(machine: str) -> None:
    """Every number agrees with the C library's headers, as far as these know the call."""
    if not HEADERS[machine].exists():
        pytest.skip(f"NOT CHECKED: {HEADERS[machine]} is not installed")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\b", HEADERS[machine].read_text())
    known = {name: int(number) for name, number in reversed(found)}
    ours = syscalls.numbers(machine)
    assert {name: number for name, number in ours.items() if known.get(name, number) != number} == {}
    assert len(ours.keys() & known.keys()) > 100


@pytest.mark.parametrize("machine", MACHINES)
def test_no_number_is_given_twice(machine: str) -> None:
    """Each call has a number of its own."""
    numbers = list(syscalls.numbers(machine).values())
    assert len(numbers) == len(set(numbers))


def test_other_machines_are_not_guessed() -> None:
    """Where the numbers are not known there are none."""
    assert syscalls.numbers("riscv64") == {}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("children", [True, False])
def test_every_jump_stays_in_the_filter(machine: str, children: bool) -> None:
    """The filter is within the kernel's bound, jumps forward inside itself alone, and ends with an answer."""
    found = seccomp.compile_filter(files=True, children=children, scoped=False, truncates=False, machine=machine)
    steps = list(struct.iter_unpack("=HBBI", found.steps))
    assert len(steps) <= 4096
    for at, (code, yes, no, _) in enumerate(steps):
        assert code == 0x06 or at + 1 + max(yes, no) < len(steps)
    assert steps[-1][0] == 0x06


def test_every_refused_call_is_known() -> None:
    """No name in the lists of refusals is a slip: each has a number on at least one machine."""
    named = {*seccomp._ALWAYS, *seccomp._METADATA, *seccomp._UNKNOWN, *seccomp._OF_A_PROCESS, *seccomp._SIGNALS}
    assert named <= {name for machine in MACHINES for name in syscalls.numbers(machine)}
