"""The source of luck as one value, so that a test can hold it."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Luck:
    """`fraction` is uniform in [0, 1); `bytes` gives so many unguessable bytes."""

    fraction: Callable[[], float]
    bytes: Callable[[int], bytes]


SYSTEM = Luck(random.random, os.urandom)
