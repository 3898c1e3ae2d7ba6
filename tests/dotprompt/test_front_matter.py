"""Front matter is read by YAML 1.2, told from the body, and refused with line and column."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatwrap.dotprompt.document import parse_prompt
from chatwrap.errors import DotpromptError

SPLITS: list[tuple[str, Any, str]] = [
    ("Hi\n", None, "Hi\n"),
    ("", None, ""),
    ("---\na: 1\n---\n\n Hi \n\n", {"a": 1}, "Hi"),
    ("---\r\na: 1\r\n---\r\nHi\r\nyou\r\n", {"a": 1}, "Hi\r\nyou"),
    ("---\ra: 1\r---\rHi", {"a": 1}, "Hi"),
    ("--- \t\na: 1\n---  \nHi", {"a": 1}, "Hi"),
    ("\ufeff---\na: 1\n---\nHi", {"a": 1}, "Hi"),
    ("# Copyright\n\n#!shebang\n---\na: 1\n---\nHi", {"a": 1}, "Hi"),
    ("Text\n---\na: 1\n---\nHi", None, "Text\n---\na: 1\n---\nHi"),
    ("---\na: 1\n---\nHi\n---\nb: 2\n---\n", {"a": 1}, "Hi\n---\nb: 2\n---"),
    ("---\n---\nHi", {}, "Hi"),
    ("---\n\n---\nHi", {}, "Hi"),
    ("---\n# nothing\n---\nHi", {}, "Hi"),
    ("---\na: 1\n---", {"a": 1}, ""),
    ("----\nHi", None, "----\nHi"),
    ("---\na: 1\n---\n\u3000\ufeffHi\x1c\n", {"a": 1}, "Hi\x1c"),
]


@pytest.mark.parametrize(("text", "raw", "template"), SPLITS, ids=lambda value: repr(value)[:40])
def test_front_matter_and_body(text: str, raw: Any, template: str) -> None:
    parsed = parse_prompt(text)
    assert (parsed.fields.get("raw"), parsed.template) == (raw, template)


VALUES: dict[str, Any] = {
    "[YES, no, on, y]": ["YES", "no", "on", "y"],
    "[true, True, FALSE]": [True, True, False],
    "[null, ~, Null, ]": [None, None, None],
    "[010, 0o17, 0x1F, +5, -0]": [10, 15, 31, 5, 0],
    "[1e3, 1.5, .5, 1., -2.5E-1]": [1000.0, 1.5, 0.5, 1.0, -0.25],
    "[2024-01-01, 1_000, 12:30:45, 0b1, 1.2.3]": ["2024-01-01", "1_000", "12:30:45", "0b1", "1.2.3"],
    "['1', \"true\", '~']": ["1", "true", "~"],
    "|\n  x\n  y\n": "x\ny\n",
    "{a: 1, b: {c: [d]}}": {"a": 1, "b": {"c": ["d"]}},
    "{1: a, true: b, 1.50: c}": {"1": "a", "true": "b", "1.50": "c"},
    "[&x {a: 1}, *x, *x]": [{"a": 1}, {"a": 1}, {"a": 1}],
    "{<<: {a: 1}}": {"<<": {"a": 1}},
    "żółw 🐢": "żółw 🐢",
}


@pytest.mark.parametrize("yaml", VALUES)
def test_values(yaml: str) -> None:
    assert parse_prompt(f"---\nmetadata: {{}}\nkey: {yaml}\n---\n").fields["raw"]["key"] == VALUES[yaml]


BOMB = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdef", "bcdefg", strict=True)
)
FAULTS = {
    "a: 1\na: 2": "p.prompt:3:1: a second key 'a'. Remove one.\n  a: 2\n  ^",
    "a: {b: 1, b: 2}": "p.prompt:2:11: a second key 'b'. Remove one.\n  a: {b: 1, b: 2}\n            ^",
    "config:\n  topK: 2\n  topP 0.8": (
        "p.prompt:4:3: not YAML: could not find expected ':' while scanning a simple key. "
        "Write key: value, and quote texts with : or # in.\n    topP 0.8\n    ^"
    ),
    "a: [1, 2": (
        "p.prompt:2:4: not YAML: expected ',' or ']', but got '<stream end>' while parsing a flow sequence. "
        "Write key: value, and quote texts with : or # in.\n  a: [1, 2\n     ^"
    ),
    "a: b: c": (
        "p.prompt:2:5: not YAML: mapping values are not allowed here. "
        "Write key: value, and quote texts with : or # in.\n  a: b: c\n      ^"
    ),
    "- a": "p.prompt:2:1: front matter that is a list. Write key: value, one a line.\n  - a\n  ^",
    "text": "p.prompt:2:1: front matter that is the value 'text'. Write key: value, one a line.\n  text\n  ^",
    "a: !!python/name:os.system": (
        "p.prompt:2:4: the tag 'tag:yaml.org,2002:python/name:os.system'. "
        "Remove it: types follow from the values.\n  a: !!python/name:os.system\n     ^"
    ),
    "? [a]\n: 1": "p.prompt:2:3: a key that is no text. Quote it.\n  ? [a]\n    ^",
    ": 1": "p.prompt:2:1: a key is missing. Write it before the colon.\n  : 1\n  ^",
    "b: &b 1\n*b : 2": "p.prompt:3:1: an alias as a key. Write the key itself.\n  *b : 2\n  ^",
    "a: *b": "p.prompt:2:4: no anchor &b before. Write the value itself.\n  a: *b\n     ^",
    "a: &a [*a]": "p.prompt:2:8: no anchor &a before. Write the value itself.\n  a: &a [*a]\n         ^",
    "a: .inf": "p.prompt:2:4: .inf is no JSON number. Quote it, or give a number.\n  a: .inf\n     ^",
    "a: 1e999": "p.prompt:2:4: 1e999 is no JSON number. Quote it, or give a number.\n  a: 1e999\n     ^",
    "a: 1\n...\nb: 2": "p.prompt:4:1: a second YAML document. Give one.\n  b: 2\n  ^",
    "tools: clock": "p.prompt:2:1: tools must be a list of names, not 'clock'.\n  tools: clock\n  ^",
    "tools: [a, 1]\nname: 3": (
        "p.prompt:3:1: name must be a text, not 3.\n  name: 3\n  ^\n"
        "p.prompt:2:12: tools[1] must be a tool's name, not 1.\n  tools: [a, 1]\n             ^"
    ),
    "input: {default: [1]}": (
        "p.prompt:2:9: input.default must be a mapping of variables, not [1].\n"
        "  input: {default: [1]}\n          ^"
    ),
    "model: true": "p.prompt:2:1: model must be a model's name, or a mapping, not True.\n  model: true\n  ^",
    "toolDefs: [{}]": "p.prompt:2:12: toolDefs[0].name: missing.\n  toolDefs: [{}]\n             ^",
    ".a: 1": "p.prompt:2:1: '.a' is no name in a namespace. Write namespace.name.\n  .a: 1\n  ^",
}


@pytest.mark.parametrize("yaml", FAULTS)
def test_what_is_wrong_is_told_with_line_and_column(yaml: str) -> None:
    with pytest.raises(DotpromptError) as caught:
        parse_prompt(f"---\n{yaml}\n---\nHi", name="p.prompt")
    assert str(caught.value) == FAULTS[yaml]


@pytest.mark.parametrize(
    ("yaml", "problem"),
    [
        (BOMB, "more than 100000 values, aliases counted."),
        ("a: " + "[" * 1000 + "]" * 1000, "nested deeper than 100 levels."),
        ("".join(" " * depth + "a:\n" for depth in range(1000)), "nested deeper than 100 levels."),
        ("a: " + "9" * 5000, "a number of too many digits."),
        ("a: \x07", "not YAML: special characters are not allowed."),
    ],
    ids=["aliases", "lists", "mappings", "digits", "control character"],
)
def test_hostile_front_matter(yaml: str, problem: str) -> None:
    with pytest.raises(DotpromptError) as caught:
        parse_prompt(f"---\n{yaml}\n---\nHi")
    assert [fault.problem for fault in caught.value.faults] == [problem]


def test_front_matter_that_is_not_closed() -> None:
    with pytest.raises(DotpromptError) as caught:
        parse_prompt("\n---\nmodel: x\nHi", name="p.prompt")
    assert str(caught.value) == (
        "p.prompt:2:1: front matter that isn't closed. Close it with a line ---, or put a text before it "
        "that is no front matter.\n  ---\n  ^"
    )


def test_fields_with_a_dot_are_extensions() -> None:
    parsed = parse_prompt(
        "---\na.b: 1\na.b.c: 2\na.d: {e: 3}\next: {a: {z: 0}, own: {k: 1}}\nother: 1\n---\n"
    )
    assert parsed.fields["ext"] == {"a": {"b": 1, "d": {"e": 3}, "z": 0}, "a.b": {"c": 2}, "own": {"k": 1}}
    assert parsed.fields["raw"]["a.b"] == 1
    assert "other" not in parsed.fields and parsed.fields["raw"]["other"] == 1
    assert parsed.metadata.ext == parsed.fields["ext"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(json_values)
def test_json_is_yaml(value: Any) -> None:
    text = json.dumps(value)  # escapes keep every text printable, which YAML wants
    assert parse_prompt(f"---\nkey: {text}\n---\n").fields["raw"]["key"] == value


@given(st.text())
def test_any_text_is_a_prompt_or_a_fault(text: str) -> None:
    for source in (text, f"---\n{text}\n---\nHi"):
        try:
            parse_prompt(source)
        except DotpromptError as error:
            assert str(error).startswith("prompt:")
