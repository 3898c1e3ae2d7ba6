"""What a Python callable or a pydantic model says of itself as a function: name, description, parameters."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind

from chatwrap.chat.json_text import dump_json
from chatwrap.errors import ArgumentsError, Fault, HistoryError

_NO_POSITIONS: Final = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional only",
    inspect.Parameter.VAR_POSITIONAL: "takes positional arguments",
}

_IGNORED: Final[set[JsonSchemaWarningKind]] = {"skipped-choice", "non-serializable-default"}


class _Schema(GenerateJsonSchema):
    """JSON Schema without what tells a model nothing: titles made of names, notes on defaults."""

    ignored_warning_kinds = _IGNORED

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Signature:
    """A function as a model sees it; `parameters` is None if it takes none."""

    name: str
    description: str | None
    parameters: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class TypedHandler:
    """Calls a Python function with JSON arguments, turned into the types it asks for.

    Raises `ArgumentsError` for arguments that don't fit, and else what the function raises. An
    ``async`` function gives its coroutine.
    """

    function: Callable[..., Any]
    arguments: TypeAdapter[tuple[tuple[Any, ...], dict[str, Any]]]

    def __call__(self, /, **arguments: Any) -> Any:
        positional, named = validated(self.arguments, arguments)
        return self.function(*positional, **named)


@dataclass(frozen=True, slots=True)
class ModelHandler:
    """Calls a function with one object of a pydantic model, made of the JSON arguments."""

    function: Callable[[Any], Any]
    arguments: TypeAdapter[Any]

    def __call__(self, /, **arguments: Any) -> Any:
        return self.function(validated(self.arguments, arguments))


def validated(adapter: TypeAdapter[Any], arguments: Mapping[str, Any]) -> Any:
    """JSON arguments as the adapter's value. Raises `ArgumentsError`, which names each fault."""
    try:
        return adapter.validate_json(dump_json(arguments, where="arguments"))
    except ValidationError as error:
        faults = [Fault(_path(detail["loc"]), f"{detail['msg']}.") for detail in error.errors()]
        raise ArgumentsError(faults) from None


def callable_name(function: Callable[..., Any]) -> str:
    """The name of a callable: a function's or class's own, that of what a partial calls, or of its class.

    Raises `HistoryError` for a lambda, which has none.
    """
    while isinstance(function, functools.partial):
        function = function.func
    name: str = getattr(function, "__name__", "") or type(function).__name__
    if not name.isidentifier():
        raise HistoryError.of("functions", f"{name} has no name.", "Give {'name': function}.")
    return name


def signature_of_callable(function: Callable[..., Any]) -> tuple[Signature, TypedHandler]:
    """What a callable says of itself by signature and docstring, and a handler that calls it.

    The description is the docstring's text; what it says of parameters (Google, NumPy and Sphinx
    styles) describes them, unless ``Field(description=...)`` does. ``**options`` take further names.

    Raises `HistoryError` for parameters that a model can't give: positional ones, types that JSON
    doesn't have, annotations that lead nowhere.
    """
    name = callable_name(function)
    where = f"functions.{name}"
    adapter = _arguments_adapter(function, where)
    try:
        schema = adapter.json_schema(schema_generator=_Schema)
    except PydanticUserError as error:
        raise _untyped(where, error) from None
    description, described = _documentation(function)
    _describe(schema, described)
    takes_any = schema.get("properties") or schema.get("additionalProperties")
    return Signature(name, description, schema if takes_any else None), TypedHandler(function, adapter)


def signature_of_model(model: type[BaseModel]) -> tuple[Signature, TypeAdapter[Any]]:
    """What a pydantic model says of itself as a function whose arguments are its fields."""
    adapter: TypeAdapter[Any] = TypeAdapter(model)
    try:
        schema = adapter.json_schema(schema_generator=_Schema)
    except PydanticUserError as error:
        raise _untyped(f"functions.{model.__name__}", error) from None
    schema.pop("title", None)
    description = schema.pop("description", None)
    return Signature(model.__name__, description, schema), adapter


def _arguments_adapter(function: Callable[..., Any], where: str) -> TypeAdapter[Any]:
    """An adapter from JSON arguments to ``(positional, named)`` values for the function."""

    def arguments(*positional: Any, **named: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return positional, named

    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError as error:
        remedy = "Annotate with types that the module knows."
        raise HistoryError.of(where, f"an annotation can't be read: {error}.", remedy) from None
    except (TypeError, ValueError) as error:
        raise HistoryError.of(
            where, f"no signature can be read: {error}.", "Wrap it in a function."
        ) from None
    _check_kinds(signature.parameters.values(), where)
    arguments.__signature__ = signature  # type: ignore[attr-defined]
    arguments.__annotations__ = {
        parameter.name: parameter.annotation
        for parameter in signature.parameters.values()
        if parameter.annotation is not parameter.empty
    }
    try:
        return TypeAdapter(arguments)  # type: ignore[arg-type]
    except PydanticUserError as error:
        raise _untyped(where, error) from None


def _check_kinds(parameters: Iterable[inspect.Parameter], where: str) -> None:
    faults = [
        Fault(f"{where}.{parameter.name}", f"{_NO_POSITIONS[parameter.kind]}.", "A model names arguments.")
        for parameter in parameters
        if parameter.kind in _NO_POSITIONS
    ]
    if faults:
        raise HistoryError(faults)


def _untyped(where: str, error: PydanticUserError) -> HistoryError:
    problem = error.message.splitlines()[0].split(". Set ")[0].rstrip(".")
    return HistoryError.of(where, f"{problem}.", "Annotate its parameters with types that JSON has.")


def _documentation(function: Callable[..., Any]) -> tuple[str | None, dict[str, str]]:
    """The docstring's text, and what it says of each parameter."""
    from docstring_parser import parse

    while isinstance(function, functools.partial):
        function = function.func
    is_object = not (inspect.isroutine(function) or inspect.isclass(function))
    text = inspect.getdoc(type(function).__call__ if is_object else function) or ""
    read = parse(text)
    described = {
        entry.arg_name.lstrip("*"): entry.description.strip() for entry in read.params if entry.description
    }
    return (read.description or "").strip() or None, described


def _describe(schema: dict[str, Any], described: Mapping[str, str]) -> None:
    for name, member in schema.get("properties", {}).items():
        if name in described:
            member.setdefault("description", described[name])


def _path(location: Iterable[int | str]) -> str:
    return "arguments" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
