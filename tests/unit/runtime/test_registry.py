"""An application is found by name, and what cannot be found or imported is said in one sentence with its place."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perenne import App
from perenne.errors import InvalidInput
from perenne.runtime import registry


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Writes a module of a project, in which the test stands; forgotten at the end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)

    def write(name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text(text)

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


def refused(reference: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        registry.find(reference, Path.cwd())
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def test_a_module_of_the_folder_is_found(module: Callable[[str, str], None]) -> None:
    """`module:name` is the App of that name, with the folder importable."""
    module("rgfound", "from perenne import App\nshop = App('shop')")
    assert registry.find("rgfound:shop", Path.cwd()).name == "shop"


def test_an_installed_application_is_found() -> None:
    """A bare name is an entry point."""
    found = registry.find("evidence", Path.cwd())
    assert isinstance(found, App)
    assert found is registry.installed("evidence")
    assert "evidence" in registry.names()
    assert registry.installed("nothing") is None


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("import os\n\nx = undefined", "rgbroken.py, line 3", "NameError"),
        ("from perenne import App\napp = App('x'", "rgbroken.py, line 2", "SyntaxError"),
        ("\n\nimport nothing_of_that_name", "rgbroken.py, line 3", "nothing_of_that_name"),
        ("import sys\nsys.exit('go away')", "rgbroken.py, line 2", "SystemExit: go away"),
        ("import json\njson.loads('{')", "rgbroken.py, line 2", "JSONDecodeError"),
        ("def f():\n    return f()\nf()", "rgbroken.py, line 2", "RecursionError"),
        ("from perenne import App\napp = App('')", "rgbroken.py, line 2", "InvalidInput"),
        ("raise MemoryError", "rgbroken.py, line 1", "MemoryError"),
    ],
)
def test_a_module_that_does_not_import(module: Callable[[str, str], None], text: str, place: str, said: str) -> None:
    """File and line of the program's own fault are shown, and what it was; no traceback."""
    module("rgbroken", text)
    sentence = refused("rgbroken:app")
    assert place in sentence
    assert said in sentence
    assert "Traceback" not in sentence


def test_a_circle_is_called_one(module: Callable[[str, str], None]) -> None:
    """Two modules that need each other are told so, with the line and the way out."""
    module("rgone", "from rgtwo import help\nfrom perenne import App\napp = App('x')")
    module("rgtwo", "from rgone import app\ndef help(): ...")
    sentence = refused("rgone:app")
    assert "rgtwo.py, line 1" in sentence
    assert "in a circle" in sentence


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("rgshop:ap", "did you mean 'app'?); give rgshop:app"),
        ("rgshop:add", "'add' of module 'rgshop' is a function, not an App; give rgshop:app"),
        ("rgshop.py:app", "give rgshop:app"),
        ("rgshop:", "give rgshop:app"),
        (":app", "give module:name"),
        ("rg shop:app", "give module:name"),
        ("rgshop", "rgshop:app for an App in a module of the current folder"),
        ("rgshop.sub:app", "no module 'rgshop.sub'"),
        ("rgabsent:app", "no module 'rgabsent'"),
        ("", "is not installed"),
    ],
)
def test_what_is_not_there(module: Callable[[str, str], None], reference: str, said: str) -> None:
    """A wrong reference is told what would be a right one."""
    module("rgshop", "from perenne import App\napp = App('shop')\ndef add(): ...")
    assert said in refused(reference)
