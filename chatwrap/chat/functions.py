"""What a function is that a model may call: a description, the schema of its parameters, who runs it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self, TypeAlias

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, JsonValue, ValidationError

from chatwrap.chat.callables import (
    ModelHandler,
    callable_name,
    signature_of_callable,
    signature_of_model,
)
from chatwrap.errors import Fault, HistoryError

Handler: TypeAlias = Callable[..., Any]


class ChatModelFunction(BaseModel):
    """A function's description and the JSON Schema of its parameters (None: it takes none).

    `handler` is what runs a call: it is given the arguments by name, and what it returns (or awaits, if
    it is ``async``) is the result. The JSON form is node-llama-cpp's, without the handler:
    ``{"description": ..., "params": {...}}``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    description: str | None = None
    parameters: dict[str, JsonValue] | None = Field(
        default=None, validation_alias=AliasChoices("params", "parameters"), serialization_alias="params"
    )
    handler: Handler | None = Field(default=None, exclude=True, repr=False)

    @classmethod
    def from_callable(cls, function: Callable[..., Any]) -> Self:
        """The function that a Python callable is: described by its signature and docstring, run by it.

        Raises `HistoryError` for a signature that a model can't follow.

        >>> def weather(city: str, days: int = 1) -> str:
        ...     '''The weather.
        ...
        ...     Args:
        ...         city: Where.
        ...     '''
        >>> function = ChatModelFunction.from_callable(weather)
        >>> function.description, function.parameters["properties"]["city"]
        ('The weather.', {'type': 'string', 'description': 'Where.'})
        """
        signature, handler = signature_of_callable(function)
        return cls(description=signature.description, parameters=signature.parameters, handler=handler)

    @classmethod
    def from_model(cls, model: type[BaseModel], handler: Callable[[Any], Any] | None = None) -> Self:
        """The function whose arguments are a pydantic model's fields; `handler` is given the object."""
        signature, adapter = signature_of_model(model)
        run = None if handler is None else ModelHandler(handler, adapter)
        return cls(description=signature.description, parameters=signature.parameters, handler=run)

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


FunctionLike: TypeAlias = "ChatModelFunction | Mapping[str, Any] | Callable[..., Any] | type[BaseModel]"
ChatModelFunctions: TypeAlias = Mapping[str, ChatModelFunction]
FunctionsLike: TypeAlias = (
    "Mapping[str, FunctionLike] | Mapping[str, ChatModelFunction] | Sequence[Callable[..., Any]]"
)


def as_functions(functions: FunctionsLike | None, *, where: str = "functions") -> ChatModelFunctions:
    """`functions` by name: those of a mapping, or callables and pydantic models by their own names.

    In a mapping, a function may also be in its JSON form, with a ``handler`` if it has one.

    Raises `HistoryError` with all faults.

    >>> as_functions({"now": {"description": "The time."}})["now"].description
    'The time.'
    """
    if functions is None:
        return MappingProxyType({})
    faults: list[Fault] = []
    read: dict[str, ChatModelFunction] = {}
    names: set[str] = set()
    for name, value in _named(functions, faults, where):
        if not isinstance(name, str):
            faults.append(Fault(where, f"a name must be a string, not {name!r}."))
            continue
        if name in names:
            faults.append(Fault(where, f"a second function {name!r}.", "Rename one."))
        names.add(name)
        try:
            read[name] = _function(value)
        except ValidationError as error:
            faults += _faults(error, f"{where}.{name}")
        except HistoryError as error:
            faults += error.faults
    if faults:
        raise HistoryError(faults)
    return MappingProxyType(read)


def _named(functions: Any, faults: list[Fault], where: str) -> Iterable[tuple[Any, Any]]:
    """The functions with their names; what has none is a fault."""
    if isinstance(functions, Mapping):
        return functions.items()
    if isinstance(functions, str) or not isinstance(functions, Sequence):
        remedy = "Give callables in a list, or {name: {'description': ..., 'params': {...}}}."
        raise HistoryError.of(where, f"{functions!r:.60} are no functions.", remedy)
    named: list[tuple[Any, Any]] = []
    for index, value in enumerate(functions):
        if not callable(value):
            remedy = "Give callables in a list, or {name: {'description': ..., 'params': {...}}}."
            faults.append(Fault(f"{where}[{index}]", f"{value!r:.60} isn't callable.", remedy))
            continue
        try:
            named.append((callable_name(value), value))
        except HistoryError as error:
            faults += error.faults
    return named


def _function(value: Any) -> ChatModelFunction:
    if isinstance(value, ChatModelFunction):
        return value
    if inspect.isclass(value) and issubclass(value, BaseModel):
        return ChatModelFunction.from_model(value)
    return ChatModelFunction.from_callable(value) if callable(value) else _from_json(value)


def _from_json(value: Any) -> ChatModelFunction:
    return ChatModelFunction.model_validate(value)


def _faults(error: ValidationError, where: str) -> Iterable[Fault]:
    for detail in error.errors():
        steps = "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in detail["loc"])
        yield Fault(f"{where}{steps}", f"{detail['msg']}.")
