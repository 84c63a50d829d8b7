"""Every operation whose calls are counted."""

from __future__ import annotations

from calls import adoption_operations, evidence_operations, sample_operations, upkeep_operations

_FILES = (sample_operations, upkeep_operations, evidence_operations, adoption_operations)

OPERATIONS = {operation.name: operation for file in _FILES for operation in file.OPERATIONS}
