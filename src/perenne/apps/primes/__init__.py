"""Primes: jobs that count in chunks and save after each, for the demonstration of checkpoints."""

from __future__ import annotations

from perenne import App
from perenne.apps.primes import jobs

app = App("primes", kinds=(jobs.KIND,))
