from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from chatwrap.chat.json_text import dump_json
from chatwrap.errors import HistoryError
from tests.chat.strategies import json_values


@given(json_values)
def test_it_is_json_in_the_look_of_python(value: Any) -> None:
    assert json.loads(dump_json(value)) == value
    assert dump_json(value) == json.dumps(value, ensure_ascii=False)


def test_a_lone_surrogate_is_written_as_its_escape() -> None:
    assert dump_json({"\ud800": ["a\udfff"]}) == '{"\\ud800": ["a\\udfff"]}'
    assert json.loads(dump_json("\ud83d")) == "\ud83d"
    dump_json("\ud83d").encode()


def _nested() -> Any:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    return value


def _circle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            object,
            "x: can't be written as JSON: Object of type type is not JSON serializable. Give JSON values.",
        ),
        (
            {1, 2},
            "x: can't be written as JSON: Object of type set is not JSON serializable. Give JSON values.",
        ),
        (
            b"a",
            "x: can't be written as JSON: Object of type bytes is not JSON serializable. Give JSON values.",
        ),
        (_nested(), "x: nested too deep to be written as JSON. Flatten it."),
        (_circle(), "x: can't be written as JSON: Circular reference detected. Give JSON values."),
    ],
    ids=["type", "set", "bytes", "nested", "circle"],
)
def test_what_json_cant_hold(value: Any, message: str) -> None:
    with pytest.raises(HistoryError) as caught:
        dump_json(value, where="x")
    assert str(caught.value) == message


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_json_lacks(value: float) -> None:
    with pytest.raises(HistoryError) as caught:
        dump_json({"a": value}, where="result of f")
    message = str(caught.value)
    assert message.startswith("result of f: can't be written as JSON: Out of range float values")
    assert message.endswith(". Give JSON values.")
