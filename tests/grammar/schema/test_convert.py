from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.validators import validator_for

from chatwrap.errors import SchemaError
from chatwrap.grammar.grammar import Grammar
from chatwrap.grammar.schema.convert import Options, convert
from tests.grammar.llama_oracle import LlamaOracle
from tests.grammar.trees import sample

CASES = json.loads(Path(__file__).parents[2].joinpath("cases/schemas.json").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_schemas_accept_and_reject(case: dict[str, Any]) -> None:
    grammar = Grammar.from_json_schema(case["schema"])
    oracle = LlamaOracle(grammar.gbnf)
    for wanted, texts in ((True, case["accepts"]), (False, case["rejects"])):
        assert [text for text in texts if grammar.accepts(text) is not wanted] == []
        assert [text for text in texts if oracle.accepts(text) is not wanted] == []
    assert grammar.report.is_exact


@pytest.mark.parametrize("case", [c for c in CASES if c.get("drawn", True)], ids=lambda case: case["name"])
def test_texts_drawn_from_a_grammar_are_valid(case: dict[str, Any]) -> None:
    """Not for a schema that jsonschema itself can't follow."""
    tree, _ = convert(case["schema"])
    draft = validator_for(case["schema"], default=Draft202012Validator)
    validator = draft(case["schema"], format_checker=FormatChecker())
    for seed in range(20):
        validator.validate(json.loads(sample(tree, seed)))


ERRORS: dict[str, tuple[Any, str]] = {
    "all faults together": (
        {
            "type": "object",
            "properties": {
                "a": {"type": "array", "uniqueItems": True},
                "b": {"type": "string", "pattern": "a(?=b)"},
            },
        },
        "$.properties.a.uniqueItems: can't be written as a grammar. "
        'Remove it, or pass unsupported="relax".\n'
        "$.properties.b.pattern: pattern 'a(?=b)' at character 2: lookahead (?= can't be written as a "
        'grammar. Say it without. Remove it, or pass unsupported="relax".',
    ),
    "nothing satisfies": (
        {"type": "string", "minLength": 2, "maxLength": 1},
        "$: no value satisfies this schema. Loosen what excludes everything.",
    ),
    "remote": (
        {"$ref": "https://x.org/y"},
        "$.$ref: 'https://x.org/y': other documents aren't fetched. "
        'Remove it, or pass unsupported="relax".',
    ),
    "dangling": (
        {"items": {"$ref": "#/$defs/x"}, "type": "array"},
        "$.items.$ref: '#/$defs/x': it names nothing in this schema. "
        'Remove it, or pass unsupported="relax".',
    ),
    "malformed": (
        {"type": "string", "minLength": "x"},
        "$.minLength: 'x' isn't a value that minLength can have. Remove it, or pass unsupported=\"relax\".",
    ),
    "no number of JSON": (
        {"multipleOf": float("inf"), "minimum": float("-inf"), "const": {"a": [float("inf")]}},
        "\n".join(
            f"$.{keyword}: {value} isn't a value that {keyword} can have. "
            'Remove it, or pass unsupported="relax".'
            for keyword, value in (("const", "{'a': [inf]}"), ("minimum", "-inf"), ("multipleOf", "inf"))
        ),
    ),
    "no schema": ([], "$: a schema is an object or a boolean, not []. Pass a schema."),
    "past the length limit": (
        {"type": "string", "minLength": 20_000},
        '$.minLength: a bound past 10,000 can\'t be written. Remove it, or pass unsupported="relax".',
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_cant_be_enforced_is_an_error_with_its_path_and_mend(name: str) -> None:
    schema, message = ERRORS[name]
    with pytest.raises(SchemaError) as caught:
        convert(schema)
    assert str(caught.value) == message


def test_relaxing_goes_on_and_reports() -> None:
    schema = {"type": "array", "uniqueItems": True, "items": {"type": "string", "format": "moon", "x-y": 1}}
    grammar = Grammar.from_json_schema(schema, unsupported="relax")
    assert grammar.accepts('["a", "a"]')
    assert str(grammar.report) == (
        "$.items: enforced\n"
        "$.type: enforced\n"
        "$.uniqueItems: unsupported: can't be written as a grammar\n"
        "$.items.format: relaxed: the format 'moon' isn't known here\n"
        "$.items.type: enforced\n"
        "$.items.x-y: annotation: unknown keyword"
    )
    assert not grammar.report.is_exact


def test_a_large_maximum_is_left_open_and_named() -> None:
    grammar = Grammar.from_json_schema({"type": "string", "maxLength": 65_535})
    assert [str(f) for f in grammar.report.of("relaxed")] == [
        "$.maxLength: relaxed: a bound past 10,000 is left open"
    ]


def test_a_minimum_that_twins_could_fill_is_named() -> None:
    grammar = Grammar.from_json_schema({"type": "object", "minProperties": 2})
    assert grammar.accepts('{"a": 1, "a": 2}')
    assert [str(f) for f in grammar.report.of("relaxed")] == [
        "$.minProperties: relaxed: a key that the schema doesn't name counts each time it is written"
    ]
    assert Grammar.from_json_schema({"type": "object", "minProperties": 1}).report.is_exact


def test_closed_objects_are_named_in_the_report() -> None:
    schema = {"type": "object", "properties": {"a": {}}}
    assert Grammar.from_json_schema(schema).accepts('{"b": 1}')
    closed = Grammar.from_json_schema(schema, closed=True)
    assert not closed.accepts('{"b": 1}')
    assert "$.additionalProperties: enforced: closed: other properties aren't written" in str(closed.report)


def test_nullable_counts_where_asked_for() -> None:
    schema = {"type": "string", "nullable": True}
    assert not Grammar.from_json_schema(schema).accepts("null")
    assert Grammar.from_json_schema(schema, nullable=True).accepts("null")


@pytest.mark.parametrize(
    ("whitespace", "text"),
    [("compact", '{"a":[1,2]}'), ("spaced", '{"a": [1, 2]}'), ("flexible", '{\n  "a": [1, 2]\n}')],
)
def test_white_space_follows_the_layout(whitespace: Any, text: str) -> None:
    texts = ['{"a":[1,2]}', '{"a": [1, 2]}', '{\n  "a": [1, 2]\n}']
    grammar = Grammar.from_json_schema(
        {"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"]}, whitespace=whitespace
    )
    assert grammar.accepts(text)
    assert whitespace == "flexible" or [t for t in texts if grammar.accepts(t)] == [text]


def test_string_lengths_beyond_one_block_are_exact() -> None:
    grammar = Grammar.from_json_schema({"type": "string", "minLength": 3000, "maxLength": 5000})
    lengths = (2999, 3000, 4001, 5000, 5001)
    assert [grammar.accepts(f'"{"a" * n}"') for n in lengths] == [False, True, True, True, False]
    oracle = LlamaOracle(grammar.gbnf)
    assert [oracle.accepts(f'"{"a" * n}"') for n in lengths] == [False, True, True, True, False]


def test_a_thousand_words_are_factored() -> None:
    tree, _ = convert({"enum": [f"value_{n:04}" for n in range(1000)]})
    assert len(str(tree)) < 200


def test_the_time_limit_is_a_typed_error() -> None:
    with pytest.raises(SchemaError) as caught:
        convert({"properties": {"a": {}}}, Options(timeout_s=-1))
    assert str(caught.value) == (
        "$: the conversion takes more than -1 s. Split the schema, or pass a larger timeout_s."
    )


_names = st.sampled_from(["a", "b", 'a"b', "é"])
_numbers = st.one_of(st.integers(-20, 20), st.sampled_from([0.5, -1.25, 3.0]))
_values = st.one_of(
    st.none(), st.booleans(), _numbers, st.text('ab"\n', max_size=2), st.just([]), st.just({})
)
_leaf_schemas = st.one_of(
    st.booleans(),
    st.sampled_from(
        [{"type": t} for t in ("null", "boolean", "integer", "number", "string", "array", "object")]
    ),
    st.fixed_dictionaries({"type": st.just("string")}, optional={
        "minLength": st.integers(0, 3), "maxLength": st.integers(0, 4),
        "pattern": st.sampled_from(["^a", "b$", "[ab]{2}", "^[^a]*$", "a|b"]),
    }),
    st.fixed_dictionaries({"type": st.sampled_from(["integer", "number"])}, optional={
        "minimum": _numbers, "exclusiveMaximum": _numbers, "multipleOf": st.sampled_from([1, 3, 0.5, 2.5]),
    }),
    st.fixed_dictionaries({"enum": st.lists(_values, min_size=1, max_size=4)}),
    st.fixed_dictionaries({"const": _values}),
)  # fmt: skip


def _grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    objects = st.fixed_dictionaries({"type": st.just("object")}, optional={
        "properties": st.dictionaries(_names, inner, max_size=3),
        "required": st.lists(_names, max_size=2, unique=True),
        "additionalProperties": inner,
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner),
        "minProperties": st.integers(0, 2), "maxProperties": st.integers(0, 3),
    })  # fmt: skip
    arrays = st.fixed_dictionaries({"type": st.just("array")}, optional={
        "items": inner, "prefixItems": several, "minItems": st.integers(0, 2), "maxItems": st.integers(0, 3),
        "contains": inner,
    })  # fmt: skip
    joins = st.one_of(
        st.fixed_dictionaries({"anyOf": several}), st.fixed_dictionaries({"allOf": several}),
        st.fixed_dictionaries({"oneOf": several}), st.fixed_dictionaries({"not": inner}),
        st.fixed_dictionaries({"if": inner, "then": inner, "else": inner}),
    )  # fmt: skip
    return st.one_of(objects, arrays, joins)


schemas = st.recursive(_leaf_schemas, _grown, max_leaves=8)


@given(schemas)
@settings(deadline=None, max_examples=250, suppress_health_check=list(HealthCheck))
def test_every_text_of_an_exact_grammar_is_valid_and_llama_cpp_takes_it(schema: Any) -> None:
    try:
        tree, report = convert(schema)
    except SchemaError:
        return
    assert not report.of("unsupported")
    if report.of("relaxed"):
        return
    oracle = LlamaOracle(str(tree))
    assert oracle.loads
    validator = Draft202012Validator(schema)
    for seed in range(4):
        text = sample(tree, seed, budget=40)
        assert validator.is_valid(json.loads(text)), text
    oracle.close()


@given(schemas, st.lists(st.recursive(_values, lambda v: st.one_of(
    st.lists(v, max_size=3), st.dictionaries(_names, v, max_size=3)), max_leaves=5), max_size=6))  # fmt: skip
@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
def test_no_invalid_value_is_accepted_by_an_exact_grammar(schema: Any, values: list[Any]) -> None:
    try:
        grammar = Grammar.from_json_schema(schema)
    except SchemaError:
        return
    validator = Draft202012Validator(schema)
    for value in values:
        if grammar.accepts(json.dumps(value, ensure_ascii=False)):
            assert validator.is_valid(value), value


_KEYWORDS = """type properties items $ref anyOf allOf oneOf not if then enum const pattern minLength
    maxLength minimum multipleOf required format contains $defs patternProperties additionalProperties
    propertyNames prefixItems minItems maxItems maxProperties dependentRequired unevaluatedProperties
    uniqueItems $id $anchor a""".split()  # noqa: SIM905
_numbers_of_any_size = st.one_of(st.integers(-3, 10**6), st.floats(allow_nan=False))
_words = st.sampled_from(["object", "string", "#", "#/$defs/a", "^a+$", "date"])
_scrap = st.recursive(
    st.one_of(st.none(), st.booleans(), _numbers_of_any_size, st.text(max_size=3)),
    lambda v: st.one_of(
        st.lists(v, max_size=3),
        st.dictionaries(st.sampled_from(_KEYWORDS), st.one_of(v, _words), max_size=4),
    ),
    max_leaves=12,
)


@given(_scrap)
@settings(deadline=None, max_examples=300, suppress_health_check=list(HealthCheck))
def test_any_json_is_converted_or_a_typed_error(schema: Any) -> None:
    for unsupported in ("error", "relax"):
        try:
            tree, _ = convert(schema, Options(unsupported=unsupported))  # type: ignore[arg-type]
        except SchemaError:
            continue
        oracle = LlamaOracle(str(tree))
        assert oracle.loads
        oracle.close()


def test_a_schema_a_thousand_levels_deep_is_converted_or_refused() -> None:
    schema: Any = {"type": "null"}
    for _ in range(400):
        schema = {"type": "object", "properties": {"n": schema}, "required": ["n"]}
    tree, _ = convert(schema)
    assert LlamaOracle(str(tree)).loads
    with pytest.raises(SchemaError):
        convert({"$ref": "#/x", "x": _nested_lists(2000)})


def _nested_lists(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value
