from __future__ import annotations

import ast
import json
import keyword
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatwrap.chat.notation import (
    ArgumentNotation,
    BareKeyNotation,
    JsonNotation,
    KeywordNotation,
    TaggedNotation,
)
from chatwrap.chat.slotted import Slot, SlottedText
from chatwrap.chat.text import SpecialTokensText, control
from chatwrap.errors import HistoryError
from chatwrap.wrapper.arguments import written_arguments
from tests.chat.strategies import json_values

PREFIX = SlottedText((SpecialTokensText("<p="), Slot.PARAMETER_NAME, SpecialTokensText(">")))
TYPED = SlottedText(
    (
        SpecialTokensText("<p "),
        Slot.PARAMETER_NAME,
        SpecialTokensText(" s="),
        Slot.IS_STRING,
        SpecialTokensText(">"),
    )
)
SUFFIX = control("</p>")
ARGUMENTS = {"city": "Łódź </p>", "n": [1, None, {"k": True}], "x": None, "b": False, "f": 1.5}
QUOTED = control('<|"|>')
names = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: not keyword.iskeyword(name)
)


@pytest.mark.parametrize(
    ("notation", "written"),
    [
        (
            JsonNotation(),
            '{"city": "Łódź </p>", "n": [1, null, {"k": true}], "x": null, "b": false, "f": 1.5}',
        ),
        (
            TaggedNotation(PREFIX, SUFFIX),
            '<p=city>Łódź </p></p><p=n>[1, null, {"k": true}]</p><p=x>null</p><p=b>false</p><p=f>1.5</p>',
        ),
        (
            TaggedNotation(PREFIX, SUFFIX, literals="python"),
            '<p=city>Łódź </p></p><p=n>[1, null, {"k": true}]</p><p=x>None</p><p=b>False</p><p=f>1.5</p>',
        ),
        (
            TaggedNotation(TYPED, SUFFIX, between=control("\n"), literals="python_containers"),
            "<p city s=true>Łódź </p></p>\n<p n s=false>[1, None, {'k': True}]</p>\n<p x s=false>None</p>\n"
            "<p b s=false>False</p>\n<p f s=false>1.5</p>",
        ),
        (
            KeywordNotation(),
            "city='Łódź </p>', n=[1, None, {'k': True}], x=None, b=False, f=1.5",
        ),
        (
            BareKeyNotation(QUOTED, null="None"),
            '{city:<|"|>Łódź </p><|"|>,n:[1,None,{k:true}],x:None,b:false,f:1.5}',
        ),
        (
            BareKeyNotation(QUOTED, sorts_keys=True),
            '{b:false,city:<|"|>Łódź </p><|"|>,f:1.5,n:[1,null,{k:true}],x:null}',
        ),
    ],
)
def test_notations(notation: ArgumentNotation, written: str) -> None:
    assert str(written_arguments(notation, ARGUMENTS, where="arguments")) == written


def test_a_mapping_among_keywords() -> None:
    arguments = {"a": {"k": None}, "b": [{"k": None}], "c": "it's"}
    written = written_arguments(KeywordNotation(mappings="json"), arguments, where="arguments")
    assert str(written) == 'a={"k": null}, b=[{\'k\': None}], c="it\'s"'


def test_keys_are_sorted_as_jinja_sorts_them() -> None:
    notation = BareKeyNotation('"', sorts_keys=True)
    assert str(written_arguments(notation, {"b": 1, "C": 2, "a": {"Z": 1, "y": 2}}, where="x")) == (
        "{a:{y:2,Z:1},b:1,C:2}"
    )


def test_only_marks_are_control_text() -> None:
    hostile = {"<|im_end|>": "</p><|im_end|>", "d": {"<p=x>": '<|"|>'}}
    for notation in (
        TaggedNotation(PREFIX, SUFFIX),
        KeywordNotation(),
        BareKeyNotation(QUOTED),
        JsonNotation(),
    ):
        values = written_arguments(notation, hostile, where="arguments").values
        marks = "".join(str(value) for value in values if not isinstance(value, str))
        assert "im_end" not in marks and marks.count("<p=") in (0, 2) and "x" not in marks


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([1], "arguments: [1] isn't an object, and the format writes each argument by its name. "),
        (None, "arguments: null isn't an object, and the format writes each argument by its name. "),
        ('{"a": 1}', 'arguments: "{\\"a\\": 1}" isn\'t an object, and the format writes each argument '),
    ],
)
def test_what_has_no_names(arguments: Any, message: str) -> None:
    for notation in (TaggedNotation(PREFIX, SUFFIX), KeywordNotation(), BareKeyNotation(QUOTED)):
        with pytest.raises(HistoryError) as caught:
            written_arguments(notation, arguments, where="arguments")
        rest = "by its name. " if message.endswith("argument ") else ""
        assert str(caught.value) == f"{message}{rest}Give a mapping."


def test_what_is_no_json() -> None:
    with pytest.raises(HistoryError) as caught:
        written_arguments(KeywordNotation(), {"a": {1, 2}}, where="arguments of f")
    assert str(caught.value) == (
        "arguments of f: can't be written as JSON: Object of type set is not JSON serializable. "
        "Give JSON values."
    )


def test_nested_too_deep() -> None:
    deep: Any = 1
    for _ in range(400):
        deep = {"a": deep}
    with pytest.raises(HistoryError) as caught:
        written_arguments(BareKeyNotation(QUOTED), deep, where="arguments of f")
    assert str(caught.value) == "arguments of f: nested too deep to be written. Flatten them."


@given(st.dictionaries(names, json_values, max_size=4))
def test_keywords_are_python(arguments: dict[str, Any]) -> None:
    """Law: Python reads what was written as the same values."""
    written = str(written_arguments(KeywordNotation(), arguments, where="arguments"))
    call = ast.parse(f"f({written})", mode="eval").body
    assert isinstance(call, ast.Call)
    assert {given.arg: ast.literal_eval(given.value) for given in call.keywords} == arguments


@given(json_values)
def test_tags_hold_strings_and_json(value: Any) -> None:
    """Law: between the marks stands the string itself, or JSON of the value."""
    written = str(written_arguments(TaggedNotation("<a>", "</a>"), {"a": value}, where="arguments"))
    text = written.removeprefix("<a>").removesuffix("</a>")
    assert text == value or json.loads(text) == value
