"""A job whose tool cannot be confined as it must waits, and spends nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest

from perenne import Context, JobState, Kind, tools
from perenne.core import takes
from perenne.errors import InvalidInput
from perenne.runtime import confine
from perenne.runtime.toolorder import Level

Trial = Any
MakeKind = Callable[..., Kind]
S = JobState
LIMITS = tools.Limits(
    wall_s=30,
    cpu_s=20,
    address_space_bytes=1 << 30,
    file_size_bytes=1 << 20,
    descriptors=64,
    stdout_bytes=1000,
    stderr_bytes=1000,
)


def test_levels_of_kinds_and_tools_are_the_same() -> None:
    """A kind requires a level by the words that the tool runner knows, in the same order."""
    assert get_args(Level) == confine.LEVELS == get_args(takes.Confinement)


def test_a_level_that_is_none_is_refused(make_kind: MakeKind) -> None:
    """A kind with an unknown level is refused by name."""
    with pytest.raises(InvalidInput, match=r"confinement: 'tight'; give one of none, offline, stage"):
        make_kind(print, confinement="tight")


@pytest.mark.parametrize("found_by", ["the kind", "the run"])
def test_a_missing_confinement_blocks_unspent_until_it_is_offered(
    trial: Trial, make_kind: MakeKind, found_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a required confinement is not offered the job is BLOCKED and spends nothing; where it is, it goes on."""
    real, lacking = confine.offer(), confine.Offer("none", "limits only", "the kernel takes no seccomp filter")
    monkeypatch.setattr(confine, "offer", lambda: lacking)

    def handler(context: Context, input: None) -> str:
        asked = tools.Confinement(level="offline", required=True)
        return tools.run(["/bin/true"], cwd=context.stage, limits=LIMITS, confinement=asked).ending

    kind = make_kind(handler, confinement="offline" if found_by == "the kind" else "none")
    with trial.open(kind) as engine:
        job_id = engine.submit(kind, None).job_id
        engine.work()
        blocked = engine.job(job_id)
        assert (blocked.state, blocked.reason, blocked.spent) == (S.BLOCKED, "confinement_missing", 0)
        assert "'offline' is required" in str(blocked.diagnostic)
        if real.level == "none":
            pytest.skip(f"NOT CHECKED further: {real.why}")
        monkeypatch.setattr(confine, "offer", lambda: real)
        engine.work()
        job = engine.job(job_id)
        assert (job.state, job.spent, job.result) == (S.COMPLETED, 1, b'"exited"')
        assert "confinement_found" in [line.reason for line in engine.history(job_id=job_id)]
