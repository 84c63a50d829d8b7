"""`perenne evidence mail FILE`: one mail read from outside, without any investigation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perenne.surfaces.cli.main import main

SAMPLES = Path(__file__).parents[2] / "examples" / "evidence" / "eml"


def test_a_mail_is_shown_without_an_investigation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page has header, hops, recorded results, parts with hashes, links and findings, each with its bytes."""
    monkeypatch.chdir(tmp_path)
    sample = SAMPLES / "own-01-auth-chain.eml"
    assert main(["evidence", "mail", str(sample)]) == 0
    page = capsys.readouterr().out
    for words in (
        "from         Boutique Étoile <contact@shop.example>",
        "hops, the last one on top",
        "topmost",
        "1792+55",
    ):
        assert words in page
    assert "https://shop.example/suivi?c=4471&l=fr" in page
    assert page.count("sha256 ") == 3
    assert max(len(line) for line in page.splitlines()) <= 110
    assert list(tmp_path.iterdir()) == []


def test_json_is_the_whole_artefact(capsys: pytest.CaptureFixture[str]) -> None:
    """--json prints the artefact of the contract; a trusted receiver's own results count as its own."""
    sample = SAMPLES / "own-01-auth-chain.eml"
    assert main(["evidence", "mail", "--json", "--trusted", "MX2.mairie.example", str(sample)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["contract"] == "perenne.evidence.mail.v1"
    assert [one["trust"] for one in found["messages"][0]["authentication"]] == ["receiver"] * 3 + ["claim"] * 2


def test_what_a_mail_says_cannot_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters of a mail are spelled out on the page."""
    mail = tmp_path / "bell.eml"
    mail.write_bytes(b'Subject: a\x1b]0;b\x07\nContent-Type: x\x1b[2J/y; name="\x1b[31m.txt"\n\nx')
    assert main(["evidence", "mail", str(mail)]) == 0
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(("name", "said"), [("gone.eml", "cannot be read"), ("", "is a folder")])
def test_a_file_that_cannot_be_read_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, said: str
) -> None:
    """A missing file and a folder end with one sentence and exit code 2."""
    assert main(["evidence", "mail", str(tmp_path / name)]) == 2
    refusal = capsys.readouterr().err
    assert said in refusal
    assert refusal.count("\n") == 1


def test_a_mail_with_nested_messages_becomes_jobs(perenne: Any, tmp_path: Path) -> None:
    """Submitting a whole mail analyses it and each message within it once; the same key again is the same job."""
    case, key = tmp_path / "case", "11111111-2222-4333-8444-555555555555"
    perenne.done("create", "--title", "Case", "--workspace", case)
    evidence = perenne.done("import", SAMPLES / "own-05-nested-three.eml", "--workspace", case).split()[0]
    words = ["submit", "--evidence", evidence, "--capability", "evidence.mail", "--key", key, "--workspace", case]
    assert perenne.done(*words) == f"{key}  accepted\n"
    assert perenne.done("run", "--workspace", case).splitlines()[-1] == "ended: 3 COMPLETED; all jobs: 3 COMPLETED"
    artefacts = [
        json.loads(path.read_bytes()) for path in (case / "02_Preuves_Traitees/Extractions/EML").glob("*.json")
    ]
    assert sorted(len(one["steps"]) for one in artefacts) == [0, 1, 2]
    subjects = {one["analysis"]["messages"][0]["subject"]["value"] for one in artefacts}
    assert subjects == {"TR: TR: niveau un", "TR: niveau deux", "niveau trois"}
    assert perenne.done(*words) == f"{key}  reused\n"
    assert len(perenne.jobs(case)) == 3
