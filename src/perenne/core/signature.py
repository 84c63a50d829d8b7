"""What a plain function takes, as the typed input of a kind: made from its annotations and defaults.

What does not live here: the kind itself (`kind`), and how a call becomes a job (`perenne.task`).
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from perenne.errors import InvalidInput

CONTEXT_NAMES = ("context", "ctx")


class Signature:
    """How one function is called, and the struct that its arguments are stored as.

    A first parameter named `context` or `ctx`, or annotated as `Context`, is the context of the attempt and no input.
    Raises: InvalidInput: names the function and the parameter that cannot be stored.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = getattr(function, "__name__", type(function).__name__)
        parameters = list(_parameters(function, self.name))
        self.takes_context = bool(parameters) and _is_context(parameters[0])
        given = parameters[1:] if self.takes_context else parameters
        self._given = [one.replace(annotation=_type_of(function, self.name, one)) for one in given]
        self._binder = inspect.Signature(self._given)
        self.input_type = _struct(function, self.name, self._given)

    def __str__(self) -> str:
        return f"{self.name}{self._binder}"

    def bind(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> msgspec.Struct:
        """The input of such a call; its values are checked by the kind, and not yet here.

        Raises: InvalidInput: an argument is missing, or there is no such parameter.
        """
        try:
            bound = self._binder.bind(*arguments, **named)
        except TypeError as error:
            raise InvalidInput(f"task {self.name}: {error}; call it as {self}", field="input") from None
        return self.input_type(**bound.arguments)  # type: ignore[no-any-return]

    def handler(self, function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
        """The function as a kind calls it, with a context and a typed input."""
        positional = [given.name for given in self._given if given.kind is not given.KEYWORD_ONLY]
        by_name = [given.name for given in self._given if given.kind is given.KEYWORD_ONLY]

        @functools.wraps(function)
        def handle(context: Any, input: Any) -> Any:
            first = [context] if self.takes_context else []
            values = [getattr(input, name) for name in positional]
            return function(*first, *values, **{name: getattr(input, name) for name in by_name})

        @functools.wraps(function)
        async def handle_awaiting(context: Any, input: Any) -> Any:
            return await handle(context, input)

        return handle_awaiting if inspect.iscoroutinefunction(function) else handle


def _parameters(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidInput(f"task {name}: it is a generator; return the result instead of yielding it", field=name)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"task: {error}; decorate a function", field=name) from None
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise _refused(name, parameter, "takes any number of values; name each one, or take a list or a dict")
    return parameters


def _is_context(parameter: inspect.Parameter) -> bool:
    if parameter.kind is parameter.KEYWORD_ONLY:
        return False
    annotated = parameter.annotation
    spelled = annotated if isinstance(annotated, str) else getattr(annotated, "__name__", "")
    return parameter.name in CONTEXT_NAMES or spelled.strip("'\" ").endswith("Context")


def _struct(function: Callable[..., Any], name: str, parameters: list[inspect.Parameter]) -> Any:
    """The struct with one field a parameter; what it does not know it refuses, so that no argument is lost."""
    fields: list[Any] = []
    for parameter in parameters:
        default = () if parameter.default is parameter.empty else (_checked_default(name, parameter),)
        fields.append((parameter.name, parameter.annotation, *default))
    try:
        return msgspec.defstruct(
            name, fields, module=function.__module__, kw_only=True, frozen=True, forbid_unknown_fields=True
        )
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInput(f"task {name}: {error}; its parameters cannot be stored as they are", field=name) from None


def _type_of(function: Callable[..., Any], name: str, parameter: inspect.Parameter) -> Any:
    """The annotation of one parameter, as a type that JSON can hold."""
    if parameter.annotation is parameter.empty:
        raise _refused(name, parameter, f"has no annotation; write its type, such as `{parameter.name}: int`")
    spelled = f"is annotated as {_spelled(parameter.annotation)}"
    lone = _Annotated({parameter.name: parameter.annotation})
    try:
        names = getattr(inspect.unwrap(function), "__globals__", {})
        found = typing.get_type_hints(lone, globalns=names, include_extras=True)[parameter.name]
    except Exception as error:  # an annotation is any expression
        raise _refused(name, parameter, f"{spelled} ({error}); define that type at the top of its module") from None
    try:
        msgspec.json.schema(found)
    except (TypeError, RecursionError):
        why = f"{spelled}, which JSON cannot hold"
        raise _refused(name, parameter, f"{why}; take a type that msgspec reads without help") from None
    return found


class _Annotated:
    """Something that has these annotations and no others, so that an error is about the one parameter."""

    def __init__(self, annotations: dict[str, Any]) -> None:
        self.__annotations__ = annotations


def _spelled(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _checked_default(name: str, parameter: inspect.Parameter) -> Any:
    if isinstance(parameter.default, list | dict | set) and parameter.default:
        raise _refused(name, parameter, f"has the default {parameter.default}, which could be changed; take None")
    try:
        msgspec.convert(msgspec.to_builtins(parameter.default), parameter.annotation, strict=True)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        why = f"has a default that does not fit its type ({error})"
        say = f"{why}; write one that does, such as `{parameter.name}: … | None = None`"
        raise _refused(name, parameter, say) from None
    return parameter.default


def _refused(name: str, parameter: inspect.Parameter, why: str) -> InvalidInput:
    return InvalidInput(f"task {name}: parameter {parameter.name} {why}", field=parameter.name, task=name)
