"""What the house asks of SQL: named blocks that say what they promise and take, and no statement built from text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from perenne.store.named_sql import load

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "perenne"
FOLDERS = sorted(PACKAGE.glob("store/*/queries"))
BLOCK = re.compile(r"^-- name: (\w+)\n((?:-- [^\n]*\n)*)(.*?)(?=^-- name: |\Z)", re.MULTILINE | re.DOTALL)
PARAMETER = re.compile(r":([a-z_]+)\b")
NOTE = re.compile(r" \([^)]*\)")  # what a parameter is: `:jobs (JSON)`
QUOTED = re.compile(r"'[^']*'")
# Words that open a statement of SQL and no sentence of ours.
STATEMENT = re.compile(
    r"\s*(select\s.+\sfrom\s|insert\s+(or\s+\w+\s+)?into\s|update\s+\w+\s+set\s|delete\s+from\s|create\s+(\w+\s+)?(table|index)\s"
    r"|drop\s+(table|index)\s|alter\s+table\s|attach\s|explain\s+query|pragma\s)",
    re.IGNORECASE | re.DOTALL,
)


def blocks_of(text: str) -> dict[str, tuple[list[str], str]]:
    """Comment lines and statement of each named block."""
    return {name: (comment.splitlines(), body.strip()) for name, comment, body in BLOCK.findall(text)}


def every_block() -> dict[str, tuple[list[str], str]]:
    """Every block of every dialect, by file and name."""
    files = [file for folder in FOLDERS for file in sorted(folder.glob("*.sql"))]
    return {
        f"{file.parent.parent.name}/{file.stem}/{name}": block
        for file in files
        for name, block in blocks_of(file.read_text(encoding="utf-8")).items()
    }


def faults_of(comment: list[str], body: str) -> list[str]:
    """What is wrong with one block."""
    found = []
    bare = QUOTED.sub("''", body)
    taken = sorted(set(PARAMETER.findall(bare)))
    said = [line.removeprefix("-- ") for line in comment]
    first = next((number for number, line in enumerate(said) if line.startswith(":")), len(said))
    promise, listed = " ".join(said[:first]), NOTE.sub("", " ".join(said[first:]))
    if not promise.endswith("."):
        found.append("no sentence that says what it promises")
    if sorted(listed.split(", ") if listed else []) != [f":{name}" for name in taken]:
        found.append(f"the parameters are {', '.join(taken) or 'none'}")
    if bare != bare.lower():
        found.append("words in capitals")
    if re.search(r"select \*|returning \*|\.\*", bare):
        found.append("columns that are not spelled out")
    if "?" in bare:
        found.append("a parameter without a name")
    return found


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("-- name: a\n-- All of it.\nselect x\nfrom t\n", 0),
        ("-- name: a\n-- One of it.\n-- :id, :now\nselect x, 'A :b'\nfrom t\nwhere id = :id\nand y < :now + :id\n", 0),
        ("-- name: a\nselect x\nfrom t\n", 1),
        ("-- name: a\n-- no sentence\nselect x\nfrom t\n", 1),
        ("-- name: a\n-- One of it. :id\nselect x\nfrom t\nwhere id = :id\n", 2),
        ("-- name: a\n-- Long,\n-- very.\n-- :b (JSON), :a,\n-- :c\nselect x\nfrom t\nwhere id in (:a, :b, :c)\n", 0),
        ("-- name: a\n-- One of it.\n-- :id\nselect x\nfrom t\nwhere id = :other\n", 1),
        ("-- name: a\n-- All of it.\nSELECT x\nfrom t\n", 1),
        ("-- name: a\n-- All of it.\nselect *\nfrom t\n", 1),
        ("-- name: a\n-- One of it.\nselect x\nfrom t\nwhere id = ?\n", 1),
    ],
)
def test_a_fault_of_a_block_is_found(text: str, faults: int) -> None:
    """Each rule is tried with a block that breaks it."""
    ((comment, body),) = blocks_of(text).values()
    assert len(faults_of(comment, body)) == faults


def test_every_block_is_as_it_should_be() -> None:
    """A block says what it promises, then lists its parameters; it is lower case and spells its columns."""
    blocks = every_block()
    assert len(blocks) > 50
    assert {name: faults for name, block in blocks.items() if (faults := faults_of(*block))} == {}


def constants(source: str) -> set[str]:
    """A pattern for every word that stands in a module as a text, also with a gap: `f"{verb}_births_of"`."""
    nodes = list(ast.walk(ast.parse(source)))
    words = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    gapped = {
        "".join(part.value if isinstance(part, ast.Constant) else r"\w+" for part in node.values)
        for node in nodes
        if isinstance(node, ast.JoinedStr)
    }
    return {word for word in words | gapped if re.fullmatch(r"(\w|\\w\+)*[a-z]{3}(\w|\\w\+)*", word)}


def asked_for(source: str) -> set[str]:
    """Names of queries that a module asks a transaction for."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and node.args)
    return {
        call.args[0].value
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and ast.unparse(call.func) in {"tx.one", "tx.all", "tx.run"}
        and isinstance(call.args[0], ast.Constant)
    }


def sources() -> dict[str, str]:
    """Every module of the package, by its path."""
    return {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in PACKAGE.glob("**/*.py")}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)
def test_every_query_is_used(folder: Path) -> None:
    """No block is left over from code that is gone."""
    used = set().union(*map(constants, sources().values()))
    assert [name for name in load(folder) if not any(re.fullmatch(pattern, name) for pattern in used)] == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)
def test_every_query_that_is_asked_for_exists(folder: Path) -> None:
    """Each name that a transaction is asked for is a block in every dialect."""
    wanted = {name: path for path, source in sources().items() for name in asked_for(source)}
    assert len(wanted) > 50
    assert {name: path for name, path in wanted.items() if name not in load(folder)} == {}


def built_statements(source: str) -> Iterator[int]:
    """Line numbers where SQL is put together from pieces; a pragma may take a number, which cannot be a parameter."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr) and any(isinstance(part, ast.FormattedValue) for part in node.values):
            text = "".join(part.value if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
            text = first_text(node.left)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
            text = first_text(node.func.value)
        else:
            continue
        if STATEMENT.match(text) and not re.fullmatch(r"pragma \w+ = \w+", text):
            yield node.lineno


def first_text(node: ast.expr) -> str:
    """The text that an expression begins with, followed by something."""
    if isinstance(node, ast.BinOp):
        return first_text(node.left)
    return f"{node.value} x x x " if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ('execute(f"select a from {table}")', [1]),
        ('execute("select a from " + table)', [1]),
        ('x = 1\nexecute("delete from %s" % table)', [2]),
        ('execute("insert into {} values (1)".format(table))', [1]),
        ('execute(f"create table {name} (n integer)")', [1]),
        ('execute(f"pragma user_version = {number}")', []),
        ('execute(f"pragma user_version = {number}; drop table {name}")', [1]),
        ('execute("select a from t where n = :n", values)', []),
        ('say(f"select a file from {folder} yourself")', [1]),
        ('say(f"update {name}, then try again")', []),
        ('say("select " "a from t")', []),
    ],
)
def test_built_sql_is_found(source: str, lines: list[int]) -> None:
    """SQL put together by any means is found; texts, parameters and numbered pragmas are left alone."""
    assert list(built_statements(source)) == lines


def test_no_statement_is_built_from_text() -> None:
    """Nothing in the package puts SQL together: what varies is a parameter."""
    found = {path: list(built_statements(source)) for path, source in sources().items()}
    assert {path: lines for path, lines in found.items() if lines} == {}
