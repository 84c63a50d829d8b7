"""Every fact of every sample mail: the facts were made by others, and no fact goes unjudged."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from perenne.apps.evidence.mail import Analysis, analyse
from perenne.apps.evidence.mail.artefact import Message
from perenne.apps.evidence.mail.header_facts import Mailbox
from perenne.apps.evidence.mail.part_facts import Attachment

ROOT = Path(__file__).parents[5]
OWN = sorted((ROOT / "examples/evidence/eml").glob("*.eml"))
# Those of others are read where they lie beside the checkout, and are no part of it.
OTHERS = sorted(
    path for path in (ROOT.parent / "shared/data/evidence/eml").glob("*.eml") if not path.name.startswith("own-")
)
SAMPLES = [*OWN, *OTHERS]
# What says where a file is from, and what the facts' writer wanted to add.
ABOUT = {"file", "origin", "source_file", "modified", "note", "date_note"}
# What a winmail.dat holds is for the kind that opens containers.
OF_CONTAINERS = {"tnef"}
DEFECTS = {
    "2: multipart without parts": "multipart_without_parts",
    "top: no blank line after the header": "header_unterminated",
    "top: unknown transfer encoding x-gzip64": "coding_unknown",
}


def facts_of(path: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((path.parents[1] / "facts" / f"{path.stem}.json").read_bytes())
    return facts


def people(mailboxes: tuple[Mailbox, ...]) -> list[dict[str, str]]:
    return [{"name": one.name, "addr": one.address} for one in mailboxes]


def told(data: bytes, found: Analysis, message: Message) -> dict[str, Any]:
    """What the analysis says, in the words of the facts."""
    date, sent = message.date, message.message_id
    results = {one.method: one.result for one in message.authentication if one.trust == "topmost"}
    seals = [one for one in message.signatures if one.header == "arc-seal"]
    return {
        "sha256": hashlib.sha256(data).hexdigest(),
        "size": len(data),
        "subject": message.subject.value if message.subject else None,
        "from": people(message.from_),
        "to": people(message.to),
        "cc": people(message.cc),
        "date_utc": date.instant if date else None,
        "date_raw": date.raw if date else None,
        "message_id": sent.value if sent else None,
        "received_hops": len(message.hops),
        "received_dates_utc": [hop.date.instant if hop.date else None for hop in message.hops],
        "auth": results | {"arc_instances": len(seals), "arc_cv": seals[0].chain if seals else None},
        "attachment_count": len(message.attachments),
        "urls": sorted({link.target for link in message.links}),
        "inline_uuencode": [
            {"filename": one.name, "size": one.size_bytes, "sha256": one.sha256} for one in message.uuencoded
        ],
        "defects_seen": [defect.kind for defect in found.defects],
    }


def judge(data: bytes, found: Analysis, message: Message, facts: dict[str, Any]) -> int:
    """Compare all facts of a message and of those nested in it; gives the number of attachments whose hash is right."""
    known = told(data, found, message)
    for name, wanted in facts.items():
        if name == "defects_seen":
            assert {DEFECTS[one] for one in wanted} <= set(known[name])
        elif name not in ABOUT | {"attachments"} and not name.endswith("_also"):
            assert known[name] in (wanted, *facts.get(f"{name}_also", ())), name
    right = 0
    for attachment, wanted in zip(message.attachments, facts.get("attachments", ()), strict=True):
        right += judge_attachment(attachment, message, wanted)
        if "message" in wanted:
            nested = next(one for one in found.messages if one.path == attachment.message)
            content = b"" if nested.space else data[nested.offset : nested.offset + nested.length]
            right += judge(content, found, nested, wanted["message"])
    return right


def judge_attachment(attachment: Attachment, message: Message, facts: dict[str, Any]) -> int:
    """Compare one attachment; its path counts from the file or from its own message, whose whole body is `m` there."""
    assert set(facts) <= {"path", "content_type", "filename", "size", "sha256", "message", "note"} | OF_CONTAINERS | {
        "sha256_also",
        "filename_also",
    }
    from_message = attachment.path.removeprefix(f"{message.path}.")
    assert facts["path"] in (attachment.path, from_message, "m" if from_message == "1" else None)
    assert attachment.type == facts["content_type"]
    assert attachment.name in (facts["filename"], *facts.get("filename_also", ()))
    assert attachment.sha256 in (facts["sha256"], *facts.get("sha256_also", ()))
    assert attachment.sha256 != facts["sha256"] or attachment.size_bytes == facts["size"]
    return 1


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_every_fact_is_right(path: Path) -> None:
    """Subject, people, dates, ids, hops, results, attachments, links and nested messages are what the facts say."""
    data = path.read_bytes()
    found = analyse(data)
    assert "internal_error" not in {defect.kind for defect in found.defects}
    judge(data, found, found.messages[0], facts_of(path))


def test_all_samples_and_all_hashes_are_judged(shared_data: Path) -> None:
    """There are 32 mails, and each attachment that the facts name, at any depth, has its hash."""
    assert shared_data.is_dir()
    judged = 0
    for path in SAMPLES:
        data = path.read_bytes()
        found = analyse(data)
        judged += judge(data, found, found.messages[0], facts_of(path))
    assert (len(SAMPLES), judged) == (32, 39)
