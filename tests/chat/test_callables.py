from __future__ import annotations

import asyncio
import datetime
import enum
import functools
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from chatwrap.chat.functions import ChatModelFunction, as_functions
from chatwrap.errors import ArgumentsError, HistoryError


class Unit(enum.Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


class Place(BaseModel):
    """Where it is."""

    lat: Annotated[float, Field(ge=-90, le=90)]
    lon: float


def weather(
    city: str,
    unit: Unit = Unit.CELSIUS,
    *,
    days: Annotated[int, Field(ge=1, description="How many.")] = 1,
    place: Place | None = None,
    schema: Literal["long", "short"] = "short",
) -> Any:
    """The weather to come.

    Told by the institute.

    Args:
        city: Its name.
        days: Said twice.
        schema (str): How much
            is told.

    Returns:
        What it will be like.
    """
    return city, unit, days, place, schema


def test_a_signature_and_its_docstring() -> None:
    function = ChatModelFunction.from_callable(weather)
    assert function.description == "The weather to come.\n\nTold by the institute."
    parameters = function.parameters
    assert parameters is not None
    definitions: Any = parameters.pop("$defs")
    assert definitions["Unit"]["enum"] == ["c", "f"] and definitions["Place"]["required"] == ["lat", "lon"]
    assert parameters == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "city": {"type": "string", "description": "Its name."},
            "unit": {"$ref": "#/$defs/Unit", "default": "c"},
            "days": {"type": "integer", "minimum": 1, "default": 1, "description": "How many."},
            "place": {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}], "default": None},
            "schema": {
                "type": "string",
                "enum": ["long", "short"],
                "default": "short",
                "description": "How much\nis told.",
            },
        },
        "required": ["city"],
    }


def test_a_handler_gets_the_types_it_asks_for() -> None:
    handler = ChatModelFunction.from_callable(weather).handler
    assert handler is not None
    assert handler(city="Oslo") == ("Oslo", Unit.CELSIUS, 1, None, "short")
    place = {"lat": 1, "lon": 2.5}
    assert handler(city="Oslo", unit="f", place=place)[1:4] == (Unit.FAHRENHEIT, 1, Place(lat=1, lon=2.5))
    with pytest.raises(ArgumentsError) as caught:
        handler(days="many", place={"lat": 100, "lon": 0})
    assert str(caught.value) == (
        "arguments.city: Missing required argument.\n"
        "arguments.days: Input should be a valid integer, unable to parse string as an integer.\n"
        "arguments.place.lat: Input should be less than or equal to 90."
    )


def test_what_a_function_raises_is_no_fault_of_the_arguments() -> None:
    def fails(self: int) -> None:
        raise ValueError(self)

    handler = ChatModelFunction.from_callable(fails).handler
    assert handler is not None
    with pytest.raises(ValueError, match="7"):
        handler(self=7)


def test_every_kind_of_callable() -> None:
    class Clock:
        """Not this."""

        def at(self, day: datetime.date, **others: int) -> Any:
            """The hour.

            Parameters
            ----------
            day : date
                When.
            """
            return day, others

        async def __call__(self, zone: str) -> str:
            """The time."""
            return zone

    clock = Clock()
    bound = functools.partial(weather, "Oslo", days=3)
    functions = as_functions([clock.at, clock, bound, lambda_named("now")])
    assert list(functions) == ["at", "Clock", "weather", "now"]
    at, called, rest, now = functions.values()
    assert at.parameters == {
        "type": "object",
        "properties": {"day": {"type": "string", "format": "date", "description": "When."}},
        "required": ["day"],
        "additionalProperties": {"type": "integer"},
    }
    assert at.handler is not None and rest.handler is not None and called.handler is not None
    assert at.handler(day="2026-01-31", x=1) == (datetime.date(2026, 1, 31), {"x": 1})
    assert called.description == "The time."
    assert asyncio.run(called.handler(zone="UTC")) == "UTC"
    assert rest.handler(unit="f") == ("Oslo", Unit.FAHRENHEIT, 3, None, "short")
    assert now.parameters is None and now.description is None and now.handler is not None


def lambda_named(name: str) -> Any:
    function = lambda: 1  # noqa: E731
    function.__name__ = name
    return function


def test_a_pydantic_model_is_a_function() -> None:
    assert as_functions([Place])["Place"].description == "Where it is."
    function = ChatModelFunction.from_model(Place, handler=lambda place: place.lat)
    assert function.parameters == {
        "type": "object",
        "properties": {
            "lat": {"type": "number", "minimum": -90, "maximum": 90},
            "lon": {"type": "number"},
        },
        "required": ["lat", "lon"],
    }
    assert function.handler is not None and function.handler(lat=1, lon=2) == 1.0
    with pytest.raises(ArgumentsError) as caught:
        function.handler(lat=91)
    assert str(caught.value) == (
        "arguments.lat: Input should be less than or equal to 90.\narguments.lon: Field required."
    )
    assert function.to_json() == {"description": "Where it is.", "params": function.parameters}


def test_a_default_that_json_lacks_does_no_harm() -> None:
    marker: Any = object()

    def find(name: str, start: Any = marker) -> Any:
        return start is marker

    function = ChatModelFunction.from_callable(find)
    assert function.handler is not None and function.handler(name="x") is True


def with_unknown(a: Missing) -> None:  # type: ignore[name-defined] # noqa: F821
    pass


def with_object(a: enum.EnumMeta) -> None:
    pass


def with_positions(a: int, /, *rest: int) -> None:
    pass


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            with_unknown,
            "functions.with_unknown: an annotation can't be read: name 'Missing' is not defined. "
            "Annotate with types that the module knows.",
        ),
        (
            with_object,
            "functions.with_object: Unable to generate pydantic-core schema for <class 'enum.EnumType'>. "
            "Annotate its parameters with types that JSON has.",
        ),
        (
            with_positions,
            "functions.with_positions.a: is positional only. A model names arguments.\n"
            "functions.with_positions.rest: takes positional arguments. A model names arguments.",
        ),
        (
            int,
            "functions.int: no signature can be read: no signature found for builtin type <class 'int'>. "
            "Wrap it in a function.",
        ),
    ],
)
def test_what_a_model_cannot_call(function: Any, message: str) -> None:
    with pytest.raises(HistoryError) as caught:
        ChatModelFunction.from_callable(function)
    assert str(caught.value) == message
