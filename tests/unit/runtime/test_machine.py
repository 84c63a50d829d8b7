"""A look at the machine: what it reads, what it makes of limits, and that nothing broken ever harms it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from perenne.core.resources import Machine
from perenne.runtime.machine import Sampler

GIB, MIB = 1 << 30, 1 << 20
WHOLE = {
    "proc/meminfo": "MemTotal:       8388608 kB\nMemFree: 1 kB\nMemAvailable:   4194304 kB\n",
    "proc/loadavg": "1.50 0.70 0.20 2/345 678\n",
    "proc/stat": "cpu  100 0 100 999 5 0 0 0 0 0\ncpu0 1 0 1 1\ncpu1 1 0 1 1\n",
    "proc/vmstat": "nr_free 1\npswpin 30\npswpout 12\n",
    "proc/pressure/cpu": "some avg10=12.50 avg60=0.00 avg300=0.00 total=1\n",
    "proc/pressure/memory": "some avg10=0.25 avg60=0 avg300=0 total=1\nfull avg10=9.00 avg60=0 avg300=0 total=1\n",
    "proc/pressure/io": "some avg10=3.00 avg60=0.00 avg300=0.00 total=1\n",
    "proc/7/stat": "7 (a ) b) S 1 7 7 0 -1 0 0 0 0 0 60 20 5 5 20 0 1 0 1 1000 100 0\n",
    "proc/8/stat": "8 (child) S 7 7 7 0 -1 0 0 0 0 0 10 0 0 0 20 0 1 0 1 1000 50 0\n",
    "proc/9/stat": "9 (other) S 1 9 9 0 -1 0 0 0 0 0 90 0 0 0 20 0 1 0 1 1000 900 0\n",
}
MOUNTS = (
    "30 20 0:26 / {place}/unified rw - cgroup2 cgroup2 rw\n31 20 0:27 / {place}/memory rw - cgroup cgroup rw,memory\n"
    "32 20 0:28 / {place}/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
)


def made(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        root.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        root.joinpath(name).write_text(text)
    return root


def seen(root: Path, at_s: float = 5.0) -> Machine:
    return Sampler(lambda: at_s, lambda: (7,), root).look()


def test_everything_is_read(tmp_path: Path) -> None:
    """Memory, load, pressure, swap and what is ours, in the units that their names say."""
    page = os.sysconf("SC_PAGE_SIZE")
    assert seen(made(tmp_path, WHOLE)) == Machine(
        at_s=5.0,
        cpus=2,
        total_bytes=8 * GIB,
        available_bytes=4 * GIB,
        load=1.5,
        cpu_percent=12.5,
        memory_percent=0.25,
        io_percent=3.0,
        swapped_pages=42,
        own_share=None,
        own_bytes=150 * page,
        gpus=0,
    )


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_what_is_missing_is_unknown(tmp_path: Path, name: str) -> None:
    """A file that is not there makes its own field unknown and no other."""
    whole = seen(made(tmp_path / "whole", WHOLE))
    made(tmp_path / "less", {other: text for other, text in WHOLE.items() if other != name})
    less = seen(tmp_path / "less")
    differs = [field for field in Machine.__struct_fields__ if getattr(whole, field) != getattr(less, field)]
    of = {"meminfo": ["total_bytes", "available_bytes"], "loadavg": ["load"], "vmstat": ["swapped_pages"]}
    of |= {"cpu": ["cpu_percent"], "memory": ["memory_percent"], "io": ["io_percent"], "stat": ["cpus", "own_bytes"]}
    allowed = ["own_bytes"] if name != "proc/stat" and name.endswith("stat") and name[5].isdigit() else None
    allowed = allowed if allowed is not None else of[Path(name).name]
    assert set(differs) <= set(allowed)
    assert all(getattr(less, field) is None for field in differs if field not in ("cpus", "own_bytes"))


@pytest.mark.parametrize("version", [1, 2])
def test_limits_of_control_groups_count(tmp_path: Path, version: int) -> None:
    """The least limit of all our groups is the memory of the machine; what the kernel could give back is available."""
    place = "/sys/fs/cgroup"
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    names = names if version == 1 else ("memory.max", "memory.current", "inactive_file")
    folder = f"sys/fs/cgroup/{'memory' if version == 1 else 'unified'}"
    made(
        tmp_path,
        WHOLE
        | {
            "proc/self/cgroup": "4:memory:/outer/inner\n" if version == 1 else "0::/outer/inner\n",
            "proc/self/mountinfo": MOUNTS.format(place=place),
            f"{folder}/outer/{names[0]}": f"{2 * GIB}\n",
            f"{folder}/outer/{names[1]}": f"{GIB}\n",
            f"{folder}/outer/memory.stat": f"cache 5\n{names[2]} {256 * MIB}\n",
            f"{folder}/outer/inner/{names[0]}": f"{(1 << 63) - 4096}\n" if version == 1 else "max\n",
        },
    )
    machine = seen(tmp_path)
    assert (machine.total_bytes, machine.available_bytes) == (2 * GIB, GIB + 256 * MIB)


@pytest.mark.parametrize(
    ("cgroup", "files"),
    [
        ("0::/a\n", {"unified/a/cpu.max": "150000 100000\n"}),
        ("1:cpu,cpuacct:/a\n", {"cpu/a/cpu.cfs_quota_us": "150000\n", "cpu/a/cpu.cfs_period_us": "100000\n"}),
    ],
)
def test_a_quota_bounds_the_cpus(tmp_path: Path, cgroup: str, files: dict[str, str]) -> None:
    """One and a half CPUs of quota are two of a machine that has four; no quota takes none away."""
    four = "cpu 1 1 1 1\n" + "".join(f"cpu{number} 1\n" for number in range(4))
    base = WHOLE | {"proc/stat": four, "proc/self/mountinfo": MOUNTS.format(place="/c"), "proc/self/cgroup": cgroup}
    assert seen(made(tmp_path / "none", base)).cpus == 4
    assert seen(made(tmp_path / "quota", base | {f"c/{name}": text for name, text in files.items()})).cpus == 2


def test_our_share_is_that_of_our_processes(tmp_path: Path) -> None:
    """Of the CPU time between two looks, the part that our processes and their descendants used."""
    now = [5.0]
    sampler = Sampler(lambda: now[0], lambda: (7,), made(tmp_path, WHOLE))
    assert sampler.look().own_share is None
    now[0] = 7.0
    later = {"proc/stat": "cpu  200 0 200 1999 5 0 0 0\n", "proc/7/stat": WHOLE["proc/7/stat"].replace("60", "110")}
    made(tmp_path, later)
    assert sampler.look().own_share == pytest.approx(0.25)


def test_a_look_lasts_a_second(tmp_path: Path) -> None:
    """Within a second it is the same look; after it, or when the clock went back, a new one."""
    now = [5.0]
    sampler = Sampler(lambda: now[0], lambda: (7,), made(tmp_path, WHOLE))
    first = sampler.look()
    now[0] = 5.999
    assert sampler.look() is first
    now[0] = 6.0
    assert sampler.look().at_s == 6.0
    now[0] = 3.0
    assert sampler.look().at_s == 3.0


def test_nothing_there_is_nothing_known(tmp_path: Path) -> None:
    """Without any /proc all is unknown, and one CPU is assumed."""
    assert seen(tmp_path) == Machine(at_s=5.0, cpus=1, gpus=0)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    some.dictionaries(
        some.sampled_from([*WHOLE, "proc/self/cgroup", "proc/self/mountinfo", "sys/fs/cgroup/memory/memory.stat"]),
        some.one_of(
            some.binary(max_size=200),
            some.text("0123456789 -.:kBcpuMemTotalAvailable=somavg\n/", max_size=120).map(str.encode),
            some.sampled_from(
                [b"0::/../../..\n", b"MemTotal: 99999999999999999999999 kB\nMemAvailable: 1 kB\n", b"nan"]
            ),
        ),
    )
)
def test_a_broken_proc_harms_nobody(tmp_path_factory: pytest.TempPathFactory, broken: dict[str, bytes]) -> None:
    """Whatever stands in the files, a look answers, and its numbers are unknown or make sense."""
    root = made(tmp_path_factory.mktemp("root"), WHOLE)
    for name, content in broken.items():
        root.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        root.joinpath(name).write_bytes(content)
    machine = seen(root)
    assert machine.cpus >= 1
    for field in Machine.__struct_fields__:
        value = getattr(machine, field)
        assert value is None or 0 <= value < 1 << 62
    if machine.total_bytes is not None and machine.available_bytes is not None:
        assert machine.available_bytes <= machine.total_bytes


def test_this_machine_is_seen() -> None:
    """On a real Linux, memory and CPUs are known, and we hold some of it."""
    machine = Sampler(lambda: 1.0).look()
    assert machine.total_bytes
    assert machine.available_bytes
    assert machine.own_bytes
    assert machine.own_bytes > MIB
