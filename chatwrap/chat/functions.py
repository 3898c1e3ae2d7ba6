"""What a function is that a model may call: a description and the schema of its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, JsonValue, ValidationError

from chatwrap.errors import Fault, HistoryError


class ChatModelFunction(BaseModel):
    """A function's description and the JSON Schema of its parameters (None: it takes none).

    The JSON form is node-llama-cpp's: ``{"description": ..., "params": {...}}``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    description: str | None = None
    parameters: dict[str, JsonValue] | None = Field(
        default=None, validation_alias=AliasChoices("params", "parameters"), serialization_alias="params"
    )

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


ChatModelFunctions: TypeAlias = Mapping[str, ChatModelFunction]
FunctionsLike: TypeAlias = Mapping[str, ChatModelFunction | Mapping[str, Any]]


def as_functions(functions: FunctionsLike | None, *, where: str = "functions") -> ChatModelFunctions:
    """`functions` by name, each read from its JSON form where it isn't a `ChatModelFunction` yet.

    Raises `HistoryError` with all faults.

    >>> as_functions({"now": {"description": "The time."}})["now"].description
    'The time.'
    """
    if functions is None:
        return MappingProxyType({})
    if not isinstance(functions, Mapping):
        kind = type(functions).__name__
        remedy = "Give {name: {'description': ..., 'params': {...}}}."
        raise HistoryError.of(where, f"a {kind}, not a mapping of names to functions.", remedy)
    read: dict[str, ChatModelFunction] = {}
    faults: list[Fault] = []
    for name, value in functions.items():
        if not isinstance(name, str):
            faults.append(Fault(where, f"a name must be a string, not {name!r}."))
            continue
        try:
            known = isinstance(value, ChatModelFunction)
            read[name] = value if known else ChatModelFunction.model_validate(value)  # type: ignore[assignment]
        except ValidationError as error:
            for detail in error.errors():
                steps = "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in detail["loc"])
                faults.append(Fault(f"{where}.{name}{steps}", f"{detail['msg']}."))
    if faults:
        raise HistoryError(faults)
    return MappingProxyType(read)
