from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatwrap import LlamaText, SpecialToken, SpecialTokensText, encode
from chatwrap.engine.vocabulary import Vocabulary
from chatwrap.errors import HistoryError
from tests.chat.strategies import text_values, texts

S = SpecialTokensText
BOS, EOS = SpecialToken("BOS"), SpecialToken("EOS")


class TestBuilding:
    @pytest.mark.parametrize(
        ("given", "values"),
        [
            ([], ()),
            (["", "", S("")], ()),
            (["a", "b"], ("ab",)),
            ([S("a"), S(""), S("b")], (S("ab"),)),
            (["a", S("b"), "c"], ("a", S("b"), "c")),
            (["a", S(""), "b"], ("ab",)),
            ([BOS, BOS], (BOS, BOS)),
            (["a", BOS, "b"], ("a", BOS, "b")),
            ([LlamaText("a", S("b")), S("c")], ("a", S("bc"))),
            ([["a", ["b", (S("c"),)]], "d"], ("ab", S("c"), "d")),
            ([{"a": 1}.keys(), range(2)], ("a01",)),
            ([1, " ", 2.5, " ", True, False], ("1 2.5 truefalse",)),
        ],
    )
    def test_nested_texts_are_flattened_and_neighbours_joined(
        self, given: list[Any], values: tuple[Any, ...]
    ) -> None:
        assert LlamaText(*given).values == values
        assert LlamaText(given).values == values

    @pytest.mark.parametrize("value", [None, b"a", {"a": 1}, object])
    def test_other_values_are_refused(self, value: Any) -> None:
        with pytest.raises(HistoryError) as caught:
            LlamaText("a", value)
        kind = type(value).__name__
        assert str(caught.value) == f"LlamaText: can't hold a {kind}: {value!r}. Give strings or LlamaText."

    def test_a_role_is_one_of_five(self) -> None:
        with pytest.raises(HistoryError) as caught:
            SpecialToken("PAD")  # type: ignore[arg-type]
        assert str(caught.value) == "SpecialToken: no role 'PAD'. Use one of BOS, EOS, EOT, NL, SEP."

    def test_a_string_of_a_subclass_becomes_a_string(self) -> None:
        class Name(str):
            __slots__ = ()

        assert [type(value) for value in LlamaText(Name("a")).values] == [str]

    def test_immutable(self) -> None:
        text = LlamaText("a")
        with pytest.raises(AttributeError) as caught:
            text.values = ()  # type: ignore[misc]
        assert str(caught.value) == "LlamaText is immutable: can't set 'values'."
        with pytest.raises(AttributeError) as caught:
            del text.values
        assert str(caught.value) == "LlamaText is immutable: can't delete 'values'."
        with pytest.raises(AttributeError) as caught:
            text.other = 1  # type: ignore[attr-defined]
        assert str(caught.value) == "LlamaText is immutable: can't set 'other'."


class TestEquality:
    def test_kinds_matter(self) -> None:
        assert LlamaText("a") != LlamaText(S("a"))
        assert LlamaText("BOS") != LlamaText(BOS)
        assert LlamaText("a") != "a"
        assert LlamaText("a") == LlamaText(["", "a"])

    @given(texts)
    def test_copies_are_equal(self, text: LlamaText) -> None:
        for twin in (LlamaText(text), copy.copy(text), copy.deepcopy(text), pickle.loads(pickle.dumps(text))):
            assert twin == text and hash(twin) == hash(text)

    @given(texts)
    def test_repr_is_source(self, text: LlamaText) -> None:
        assert eval(repr(text)) == text

    @given(texts)
    def test_only_an_empty_text_is_false(self, text: LlamaText) -> None:
        assert bool(text) == (str(text) != "")


class TestJoining:
    @given(st.lists(text_values))
    def test_str_joins_all_values(self, values: list[Any]) -> None:
        assert str(LlamaText(values)) == "".join(map(str, values))

    @given(texts, texts)
    def test_concat_and_plus(self, first: LlamaText, second: LlamaText) -> None:
        assert first.concat(second) == first + second == LlamaText(first, second)

    def test_join_values_of_a_text(self) -> None:
        text = LlamaText("a", S("b"), "c")
        assert text.join_values(S("|")) == LlamaText("a", S("|b|"), "c")
        assert LlamaText("a").join_values("-") == LlamaText("a")
        assert LlamaText().join_values("-") == LlamaText()

    def test_join_values_of_given_values(self) -> None:
        assert LlamaText.join_values(S("|"), ["a", LlamaText("b", S("c")), "d"]) == LlamaText(
            "a", S("|"), "b", S("c|"), "d"
        )
        assert LlamaText.join_values(", ", ["", "", "a"]) == LlamaText(", , a")
        assert LlamaText.join_values(", ", []) == LlamaText()
        assert LlamaText.join_values(LlamaText(", "), iter("ab")) == LlamaText("a, b")

    def test_map_values(self) -> None:
        text = LlamaText("a", S("b"), BOS)
        assert text.map_values(lambda value: value if value == BOS else S(str(value))) == LlamaText(
            S("ab"), BOS
        )
        assert text.map_values(lambda value: [value, value]) == LlamaText("aa", S("bb"), BOS, BOS)
        assert text.map_values(lambda value: "") == LlamaText()


class TestTrimming:
    @pytest.mark.parametrize(
        ("text", "start", "end"),
        [
            (LlamaText("  a "), LlamaText("a "), LlamaText("  a")),
            (LlamaText(" ", S("\n"), " \t", "a"), LlamaText("a"), LlamaText(" ", S("\n"), " \ta")),
            (LlamaText(S(" a "), "  "), LlamaText(S("a "), "  "), LlamaText(S(" a"))),
            (LlamaText("  ", BOS, "  "), LlamaText(BOS, "  "), LlamaText("  ", BOS)),
            (LlamaText(" ", S(" ")), LlamaText(), LlamaText()),
            (LlamaText(), LlamaText(), LlamaText()),
        ],
    )
    def test_each_end(self, text: LlamaText, start: LlamaText, end: LlamaText) -> None:
        assert text.trim_start() == start
        assert text.trim_end() == end
        assert text.trim() == start.trim_end() == end.trim_start()


class TestIncludes:
    TEXT = LlamaText("Hello ", S("<b>"), "big", BOS, S("</b>"), "world")

    @pytest.mark.parametrize(
        "wanted",
        [
            "",
            "Hello",
            "ell",
            S("b"),
            BOS,
            LlamaText("lo ", S("<b")),
            LlamaText("o ", S("<b>"), "big", BOS),
            LlamaText("g", BOS, S("</")),
            LlamaText(BOS, S("</b>"), "wor"),
            TEXT,
        ],
    )
    def test_what_is_there(self, wanted: Any) -> None:
        assert self.TEXT.includes(wanted)

    @pytest.mark.parametrize(
        "wanted",
        [
            "<b>",
            S("Hello"),
            "BOS",
            EOS,
            LlamaText("Hello", S("<b>")),
            LlamaText("Hello ", S("b>")),
            LlamaText("o ", S("<b"), "big"),
            LlamaText("big", S("</b>")),
            LlamaText(TEXT, "!"),
        ],
    )
    def test_what_is_not(self, wanted: Any) -> None:
        assert not self.TEXT.includes(wanted)

    @given(texts, texts, texts)
    def test_a_text_includes_its_parts(self, before: LlamaText, part: LlamaText, after: LlamaText) -> None:
        assert LlamaText(before, part, after).includes(part)


class TestJson:
    @pytest.mark.parametrize(
        ("text", "form"),
        [
            (LlamaText(), ""),
            (LlamaText("a"), "a"),
            (LlamaText(S("a")), [{"type": "specialTokensText", "value": "a"}]),
            (LlamaText("a", EOS), ["a", {"type": "specialToken", "value": "EOS"}]),
        ],
    )
    def test_form(self, text: LlamaText, form: Any) -> None:
        assert text.to_json() == form
        assert LlamaText.from_json(form) == text

    @given(texts)
    def test_round_trip(self, text: LlamaText) -> None:
        assert LlamaText.from_json(json.loads(json.dumps(text.to_json()))) == text

    def test_texts_and_values_are_taken_as_they_are(self) -> None:
        assert LlamaText.from_json(LlamaText(BOS)) == LlamaText(BOS)
        assert LlamaText.from_json([S("a"), BOS]) == LlamaText(S("a"), BOS)  # type: ignore[list-item]

    @pytest.mark.parametrize(
        "value",
        [
            1,
            None,
            ["a"],
            {},
            {"type": "specialToken", "value": "PAD"},
            {"type": "specialToken", "value": ["BOS"]},
            {"type": "specialTokensText"},
            {"type": "text", "value": "a"},
        ],
    )
    def test_no_text_value(self, value: Any) -> None:
        with pytest.raises(HistoryError) as caught:
            LlamaText.from_json(["a", value])
        assert str(caught.value) == (
            f"text[1]: {value!r} isn't a text value. "
            'Give a string, or {"type": T, "value": V} where T is "specialTokensText" or "specialToken".'
        )

    @pytest.mark.parametrize("value", [None, 1, {"type": "specialToken", "value": "BOS"}])
    def test_no_text(self, value: Any) -> None:
        with pytest.raises(HistoryError) as caught:
            LlamaText.from_json(value)
        kind = type(value).__name__
        assert str(caught.value) == f"text: a {kind}, not a text. Give a string or a list of text values."

    def test_all_faults_at_once(self) -> None:
        with pytest.raises(HistoryError) as caught:
            LlamaText.from_json([1, "a", 2])  # type: ignore[list-item]
        assert [fault.where for fault in caught.value.faults] == ["text[0]", "text[2]"]


class TestFromTokens:
    def test_kinds(self, smollm: Vocabulary) -> None:
        ids = encode(LlamaText(S("<|im_start|>user\n"), "a<|im_end|>b", S("<|im_end|><file_sep>")), smollm)
        assert LlamaText.from_tokens(smollm, ids) == LlamaText(
            S("<|im_start|>"), "user\na<|im_end|>b", EOS, S("<file_sep>")
        )

    def test_bytes_that_are_no_text(self, smollm: Vocabulary) -> None:
        ids = smollm.tokenize("é")
        whole = smollm.tokenize("日😀")
        assert LlamaText.from_tokens(smollm, ids) == LlamaText("é")
        assert LlamaText.from_tokens(smollm, whole[:-1]) == LlamaText("日\ufffd")
        assert LlamaText.from_tokens(smollm, []) == LlamaText()
