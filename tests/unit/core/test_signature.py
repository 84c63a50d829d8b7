"""A plain function's parameters become a typed input, or the one that cannot is named."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest

from perenne.core.signature import Signature
from perenne.errors import InvalidInput


def add(a: int, b: int = 3) -> int:
    return a + b


def with_context(context: Any, name: str, /, *, loud: bool = False) -> tuple[Any, str, bool]:
    return context, name, loud


def with_typed_context(held: perenne.Context, name: str) -> tuple[Any, str]:  # type: ignore[name-defined]  # noqa: F821
    return held, name


def without_annotation(a: int, b) -> None: ...  # type: ignore[no-untyped-def]


def method(self, a: int) -> None: ...  # type: ignore[no-untyped-def]


def a_path(where: Path) -> None: ...


def unknown(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def implicit_none(a: int = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013


def any_number(*numbers: int) -> None: ...


def any_name(**names: int) -> None: ...


def mutable(numbers: list[int] = [1]) -> None: ...  # noqa: B006


def mangled(__a: int) -> None: ...


def generator(a: int) -> Any:
    yield a


async def async_generator() -> Any:
    yield 1


def nested(a: dict[str, list[tuple[int, Path]]]) -> None: ...


def bounded(a: Annotated[int, msgspec.Meta(ge=1)] = 1) -> int:
    return a


def test_arguments_become_a_typed_value_that_calls_the_function() -> None:
    """By place or by name, with or without the default, the same call is the same input."""
    signature = Signature(add)
    call = signature.handler(add)
    assert signature.bind((2,), {}) == signature.bind((), {"b": 3, "a": 2})
    assert call(None, signature.bind((2, 5), {})) == 7
    assert msgspec.json.encode(signature.bind((2,), {}), order="sorted") == b'{"a":2,"b":3}'
    assert (call.__name__, str(signature)) == ("add", "add(a: int, b: int = 3)")


@pytest.mark.parametrize("function", [with_context, with_typed_context])
def test_the_context_is_no_input(function: Any) -> None:
    """A first parameter named or typed as the context is filled in by the engine and stored nowhere."""
    signature = Signature(function)
    assert signature.input_type.__struct_fields__[0] == "name"
    assert signature.handler(function)("the context", signature.bind(("Ada",), {}))[:2] == ("the context", "Ada")


def test_keyword_only_parameters_are_given_by_name() -> None:
    """Parameters before `/` and after `*` reach the function as it asks for them."""
    signature = Signature(with_context)
    assert signature.handler(with_context)(0, signature.bind(("Ada",), {"loud": True})) == (0, "Ada", True)


def test_bounds_of_an_annotation_are_kept() -> None:
    """What msgspec knows of a type beside its name is checked, too."""
    with pytest.raises(msgspec.ValidationError, match=">= 1"):
        msgspec.json.decode(b'{"a":0}', type=Signature(bounded).input_type)


@pytest.mark.parametrize(
    ("function", "parameter", "why"),
    [
        (without_annotation, "b", "no annotation"),
        (method, "self", "no annotation"),
        (a_path, "where", "JSON cannot hold"),
        (nested, "a", "JSON cannot hold"),
        (unknown, "a", "name 'Nowhere' is not defined"),
        (implicit_none, "a", "default that does not fit"),
        (mutable, "numbers", "could be changed"),
        (any_number, "numbers", "name each one"),
        (any_name, "names", "name each one"),
        (mangled, "__a", "cannot be stored"),
    ],
)
def test_a_parameter_that_cannot_be_stored_is_named(function: Any, parameter: str, why: str) -> None:
    """One sentence says which function, which parameter, and what to write instead."""
    with pytest.raises(InvalidInput) as refused:
        Signature(function)
    said = str(refused.value)
    assert f"task {function.__name__}: " in said
    assert parameter in said
    assert why in said
    assert "\n" not in said


@pytest.mark.parametrize("what", [generator, async_generator, 3, int, "text", None])
def test_what_is_no_plain_function_is_refused(what: Any) -> None:
    """A generator of either colour, a value and a builtin type make no task."""
    with pytest.raises(InvalidInput, match="task"):
        Signature(what)


@pytest.mark.parametrize(
    ("arguments", "named", "why"),
    [((), {}, "'a'"), ((1, 2, 3), {}, "too many"), ((1,), {"c": 3}, "'c'"), ((1,), {"a": 1}, "'a'")],
)
def test_a_call_that_does_not_fit_is_refused(arguments: Any, named: Any, why: str) -> None:
    """A missing, an additional and an unknown argument are named, with the call as it should be."""
    with pytest.raises(InvalidInput, match=why) as refused:
        Signature(add).bind(arguments, named)
    assert "add(a: int, b: int = 3)" in str(refused.value)
