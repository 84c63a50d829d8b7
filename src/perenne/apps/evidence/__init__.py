"""Evidence: mail and image forensics on the engine, for an investigator with one folder on one computer."""

from __future__ import annotations

from perenne import App
from perenne.apps.evidence import custody, jobs, migrations

app = App(
    "evidence",
    kinds=(jobs.MAIL_KIND, jobs.PICTURE_KIND, jobs.WHOLE_MAIL_KIND),
    queues={"default": 128},
    runtime=".labfy/runtime",
    one_worker=True,
    commands="perenne.apps.evidence.commands:group",
    migrations=migrations.STEPS,
    doctor=custody.look,
)
