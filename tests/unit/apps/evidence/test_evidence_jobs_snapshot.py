"""The jobs snapshot: the contract of the reference, to the letter, and the schema that says it."""

from __future__ import annotations

import json
import re
import stat
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perenne.apps.evidence import jobs_snapshot, places
from perenne.apps.evidence.jobs_snapshot import JobLine, snapshot, write_snapshot
from perenne.errors import InvalidInput

ID = "82000000-0000-4000-8000-000000000001"
LINE = JobLine(
    job_id="82000000-0000-4000-8000-000000000011",
    request_id="82000000-0000-4000-8000-000000000012",
    source_evidence_id="82000000-0000-4000-8000-0000000000e1",
    derivative_evidence_id="82000000-0000-4000-8000-000000000013",
    capability_id="labfy.capability.eml_headers.v1",
    state="COMPLETED",
    result_status="published",
    diagnostic="recovered_after_publish",
    attempt_count=1,
    cancel_requested=False,
    revision=4,
    requested_at="2026-09-26T21:00:00Z",
)
ENGINE_STATES = (
    "BLOCKED", "QUEUED", "RUNNING", "PAUSED", "RETRY_WAIT", "PAUSED_QUOTA", "RECOVERY_REQUIRED", "COMPLETED", "FAILED",
    "CANCELLED", "DEAD",
)  # fmt: skip
SCHEMA = json.loads(resources.files("perenne.apps.evidence").joinpath("jobs-snapshot.schema.json").read_text("utf-8"))

KNOWN_KEYWORDS = {
    "$schema", "title", "description", "type", "additionalProperties", "required", "properties", "$defs", "$ref",
    "const", "enum", "pattern", "items", "minimum", "minLength", "maxLength",
}  # fmt: skip
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}


def faults(value: Any, schema: dict[str, Any], at: str = "$") -> list[str]:
    """What a value breaks of a JSON Schema; a keyword this checker does not know is a fault too."""
    found = [f"{at}: keyword {name} is not checked" for name in schema.keys() - KNOWN_KEYWORDS]
    if "$ref" in schema:
        return found + faults(value, SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")], at)
    if "const" in schema and value != schema["const"]:
        found.append(f"{at}: not the constant")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{at}: {value!r} is none of the words")
    kind = schema.get("type")
    if kind is not None and (not isinstance(value, TYPES[kind]) or (kind == "integer" and isinstance(value, bool))):
        return [*found, f"{at}: {value!r} is no {kind}"]
    if isinstance(value, dict):
        found += [f"{at}: {name} is missing" for name in schema.get("required", ()) if name not in value]
        for name, item in value.items():
            known = schema.get("properties", {}).get(name)
            found += faults(item, known, f"{at}.{name}") if known is not None else [f"{at}: {name} is unknown"]
    if isinstance(value, list):
        found += [fault for rank, item in enumerate(value) for fault in faults(item, schema["items"], f"{at}[{rank}]")]
    if isinstance(value, str):
        if len(value) < schema.get("minLength", 0) or len(value) > schema.get("maxLength", len(value)):
            found.append(f"{at}: length {len(value)}")
        if "pattern" in schema and not re.search(schema["pattern"], value):
            found.append(f"{at}: {value!r} does not match")
    if isinstance(value, int) and value < schema.get("minimum", value):
        found.append(f"{at}: {value} is too small")
    return found


def line(**changed: Any) -> JobLine:
    return msgspec.structs.replace(LINE, **changed)


def only_job(**changed: Any) -> dict[str, Any]:
    content = snapshot(ID, [line(**changed)])
    document = json.loads(content)
    assert faults(document, SCHEMA) == []
    (job,) = document["jobs"]
    assert isinstance(job, dict)
    return job


def test_bytes_of_one_job() -> None:
    """The file is exactly this, field by field and in this order."""
    assert snapshot(ID, [LINE]) == (
        b'{"contract":"labfy.local_jobs.snapshot.v1","investigation_id":"82000000-0000-4000-8000-000000000001",'
        b'"jobs":[{"job_id":"82000000-0000-4000-8000-000000000011",'
        b'"request_id":"82000000-0000-4000-8000-000000000012",'
        b'"source_evidence_id":"82000000-0000-4000-8000-0000000000e1",'
        b'"derivative_evidence_id":"82000000-0000-4000-8000-000000000013",'
        b'"capability_id":"labfy.capability.eml_headers.v1","state":"COMPLETED","result_status":"published",'
        b'"diagnostic":"recovered_after_publish","attempt_count":1,"cancel_requested":false,"revision":4}],"plans":[]}\n'
    )


def test_no_job() -> None:
    """Without jobs both arrays are there and empty."""
    document = json.loads(snapshot(ID, []))
    assert faults(document, SCHEMA) == []
    assert (document["jobs"], document["plans"]) == ([], [])


def test_nulls_are_empty_strings() -> None:
    """What has no value is the empty string (T-28)."""
    job = only_job(state="QUEUED", result_status=None, diagnostic=None)
    assert (job["result_status"], job["diagnostic"]) == ("", "")


@pytest.mark.parametrize("state", jobs_snapshot.STATES)
def test_states_of_the_contract_stay(state: str) -> None:
    """The eight words of the contract are exported as they are."""
    job = only_job(state=state, result_status=None, diagnostic="text")
    assert (job["state"], job["result_status"], job["diagnostic"]) == (state, "", "text")


@pytest.mark.parametrize(
    ("state", "spoken", "result_status"),
    [("PAUSED", "BLOCKED", "blocked"), ("PAUSED_QUOTA", "BLOCKED", "limit_reached"), ("DEAD", "FAILED", "failed")],
)
def test_other_states_are_spoken(state: str, spoken: str, result_status: str) -> None:
    """A state outside the eight words is exported as the nearest one, with the true state in the diagnostic (EV-11)."""
    job = only_job(state=state, result_status=None, diagnostic="attempts_exhausted")
    assert (job["state"], job["result_status"], job["diagnostic"]) == (
        spoken,
        result_status,
        f"{state}: attempts_exhausted",
    )
    assert only_job(state=state, result_status=None, diagnostic=None)["diagnostic"] == state


def test_every_state_of_the_engine_has_a_word() -> None:
    """No job of the engine refuses the export."""
    assert set(ENGINE_STATES) == set(jobs_snapshot.STATES) | {"PAUSED", "PAUSED_QUOTA", "DEAD"}
    for state in ENGINE_STATES:
        assert only_job(state=state)["state"] in jobs_snapshot.STATES


@pytest.mark.parametrize("text", ["x" * 5000, "é" * 3000, "€" * 3000, "😀" * 3000, "x" + "😀" * 3000, "\x00\n" * 2000])
@pytest.mark.parametrize("state", ["FAILED", "DEAD"])
def test_diagnostic_is_cut_between_characters(text: str, state: str) -> None:
    """A diagnostic has at most 2048 bytes, ends with a whole character, and keeps the true state (T-3)."""
    diagnostic = only_job(state=state, diagnostic=text)["diagnostic"]
    assert 2044 < len(diagnostic.encode()) <= 2048
    assert (f"DEAD: {text}" if state == "DEAD" else text).startswith(diagnostic)


def test_half_a_character_does_not_refuse_the_export() -> None:
    """Text that is no Unicode is replaced, not raised."""
    assert only_job(diagnostic="a\udc80b")["diagnostic"] == "a?b"


def test_order_is_by_request_then_id() -> None:
    """Jobs stand in the order of their request, then of their id, however they come."""
    lines = [
        line(requested_at=at, job_id=f"82000000-0000-4000-8000-0000000000{number}")
        for at, number in (
            ("2026-09-26T21:00:01Z", "01"),
            ("2026-09-26T21:00:00Z", "03"),
            ("2026-09-26T21:00:00Z", "02"),
        )
    ]
    ids = [job["job_id"][-2:] for job in json.loads(snapshot(ID, iter(lines)))["jobs"]]
    assert ids == ["02", "03", "01"]
    assert snapshot(ID, lines) == snapshot(ID, lines[::-1])


@pytest.mark.parametrize(
    ("field", "value"),
    [("state", "SLEEPING"), ("state", ""), ("result_status", "fine"), ("attempt_count", -1), ("revision", -1)],
)
def test_other_words_are_refused(field: str, value: object) -> None:
    """What the contract cannot say is refused, naming the field and the job."""
    with pytest.raises(InvalidInput, match=rf"^{field}: .*{LINE.job_id}"):
        snapshot(ID, [line(**{field: value})])


def test_only_the_contract_leaves() -> None:
    """No instant, path, token or anything else stands in a job (E-2)."""
    assert set(only_job()) == set(SCHEMA["$defs"]["job"]["required"]) == set(SCHEMA["$defs"]["job"]["properties"])


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("contract",), "labfy.local_jobs.snapshot.v2"),
        (("extra",), 1),
        (("plans",), None),
        (("investigation_id",), "X"),
        (("jobs", 0, "state"), "PAUSED"),
        (("jobs", 0, "attempt_count"), True),
        (("jobs", 0, "attempt_count"), -1),
        (("jobs", 0, "diagnostic"), None),
        (("jobs", 0, "diagnostic"), "x" * 2049),
        (("jobs", 0, "cancel_requested"), 0),
        (("jobs", 0, "owner_token"), "x"),
        (("jobs", 0), []),
    ],
)
def test_schema_refuses_what_is_wrong(place: tuple[str | int, ...], value: object) -> None:
    """The published schema is strict: each of these files breaks it."""
    document: Any = json.loads(snapshot(ID, [LINE]))
    target = document
    for step in place[:-1]:
        target = target[step]
    target[place[-1]] = value
    assert faults(document, SCHEMA)


def test_schema_says_every_field_of_a_plan() -> None:
    """Plans, empty now, are already described with the fields of L:E-3."""
    plan = SCHEMA["$defs"]["plan"]
    assert set(plan["required"]) == set(plan["properties"])
    assert len(plan["required"]) == 23


def test_file_is_replaced_whole_and_private(root: Path) -> None:
    """The export is 0600, replaces the last one, and leaves no stage file."""
    path = root / places.JOBS_SNAPSHOT
    write_snapshot(root, [LINE])
    assert path.read_bytes() == snapshot(ID, [LINE])
    write_snapshot(root, [])
    assert path.read_bytes() == snapshot(ID, [])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [item.name for item in root.glob("jobs-snapshot*")] == [path.name]


def test_refused_export_leaves_the_last_one(root: Path) -> None:
    """When the lines cannot be said, the last file stands."""
    write_snapshot(root, [LINE])
    with pytest.raises(InvalidInput):
        write_snapshot(root, [line(state="SLEEPING")])
    assert (root / places.JOBS_SNAPSHOT).read_bytes() == snapshot(ID, [LINE])


def test_link_is_replaced_not_followed(root: Path, tmp_path: Path) -> None:
    """A symlink in place of the export does not carry it elsewhere."""
    outside = tmp_path / "outside.json"
    outside.write_bytes(b"theirs")
    (root / places.JOBS_SNAPSHOT).symlink_to(outside)
    write_snapshot(root, [])
    assert outside.read_bytes() == b"theirs"
    assert not (root / places.JOBS_SNAPSHOT).is_symlink()
