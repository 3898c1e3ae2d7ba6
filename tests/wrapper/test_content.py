"""Strings that carry their origin: every operation gives `str`'s text and the right mask."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatwrap.chat.text import LlamaText, SpecialTokensText
from chatwrap.wrapper.content import (
    Content,
    as_content,
    concat,
    holds_content,
    to_llama_text,
    without_masks,
    written,
)

# Given characters are upper case, written ones lower case: so a text shows its own right mask.
PIECES = st.text("abc <|>\n", max_size=6).map(lambda text: (text, False)) | st.text(
    "ABC <|>\n", max_size=6
).map(lambda text: (text, True))
TEXTS = st.lists(PIECES, max_size=5).map(
    lambda pieces: concat(Content(text) if given_ else text for text, given_ in pieces)
)


def mask_is_right(text: str) -> bool:
    letters = [(letter, kind) for letter, kind in zip(str.__add__("", text), written(text).mask, strict=True)]
    return all((kind == "c") == letter.isupper() for letter, kind in letters if letter.isalpha())


@given(TEXTS, TEXTS, st.sampled_from([None, "a", "A", " ", "<|", "b "]), st.integers(-1, 3))
def test_operations_give_the_text_of_str_and_keep_the_origin(
    text: Content, other: Content, sep: str | None, count: int
) -> None:
    plain, plain_other = str.__add__("", text), str.__add__("", other)
    results = [
        (text + other, plain + plain_other),
        ("ab" + text, "ab" + plain),
        (text + "ab", plain + "ab"),
        (text.strip(sep), plain.strip(sep)),
        (text.lstrip(sep), plain.lstrip(sep)),
        (text.rstrip(sep), plain.rstrip(sep)),
        (text[1:4], plain[1:4]),
        (text[::-1], plain[::-1]),
        (text * 2, plain * 2),
        (text.removeprefix("a"), plain.removeprefix("a")),
        (text.removesuffix("A"), plain.removesuffix("A")),
        (text.join([other, "b", other]), plain.join([plain_other, "b", plain_other])),
        (Content("AB").join([text, other]), "AB".join([plain, plain_other])),
        *zip(text.split(sep, count), plain.split(sep, count), strict=True),
        *zip(text.rsplit(sep, count), plain.rsplit(sep, count), strict=True),
        *zip(text.splitlines(), plain.splitlines(), strict=True),
        *zip(text.splitlines(keepends=True), plain.splitlines(keepends=True), strict=True),
        *zip(text.partition(sep or "b"), plain.partition(sep or "b"), strict=True),
        *zip(text.rpartition(sep or "b"), plain.rpartition(sep or "b"), strict=True),
        *zip(text, plain, strict=True),
    ]
    for result, expected in results:
        assert result == expected
        assert len(written(result).mask) == len(result)
        assert mask_is_right(result)


@given(TEXTS, st.sampled_from(["a", "A", "<|", " "]), TEXTS)
def test_replace_keeps_what_stays_and_the_origin_of_what_comes(text: Content, old: str, new: Content) -> None:
    replaced = text.replace(old, new)
    assert replaced == str.__add__("", text).replace(old, str.__add__("", new))
    assert mask_is_right(replaced)


@given(st.text(max_size=8))
def test_changing_case_keeps_each_letters_origin(text: str) -> None:
    for change in (str.lower, str.upper, str.title, str.capitalize, str.swapcase, str.casefold):
        marked = getattr(concat(["<ß>", Content(text)]), change.__name__)()
        assert marked == change("<ß>" + text)
        assert len(marked.mask) == len(marked)


@pytest.mark.parametrize(
    "opaque",
    [
        lambda text: text.center(9),
        lambda text: text.ljust(9),
        lambda text: text.rjust(9),
        lambda text: text.zfill(9),
        lambda text: text.expandtabs(),
        lambda text: text.translate({97: "z"}),
        lambda text: text % (),
        lambda text: text.format_map({}),
    ],
)
def test_what_cannot_be_followed_is_content(opaque: object) -> None:
    assert set(opaque(concat(["<a>", Content("B")])).mask) == {"c"}  # type: ignore[operator]


def test_format_keeps_the_template_and_marks_the_fields() -> None:
    text = written("<{}>{n:>3}{0!r}").format(Content("A"), n=7)
    assert text == "<A>  7'A'"
    assert text.mask == "tct" + "ttt" + "ccc"


def test_turns_into_a_llama_text() -> None:
    text = to_llama_text(concat(["<b>", Content("x"), Content("y"), "</b>"]))
    assert text == LlamaText(SpecialTokensText("<b>"), "xy", SpecialTokensText("</b>"))


def test_values_are_marked_and_unmarked_all_through() -> None:
    value = {"a": ["b", {"c": 1}], "d": None}
    marked = as_content(value)
    assert marked == value
    assert holds_content(marked)
    assert not holds_content(without_masks(marked))
    assert without_masks(marked) == value


def test_survives_pickling() -> None:
    text = concat(["<", Content("x")])
    assert pickle.loads(pickle.dumps(text)).mask == "tc"
