from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatwrap.grammar.automaton import (
    ANYTHING,
    MAX_STATES,
    TooManyStatesError,
    joined,
    of_lengths,
    of_words,
    without_words,
)

words = st.lists(st.text("abü😀", max_size=4), max_size=6)


def probes(*lists: list[str]) -> set[str]:
    known = {word for words in lists for word in words}
    return known | {word[:-1] for word in known} | {word + "a" for word in known} | {"", "b", "xyz"}


@given(words, words)
def test_set_operations_are_those_of_sets(first: list[str], second: list[str]) -> None:
    a, b = of_words(first), of_words(second)
    for text in probes(first, second):
        in_a, in_b = text in first, text in second
        assert (a & b).accepts(text) == (in_a and in_b)
        assert (a | b).accepts(text) == (in_a or in_b)
        assert (a - b).accepts(text) == (in_a and not in_b)


@given(words)
def test_without_words_is_everything_less_the_words(excluded: list[str]) -> None:
    at_once, subtracted = without_words(tuple(excluded)), ANYTHING - of_words(excluded)
    for text in probes(excluded):
        assert at_once.accepts(text) == subtracted.accepts(text) == (text not in excluded)


@given(words, words)
def test_equal_sets_of_words_have_equal_automata(first: list[str], second: list[str]) -> None:
    assert (of_words(first) == of_words(second)) == (set(first) == set(second))


@given(st.integers(0, 5), st.integers(0, 5), st.text(max_size=7))
def test_lengths_count_code_points(minimum: int, more: int, text: str) -> None:
    assert of_lengths(minimum, minimum + more).accepts(text) == (minimum <= len(text) <= minimum + more)
    assert of_lengths(minimum, None).accepts(text) == (minimum <= len(text))


def test_a_fixed_text_can_stand_in_front() -> None:
    assert joined("ab", of_words(["c"])).accepts("abc")
    assert not joined("ab", of_words(["c"])).accepts("ab")


def test_too_many_states_are_a_typed_error() -> None:
    with pytest.raises(TooManyStatesError) as caught:
        of_lengths(MAX_STATES, None)
    assert str(caught.value) == "the pattern needs more than 6000 states. Make its bounds smaller."
