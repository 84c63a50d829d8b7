"""The commands of Evidence from outside: what they do, what they say, how they end."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perenne.surfaces.cli.main import main

SAMPLES = Path(__file__).parents[2] / "examples" / "evidence"
MAIL = b"From: a@one.example\r\nTo: b@two.example\r\n\r\nHello.\r\n"
HEADERLESS = b"From: a@one.example\r\nno line is empty here\r\n"


def snapshot(workspace: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((workspace / "jobs-snapshot.json").read_bytes())
    return value


def states(perenne: Any, workspace: Path) -> list[str]:
    return [job["state"] for job in perenne.jobs(workspace)]


@pytest.mark.usefixtures("with_exiftool")
def test_samples_go_from_import_to_snapshot(perenne: Any, tmp_path: Path) -> None:
    """Mails and pictures are imported, enqueued, analysed and exported; progress is shown job by job."""
    case = tmp_path / "case"
    perenne.done("create", "--title", "Été 7", "--workspace", case)
    imported = perenne.done("import", SAMPLES / "eml", SAMPLES / "img", "--workspace", case).splitlines()
    assert len(imported) == 13
    assert imported[-1] == "12 files imported, 0 reused"
    assert perenne.done("enqueue", "--workspace", case).splitlines()[-1] == "12 jobs enqueued"
    said = perenne.done("run", "--slots", "2", "--workspace", case).splitlines()
    assert said[0] == "12 jobs to do"
    assert sorted(re.findall(r"^\[ ?\d+/12\] COMPLETED", "\n".join(said), re.MULTILINE)) == sorted(
        f"[{number:>2}/12] COMPLETED" for number in range(1, 13)
    )
    assert said[-1] == "ended: 12 COMPLETED; all jobs: 12 COMPLETED"
    exported = snapshot(case)
    assert exported["contract"] == "labfy.local_jobs.snapshot.v1"
    assert [(job["state"], job["result_status"], job["attempt_count"]) for job in exported["jobs"]] == [
        ("COMPLETED", "published", 1)
    ] * 12


def test_import_and_enqueue_twice_are_once(perenne: Any, case: Path) -> None:
    """The same files are reused, and what has a job gets no second one."""
    again = perenne.done("import", SAMPLES / "eml", "--workspace", case).splitlines()
    assert again[-1] == "0 files imported, 6 reused"
    assert perenne.done("enqueue", "--workspace", case).splitlines()[-1] == "6 jobs enqueued"
    assert perenne.done("enqueue", "--workspace", case) == "nothing to enqueue\n"
    assert states(perenne, case) == ["QUEUED"] * 6


def test_a_folder_is_imported_with_all_below_it(perenne: Any, tmp_path: Path) -> None:
    """A folder stands for every file below it, in order; a link in it is refused by name."""
    (tmp_path / "mails" / "inner").mkdir(parents=True)
    (tmp_path / "mails" / "b.eml").write_bytes(MAIL + b"b")
    (tmp_path / "mails" / "inner" / "a.eml").write_bytes(MAIL + b"a")
    perenne.done("create", "--title", "Case", "--workspace", tmp_path / "case")
    said = perenne.done("import", tmp_path / "mails", "--workspace", tmp_path / "case")
    assert [line.split()[-1] for line in said.splitlines()[:-1]] == ["b.eml", "a.eml"]
    (tmp_path / "mails" / "z.eml").symlink_to("b.eml")
    ended = perenne("import", tmp_path / "mails", "--workspace", tmp_path / "case")
    assert (ended.code, ended.err.count("z.eml is a symbolic link")) == (2, 1)


def test_submit_is_idempotent_by_key(perenne: Any, case: Path) -> None:
    """The key is the job's id; the same key again is the same job, and an active analysis admits no second one."""
    evidence = perenne.done("import", SAMPLES / "eml/own-04-split-word.eml", "--workspace", case).split()[0]
    key = "11111111-2222-4333-8444-555555555555"
    words = ["submit", "--evidence", evidence, "--capability", "labfy.capability.eml_headers.v1", "--workspace", case]
    assert perenne.done(*words, "--key", key) == f"{key}  accepted\n"
    assert perenne.done(*words, "--key", key) == f"{key}  reused\n"
    second = perenne(*words)
    assert second.code == 2
    assert f"job {key} is not finished yet" in second.err
    perenne.done("run", "--workspace", case)
    assert perenne.done(*words).endswith("  accepted\n")
    assert states(perenne, case) == ["COMPLETED", "QUEUED"]
    ids = {job["job_id"]: job for job in snapshot(case)["jobs"]}
    # The ids of the reference, from the SHA-256 of `key:request` and `key:derivative` (L:Q-6).
    assert ids[key]["request_id"] == "f39797f9-2512-48af-8134-7b58558dd399"
    assert ids[key]["derivative_evidence_id"] == "64dcf9e4-15ca-45e9-8340-99ad71623624"


def test_a_full_queue_takes_what_fits(perenne: Any, tmp_path: Path) -> None:
    """Enqueue fills the queue, is refused with the bound and the number that waits outside, and goes on later."""
    case = tmp_path / "case"
    perenne.done("create", "--title", "Case", "--queue-limit", "4", "--workspace", case)
    perenne.done("import", SAMPLES / "eml", "--workspace", case)
    ended = perenne("enqueue", "--workspace", case)
    assert ended.code == 3
    assert ended.err.startswith(
        "perenne: 4 jobs enqueued, 2 pieces of evidence wait outside: queue default: 4 unfinished"
    )
    assert ended.err.count("\n") == 1
    assert len(states(perenne, case)) == 4
    perenne.done("run", "--workspace", case)
    assert perenne.done("enqueue", "--workspace", case).splitlines()[-1] == "2 jobs enqueued"


def test_a_mail_that_cannot_be_read_fails_alone(perenne: Any, case: Path, tmp_path: Path) -> None:
    """A hopeless mail fails after one attempt with a sentence, the others are done, and the exit code is 1."""
    (tmp_path / "bad.eml").write_bytes(HEADERLESS)
    perenne.done("import", tmp_path / "bad.eml", "--workspace", case)
    perenne.done("enqueue", "--workspace", case)
    ended = perenne("run", "--workspace", case)
    assert ended.code == 1, ended
    assert ended.out.splitlines()[-1] == "ended: 6 COMPLETED · 1 FAILED; all jobs: 6 COMPLETED · 1 FAILED"
    (failed,) = [job for job in perenne.jobs(case) if job["state"] == "FAILED"]
    assert (failed["file"], failed["attempt_count"]) == ("bad.eml", 1)
    assert failed["diagnostic"].startswith("invalid_input: ")
    assert perenne("run", "--workspace", case).code == 0, "an old failure is no failure of this run (T-14)"


def test_an_altered_original_is_never_analysed(perenne: Any, case: Path) -> None:
    """A mail whose copy was changed fails with a sentence that says so; nothing of it is published."""
    perenne.done("enqueue", "--workspace", case)
    original = min((case / "01_Preuves_Originales" / "Emails").iterdir())
    original.write_bytes(original.read_bytes() + b"changed")
    ended = perenne("run", "--workspace", case)
    assert ended.code == 1, ended
    (failed,) = [job for job in perenne.jobs(case) if job["state"] == "FAILED"]
    assert failed["evidence_id"] == original.stem
    assert "restore the file" in failed["diagnostic"]
    assert len(list((case / "02_Preuves_Traitees/Extractions/EML").iterdir())) == 5


def test_a_tampered_publication_needs_a_person(perenne: Any, specimen: Path) -> None:
    """What a dead worker published and somebody changed is neither trusted nor overwritten; the exit code is 4."""
    killed = perenne("run", "--workspace", specimen, PERENNE_CRASH_POINT="publish.committed")
    assert killed.code == -9, killed
    (artefact,) = (specimen / "02_Preuves_Traitees/Extractions/EML").iterdir()
    artefact.write_bytes(artefact.read_bytes().replace(b"alice@", b"elice@"))
    tampered = artefact.read_bytes()
    ended = perenne("run", "--workspace", specimen)
    assert ended.code == 4, ended
    assert "SHA-256" in ended.out
    assert states(perenne, specimen) == ["RECOVERY_REQUIRED", "BLOCKED"]
    assert artefact.read_bytes() == tampered


def test_a_failed_export_is_reported_and_touches_no_job(perenne: Any, case: Path) -> None:
    """When the snapshot cannot be written the jobs end all the same, and one line says so once (L:E-5)."""
    perenne.done("enqueue", "--workspace", case)
    (case / "jobs-snapshot.json").unlink()
    (case / "jobs-snapshot.json" / "in the way").mkdir(parents=True)
    ended = perenne("run", "--workspace", case)
    assert ended.code == 0, ended
    assert ended.err.count("perenne: jobs-snapshot.json was not written") == 1
    assert ended.err.count("\n") == 1
    assert states(perenne, case) == ["COMPLETED"] * 6


def test_a_killed_worker_is_settled_by_the_next(perenne: Any, specimen: Path) -> None:
    """A worker killed before publishing costs its job one attempt; the next one runs it again."""
    killed = perenne("run", "--workspace", specimen, PERENNE_CRASH_POINT="publish.begun")
    assert killed.code == -9, killed
    perenne("run", "--workspace", specimen)
    mail = perenne.jobs(specimen)[0]
    assert (mail["state"], mail["attempt_count"]) == ("COMPLETED", 2)


@pytest.mark.parametrize("point", ["import.staged", "import.renamed", "import.written"])
def test_a_killed_import_leaves_nothing_after_the_next_run(perenne: Any, specimen: Path, point: str) -> None:
    """What an import left that was killed before its commit is removed when a worker starts."""
    folder = specimen / "01_Preuves_Originales" / "Emails"
    before = sorted(folder.iterdir())
    killed = perenne("import", SAMPLES / "eml", "--workspace", specimen, PERENNE_CRASH_POINT=point)
    assert killed.code == -9, killed
    assert sorted(folder.iterdir()) != before
    perenne("run", "--workspace", specimen)
    assert sorted(folder.iterdir()) == before


def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """Each command has help with an example, and the group lists them all."""
    assert main(["evidence", "--help"]) == 0
    names = re.findall(r"^  ([a-z-]+)  ", capsys.readouterr().out.partition("Commands:")[2], re.MULTILINE)
    wanted = "init-specimen create import adopt enqueue submit run resume pause stop cancel status export demo mail"
    assert sorted(names) == sorted(wanted.split())
    for name in names:
        assert main(["evidence", name, "--help"]) == 0
        assert f"Example: perenne evidence {name}" in capsys.readouterr().out, name


def test_help_and_version_need_no_application() -> None:
    """`perenne --help` lists the applications without loading one, and `perenne version` names what it stands on."""
    program = (
        "import sys\n"
        "from perenne.surfaces.cli.main import main\n"
        "assert main(['--help']) == 0 and main(['version']) == 0\n"
        "assert not [name for name in sys.modules if name.startswith('perenne.apps.')]\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert re.search(r"^  evidence  ", ended.stdout, re.MULTILINE)
    assert re.search(r"^perenne \d", ended.stdout, re.MULTILINE)
