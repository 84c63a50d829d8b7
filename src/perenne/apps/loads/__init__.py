"""Loads: jobs that hold as much memory as they say, for the demonstration of the governor."""

from __future__ import annotations

from perenne import App
from perenne.apps.loads import jobs

app = App("loads", kinds=(jobs.KIND,))
