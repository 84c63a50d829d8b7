"""The table of the specification, section 3, typed a second time by hand; nothing here is derived from the code."""

from __future__ import annotations

import pytest

from perenne.core.states import FINAL, TABLE, TRANSITIONS, UNFINISHED, JobState

# from, verb, to, whether the attempt that ends there counts; "-" where none ends.
BY_HAND = """
    new                submit               QUEUED             -
    new                submit               BLOCKED            -
    BLOCKED            release              QUEUED             -
    BLOCKED            fail                 FAILED             -
    QUEUED             block                BLOCKED            -
    RETRY_WAIT         block                BLOCKED            -
    QUEUED             reject               FAILED             -
    RETRY_WAIT         reject               FAILED             -
    QUEUED             quota                PAUSED_QUOTA       -
    RETRY_WAIT         quota                PAUSED_QUOTA       -
    QUEUED             claim                RUNNING            now
    RETRY_WAIT         claim                RUNNING            now
    RUNNING            complete             COMPLETED          either
    RUNNING            retry                RETRY_WAIT         yes
    RUNNING            snooze               RETRY_WAIT         no
    RUNNING            block                BLOCKED            either
    RUNNING            fail                 FAILED             yes
    RUNNING            bury                 DEAD               yes
    RUNNING            requeue_interrupted  QUEUED             either
    RUNNING            suspend              QUEUED             no
    RUNNING            pause                PAUSED             either
    RUNNING            quota                PAUSED_QUOTA       no
    RUNNING            doubt                RECOVERY_REQUIRED  yes
    RUNNING            cancel               CANCELLED          yes
    QUEUED             cancel               CANCELLED          -
    RETRY_WAIT         cancel               CANCELLED          -
    BLOCKED            cancel               CANCELLED          -
    PAUSED             cancel               CANCELLED          -
    PAUSED_QUOTA       cancel               CANCELLED          -
    QUEUED             pause                PAUSED             -
    RETRY_WAIT         pause                PAUSED             -
    BLOCKED            pause                PAUSED             -
    PAUSED             resume               QUEUED             -
    PAUSED             resume               RETRY_WAIT         -
    PAUSED             resume               BLOCKED            -
    PAUSED_QUOTA       resume               QUEUED             -
    PAUSED_QUOTA       resume               BLOCKED            -
    RECOVERY_REQUIRED  resolve              COMPLETED          -
    RECOVERY_REQUIRED  resolve              QUEUED             -
    RECOVERY_REQUIRED  resolve              FAILED             -
    FAILED             requeue              QUEUED             -
    FAILED             requeue              BLOCKED            -
    CANCELLED          requeue              QUEUED             -
    CANCELLED          requeue              BLOCKED            -
    DEAD               requeue              QUEUED             -
    DEAD               requeue              BLOCKED            -
"""
WORDS = {"–": "-", "counted now": "now", "as decided": "either", "yes": "yes", "no": "no"}
STATES = "BLOCKED QUEUED RUNNING PAUSED RETRY_WAIT PAUSED_QUOTA RECOVERY_REQUIRED COMPLETED FAILED CANCELLED DEAD"


def by_hand() -> set[tuple[str, ...]]:
    return {tuple(line.split()) for line in BY_HAND.strip().splitlines()}


def in_code() -> set[tuple[str, ...]]:
    return {(str(source or "new"), verb, str(to), WORDS[spends]) for (source, verb, to), spends in TRANSITIONS.items()}


def test_every_move_of_the_specification_is_in_the_code() -> None:
    """No row of the specification is missing, and each says the same about the attempt that it ends."""
    assert by_hand() - in_code() == set()


def test_every_move_of_the_code_is_in_the_specification() -> None:
    """The code allows no move that the specification does not have."""
    assert in_code() - by_hand() == set()


def test_no_move_stands_twice() -> None:
    """Each (from, verb, to) stands in one row of the table, so that no row hides another's word about attempts."""
    rows = [(source, move.verb, target) for move in TABLE for source in move.sources for target in move.targets]
    assert len(rows) == len(set(rows)) == len(by_hand())


def test_states_are_the_eleven_words() -> None:
    """States are stored and exported as the words of the specification, and four of them are final."""
    assert [state.value for state in JobState] == STATES.split()
    assert {state.value for state in FINAL} == {"COMPLETED", "FAILED", "CANCELLED", "DEAD"}
    assert set(JobState) == UNFINISHED | FINAL
    assert not UNFINISHED & FINAL


def test_completed_is_never_left() -> None:
    """No verb leaves COMPLETED, what is published stays; only a person's `requeue` leaves the other final states."""
    assert {source for source, _, _ in TRANSITIONS if source is JobState.COMPLETED} == set()
    assert {verb for source, verb, _ in TRANSITIONS if source in FINAL} == {"requeue"}


@pytest.mark.parametrize("state", list(JobState))
def test_every_state_can_be_reached_and_can_end(state: JobState) -> None:
    """From the birth of a job there is a path to each state, and from there one to a final state."""
    reached = {to for _, _, to in TRANSITIONS}
    assert state in reached
    ending, grown = set(FINAL), set(FINAL)
    while grown:
        grown = {source for source, _, to in TRANSITIONS if source and to in ending} - ending
        ending |= grown
    assert state in ending


def test_running_is_entered_by_claim_alone() -> None:
    """Nothing but a claim makes a job RUNNING, and `claim` leads nowhere else."""
    assert {verb for _, verb, to in TRANSITIONS if to is JobState.RUNNING} == {"claim"}
    assert {to for _, verb, to in TRANSITIONS if verb == "claim"} == {JobState.RUNNING}
