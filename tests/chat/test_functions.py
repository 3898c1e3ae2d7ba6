from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from chatwrap import ChatModelFunction
from chatwrap.chat.functions import as_functions
from chatwrap.errors import HistoryError


def now() -> str:
    """The time."""
    return "noon"


SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def test_both_spellings_of_parameters() -> None:
    function = ChatModelFunction(description="F.", parameters=SCHEMA)
    for key in ("params", "parameters"):
        assert as_functions({"f": {"description": "F.", key: SCHEMA}}) == {"f": function}
    assert function.to_json() == {"description": "F.", "params": SCHEMA}
    assert ChatModelFunction().to_json() == {}
    assert as_functions({"f": function})["f"] is function


def test_none_are_no_functions() -> None:
    assert as_functions(None) == as_functions({}) == {}


def test_functions_are_values() -> None:
    with pytest.raises(ValidationError):
        ChatModelFunction().description = "a"  # type: ignore[misc]
    with pytest.raises(TypeError):
        as_functions({})["f"] = ChatModelFunction()  # type: ignore[index]


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        (
            [{"name": "f"}, now],
            "functions[0]: {'name': 'f'} isn't callable. "
            "Give callables in a list, or {name: {'description': ..., 'params': {...}}}.",
        ),
        (
            "now",
            "functions: 'now' are no functions. "
            "Give callables in a list, or {name: {'description': ..., 'params': {...}}}.",
        ),
        (
            [lambda: 1],
            "functions: <lambda> has no name. Give {'name': function}.",
        ),
        (
            [len],
            "functions.len.obj: is positional only. A model names arguments.",
        ),
        (
            [now, now],
            "functions: a second function 'now'. Rename one.",
        ),
        ({"f": {"description": 1}}, "functions.f.description: Input should be a valid string."),
        (
            {"f": {"handler": 1}, "g": {"params": []}},
            "functions.f.handler: Input should be callable.\n"
            "functions.g.params: Input should be a valid dictionary.",
        ),
        ({1: {}}, "functions: a name must be a string, not 1."),
        (
            {"f": "now"},
            "functions.f: Input should be a valid dictionary or instance of ChatModelFunction.",
        ),
    ],
)
def test_what_are_no_functions(functions: Any, message: str) -> None:
    with pytest.raises(HistoryError) as caught:
        as_functions(functions)
    assert str(caught.value) == message
