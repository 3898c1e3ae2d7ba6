"""The pydantic type of a `Property`."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Union

from pydantic import Field, create_model

from chatwrap.prompts.properties import (
    AnyProperty,
    BooleanProperty,
    DictProperty,
    FloatProperty,
    IntegerProperty,
    ListProperty,
    NullProperty,
    ObjectProperty,
    Property,
    StringProperty,
    UnionProperty,
)

_SCALARS: Final[dict[type[Property], Any]] = {
    StringProperty: str,
    IntegerProperty: int,
    FloatProperty: float,
    BooleanProperty: bool,
    NullProperty: None,
    AnyProperty: Any,
}
_CONSTRAINTS: Final = {
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
    "minLength": "min_length",
    "maxLength": "max_length",
    "minItems": "min_length",
    "maxItems": "max_length",
    "pattern": "pattern",
}


def type_of(found: Property) -> Any:
    """The type whose values pydantic takes for a property.

    Constraints that pydantic has no word for (``oneOf``, ``contains``, ...) stand in the type's JSON
    Schema, but pydantic doesn't check them.
    """
    kind = _plain_type(found)
    known: dict[str, Any] = {
        _CONSTRAINTS[key]: value for key, value in found.constraints.items() if key in _CONSTRAINTS
    }
    others: dict[str, Any] = {
        key: value for key, value in found.constraints.items() if key not in _CONSTRAINTS
    }
    if found.enum is not None or not (known or others or found.description):
        return kind
    return Annotated[
        kind, Field(**known, description=found.description or None, json_schema_extra=others or None)
    ]


def _plain_type(found: Property) -> Any:
    if found.enum is not None:
        return Literal[found.enum]
    match found:
        case ListProperty():
            return list[type_of(found.item_type)]  # type: ignore[misc]
        case DictProperty():
            return dict[str, type_of(found.value_type)]  # type: ignore[misc]
        case ObjectProperty():
            return _model(found)
        case UnionProperty():
            return Union[tuple(type_of(each) for each in found.any_of)]  # noqa: UP007 - made of values
        case _:
            return _SCALARS[type(found)]


def _model(found: ObjectProperty) -> Any:
    fields: dict[str, Any] = {}
    for name, value in found.properties.items():
        required = name in (found.required or ())
        default = ... if required else (value.default_value if value.has_default else None)
        kind = type_of(value)
        fields[name] = (kind if required or value.has_default else kind | None, default)
    return create_model(found.name or "Object", **fields)
