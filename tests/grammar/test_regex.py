from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatwrap.errors import GrammarError
from chatwrap.grammar.automaton import TooManyStatesError
from chatwrap.grammar.grammar import Grammar
from chatwrap.grammar.pattern import PatternError
from chatwrap.grammar.regex import compile_pattern
from tests.grammar.llama_oracle import LlamaOracle

ERRORS = {
    "a(?=b)": "pattern 'a(?=b)' at character 2: lookahead (?= can't be written as a grammar. Say it without.",
    "(?!b)": "pattern '(?!b)' at character 1: negative lookahead (?! can't be written as a grammar. "
    "Say it without.",
    "(?<=b)a": "pattern '(?<=b)a' at character 1: lookbehind (?<= can't be written as a grammar. "
    "Say it without.",
    r"\bword": r"pattern '\\bword' at character 1: word boundaries can't be written as a grammar. "
    "Say it without.",
    r"(a)\1": r"pattern '(a)\\1' at character 4: back references can't be written as a grammar. "
    "Say it without.",
    "(a": "pattern '(a' at character 1: the group never closes. Close it with ')'.",
    "a)": "pattern 'a)' at character 2: ')' closes nothing. Escape it, or open a group.",
    "[a": "pattern '[a' at character 1: the class never closes. Close it with ']'.",
    "[b-a]": "pattern '[b-a]' at character 2: a range runs backwards. Write the lower end first.",
    "*": "pattern '*' at character 1: '*' has nothing to repeat. Escape it.",
    "a{3,2}": "pattern 'a{3,2}' at character 7: {3,2} asks for more than it allows. Swap the bounds.",
    r"\p{Script=Han}": r"pattern '\\p{Script=Han}' at character 1: the Unicode property 'Script=Han' "
    r"isn't known here. Use a general category such as \p{L}.",
    "a++": "pattern 'a++' at character 3: possessive repeats can't be written as a grammar. Remove the '+'.",
}


@pytest.mark.parametrize("pattern", ERRORS)
def test_a_fault_in_a_pattern_is_named_with_its_place(pattern: str) -> None:
    with pytest.raises(PatternError) as caught:
        compile_pattern(pattern)
    assert str(caught.value) == ERRORS[pattern]


MATCHES = [
    ("^a$|^b$", ["a", "b"], ["ab", "a|b", "a$"]),
    ("b", ["b", "abc"], ["", "a"]),
    ("^[^a-c]+$", ["xyz", "é"], ["", "abc", "xa"]),
    (r"^\p{L}+$", ["é", "привет"], ["1", ""]),
    (r"^\u00e9\x41\t$", ["éA\t"], ["e"]),
    (r"^\ud83d\ude00$", ["😀"], [""]),
    (r"^[\d\-.]+$", ["1-2.3"], ["a"]),
    (r"^a{2}b{1,}c{0,2}$", ["aab", "aabbcc"], ["ab", "aaccc", "aabccc"]),
    (r"^a{,2}$", ["a{,2}"], ["a", "aa"]),
    (r"^(?<n>a)(?:b)(c)$", ["abc"], ["ab"]),
    ("^.$", ["a", "😀"], ["", "\n", "ab"]),
    (r"^[\s\S]$", ["\n"], [""]),
    ("^$", [""], ["a"]),
    ("(^a|b)c$", ["ac", "xbc"], ["xac", "bca"]),
    (r"\.jpe?g$", ["x.jpg", ".jpeg"], ["jpg", "x.jpgx"]),
    ("^a*?b+?$", ["b", "aab"], ["a"]),
    (r"^\/a\-\@$", ["/a-@"], []),
]


@pytest.mark.parametrize(("pattern", "accepted", "rejected"), MATCHES)
def test_patterns_match_what_they_say(pattern: str, accepted: list[str], rejected: list[str]) -> None:
    automaton, grammar = compile_pattern(pattern), Grammar.from_regex(pattern)
    oracle = LlamaOracle(grammar.gbnf)
    for wanted, texts in ((True, accepted), (False, rejected)):
        for text in texts:
            assert automaton.accepts(text) is grammar.accepts(text) is oracle.accepts(text) is wanted


def test_a_pattern_that_matches_nothing_is_refused() -> None:
    with pytest.raises(GrammarError, match="it can never match"):
        Grammar.from_regex("a$b")


_atoms = st.sampled_from(["a", "b", "[ab]", "[^a]", ".", r"\d", r"\w", "^", "$", "c?", "(?:a|b)", "(b*)"])
_patterns = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=6,
)


@given(_patterns, st.lists(st.text("abc1", max_size=6), max_size=8))
@settings(deadline=None, max_examples=200)
def test_patterns_match_what_python_finds(pattern: str, texts: list[str]) -> None:
    expected = re.compile(pattern.replace("$", r"\Z"), re.ASCII)
    automaton = compile_pattern(pattern)
    for text in texts:
        assert automaton.accepts(text) == bool(expected.search(text)), text


@given(st.text("ab()[]{}|*+?^$\\.-dwpuxL0123,:=!<>", max_size=12))
@settings(deadline=None, max_examples=300)
def test_any_text_is_a_grammar_or_a_typed_error(pattern: str) -> None:
    try:
        grammar = Grammar.from_regex(pattern)
    except (GrammarError, TooManyStatesError):
        return
    oracle = LlamaOracle(grammar.gbnf)
    assert oracle.loads
    oracle.close()


def test_a_pattern_too_large_is_refused_in_time() -> None:
    started_s = time.process_time()
    with pytest.raises(TooManyStatesError) as caught:
        Grammar.from_regex(r"\p{L}{1000}")
    message = "the pattern needs more than 6000 states or 700000 moves. Make its bounds smaller."
    assert str(caught.value) == message
    assert time.process_time() - started_s < 15
