"""One kind: makes pieces of memory, batch by batch, holds each batch, and answers one digest of all pieces in order.

The digest does not depend on how the governor cut the work, so that it proves that nothing was lost or done twice.
"""

from __future__ import annotations

import hashlib

import msgspec

from perenne import Context, Estimate, Kind

FIXED_BYTES = 64 << 20  # of an interpreter in a process of its own
MOST_BATCH = 4


class Load(msgspec.Struct, frozen=True):
    """So many pieces of so many bytes; `seed` tells one job's pieces from another's."""

    seed: int
    pieces: int
    piece_bytes: int


class Done(msgspec.Struct, frozen=True):
    """How many pieces are in the digest."""

    pieces: int
    digest: str


def estimate(load: Load) -> Estimate:
    """What a sequence of such a job holds."""
    return Estimate(
        memory_bytes=FIXED_BYTES,
        memory_per_item_bytes=load.piece_bytes,
        max_batch=MOST_BATCH,
        items=load.pieces,
        work_class="cpu",
    )


def hold(context: Context, load: Load) -> str:
    """A sequence a batch; the digest of all pieces."""
    done: Done = context.state or Done(0, "")
    while done.pieces < load.pieces:
        batch = min(context.batch, load.pieces - done.pieces)
        held = [piece(load, done.pieces + number) for number in range(batch)]
        done = Done(done.pieces + batch, digest(done.digest, held))
        del held  # before the break: what it holds is given back with the reservation
        context.progress(done.pieces, load.pieces)
        context.sequence_break(done)
    return done.digest


def piece(load: Load, number: int) -> bytes:
    """One piece, every page of it written."""
    word = hashlib.sha256(f"{load.seed} {number}".encode()).digest()
    return word * (load.piece_bytes // len(word))


def digest(before: str, pieces: list[bytes]) -> str:
    """Of what came before, and of these pieces, in order."""
    for one in pieces:
        before = hashlib.sha256(before.encode() + hashlib.sha256(one).digest()).hexdigest()
    return before


def undisturbed(load: Load) -> str:
    """The digest as one process without an engine computes it, piece by piece."""
    found = ""
    for number in range(load.pieces):
        found = digest(found, [piece(load, number)])
    return found


KIND = Kind("loads.hold", 1, hold, Load, state_type=Done, estimate=estimate, isolation="process")
