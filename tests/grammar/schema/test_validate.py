from __future__ import annotations

from typing import Any

import pytest

from chatwrap.errors import SchemaError
from chatwrap.grammar.schema.validate import value_faults


def test_all_faults_are_told_with_their_paths() -> None:
    schema = {"properties": {"a": {"minimum": 3}, "b": {"items": {"format": "date"}}}, "required": ["c"]}
    assert sorted(map(str, value_faults({"a": 1, "b": ["2024-02-30"]}, schema))) == [
        "$.a: 1 is less than the minimum of 3.",
        "$.b[0]: '2024-02-30' is not a 'date'.",
        "$: 'c' is a required property.",
    ]


def test_the_draft_is_the_one_that_is_named() -> None:
    tuple_of_one = {"items": [{"type": "null"}]}
    draft_7 = {"$schema": "http://json-schema.org/draft-07/schema#", **tuple_of_one}
    assert value_faults([None, 3], draft_7) == []


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"pattern": "\\p{L}"}, "bad escape"),
        ({"$ref": "https://example.org/other.json"}, "other.json"),
        ({"$ref": "#/$defs/none"}, "none"),
        ({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, "recursion"),
    ],
)
def test_what_cannot_be_validated_is_a_typed_error(schema: Any, problem: str) -> None:
    with pytest.raises(SchemaError) as error:
        value_faults("x", schema)
    assert str(error.value).startswith("$: the answer can't be validated: ")
    assert problem in str(error.value)
