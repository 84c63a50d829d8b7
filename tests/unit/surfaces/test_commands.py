"""What every command keeps to: help with an example, JSON on each read, and messages that stay as they are."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

import perenne
from perenne import App
from perenne.surfaces.cli.main import cli, main

READS = {"graph", "timeline", "ps", "show", "logs", "wait", "doctor", "version"}
VERBS = {
    "init", "worker", "submit", "ps", "show", "logs", "cancel", "pause", "resume", "requeue", "resolve", "release",
    "wait", "stop", "export", "import", "backup", "restore", "purge", "migrate", "doctor", "version", "completion",
    "graph", "timeline",
}  # fmt: skip
GOLDEN = re.findall(
    r"^\$ perenne (.*)\n(\d): (.*)$", Path(__file__).with_name("messages.txt").read_text(encoding="utf-8"), re.MULTILINE
)


def test_every_verb_is_there() -> None:
    """The command line has the verbs whose part exists, and messages of it are kept."""
    assert len(GOLDEN) > 15
    assert set(cli.commands) >= VERBS


@pytest.mark.parametrize("name", sorted(cli.commands))
def test_help_has_an_example(name: str) -> None:
    """The help of each command shows one that can be typed, and says what each option is for."""
    command = cli.commands[name]
    assert command.help
    example = command.help.partition("Example: ")[2]
    assert f"perenne {name}" in example
    assert len(command.get_short_help_str(100)) <= 60
    assert all(option.help for option in command.params if isinstance(option, click.Option))


@pytest.mark.parametrize("name", sorted(READS))
def test_every_read_has_json(name: str) -> None:
    """What is shown to people is also given to programs."""
    assert "--json" in {word for option in cli.commands[name].params for word in option.opts}


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command in a folder with one workspace, and gives the line with which it is refused."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERENNE_WORKSPACE", raising=False)
    perenne.create(tmp_path / "w", App("messages"), name="W")

    def run(words: str, code: int) -> str:
        assert main(words.split()) == code
        out, err = capsys.readouterr()
        assert out == ""
        return err.replace(str(tmp_path), "HERE")

    return run


@pytest.mark.parametrize(("words", "code", "message"), GOLDEN)
def test_messages_stay_as_they_are(say: Callable[..., str], words: str, code: str, message: str) -> None:
    """Each refusal is one line with field, value, limit and next step, and this exit code."""
    assert say(words, int(code)) == f"perenne: {message}\n"


def test_a_start_loads_no_engine() -> None:
    """Asking for help waits neither for the database nor for an application."""
    code = (
        "import sys; from perenne.surfaces.cli.main import main; main(['--help']); "
        "print(sorted(name for name in ('apsw', 'msgspec', 'asyncio', 'perenne.wiring', 'perenne.apps') "
        "if name in sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout.splitlines()[-1] == "[]"
