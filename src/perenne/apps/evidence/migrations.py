"""The tables of Evidence in the ledger's database: what was adopted from the reference program (EV-2).

Steps are never changed, only added. What stands in the tables is written by `adoption` and read by `adopted`.
"""

from __future__ import annotations

STEPS = (
    """
    -- what was adopted from a job store of the reference program, and its plans as they stood
    create table evidence_adopted (
        path text primary key,
        sha256 text not null
    ) strict;

    create table evidence_plan (
        plan_id text primary key,
        idempotency_key text not null unique,
        intent_hash text not null,
        input_revision text not null,
        profile_id text not null,
        created_at text not null,
        state text not null,
        max_analyses integer not null,
        max_attempts_total integer not null,
        max_source_bytes integer not null,
        max_active_ms integer not null,
        reserved_analyses integer not null,
        reserved_attempts integer not null,
        reserved_source_bytes integer not null,
        consumed_attempts integer not null,
        consumed_active_ms integer not null
    ) strict;

    create table evidence_plan_job (
        plan_id text not null references evidence_plan (plan_id),
        rank integer not null,
        job_id text not null unique,
        primary key (plan_id, rank)
    ) strict, without rowid;
    """,
)
