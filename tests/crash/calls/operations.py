"""Every operation whose calls are counted."""

from __future__ import annotations

from calls import evidence_operations, sample_operations, upkeep_operations

OPERATIONS = {
    operation.name: operation
    for operation in (*sample_operations.OPERATIONS, *upkeep_operations.OPERATIONS, *evidence_operations.OPERATIONS)
}
