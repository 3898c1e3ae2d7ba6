from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chatwrap.errors import GrammarError
from chatwrap.grammar.gbnf import GrammarTree
from chatwrap.grammar.matcher import Matcher
from chatwrap.grammar.reader import read
from tests.grammar.llama_oracle import LlamaOracle
from tests.grammar.trees import sample, trees

ERRORS = {
    'root = "x"': ("g.gbnf:1:6: expected '::=' after the rule name, found '='.\n  root = \"x\"\n       ^"),
    'root ::= "a" b': (
        "g.gbnf:1:14: root: no rule is named 'b'. Define it, or correct the name.\n"
        '  root ::= "a" b\n               ^'
    ),
    'a ::= "a"': "g.gbnf: no rule is named 'root'. Name the rule that matches everything 'root'.",
    'root ::= "a"\nroot ::= "b"': (
        "g.gbnf:2:1: the rule 'root' is defined twice. Join its alternatives with '|'.\n  root ::= \"b\"\n  ^"
    ),
    'root ::= root "a" | "b"': (
        "g.gbnf:1:10: root: it is left-recursive: it may enter 'root' again before it takes any text. "
        'Write the repetition with * or +.\n  root ::= root "a" | "b"\n           ^'
    ),
    'root ::= ("a"?)*': (
        "g.gbnf:1:1: root: it repeats without end what may be empty. Let the repeated part take text.\n"
        '  root ::= ("a"?)*\n  ^'
    ),
    'root ::= "a"{2000}': (
        "g.gbnf:1:1: root: repeats come to more than 1999 copies. Lower the bounds, or repeat a named rule.\n"
        '  root ::= "a"{2000}\n  ^'
    ),
    'root ::= "a"{3,2}': (
        'g.gbnf:1:1: root: {3,2} asks for more than it allows. Swap the bounds.\n  root ::= "a"{3,2}\n  ^'
    ),
    'root ::= "a" root': (
        "g.gbnf:1:1: root: it can never match: every way through it needs itself or an empty class. "
        'Give it a way to end.\n  root ::= "a" root\n  ^'
    ),
    'root ::= "a" | "\\x00"': (
        "g.gbnf:1:1: root: a part of it can never match. Remove it: the model would get stuck.\n"
        '  root ::= "a" | "\\x00"\n  ^'
    ),
    "root ::= [9-0]": (
        "g.gbnf:1:10: a range runs backwards. Write the lower end first.\n  root ::= [9-0]\n           ^"
    ),
    "root ::= []": (
        "g.gbnf:1:10: the class is empty. Put characters in it, or write '.' for any.\n"
        "  root ::= []\n           ^"
    ),
    'root ::= "\\d"': (
        "g.gbnf:1:11: GBNF has no escape '\\d'. It knows \\t \\r \\n \\\\ \\\" \\[ \\] \\- \\x \\u \\U.\n"
        '  root ::= "\\d"\n            ^'
    ),
    'root ::= "\\u12"': (
        'g.gbnf:1:11: the escape needs 4 hexadecimal digits. Complete it.\n  root ::= "\\u12"\n            ^'
    ),
    "root ::= <[3]>": (
        "g.gbnf:1:10: token elements depend on the vocabulary. Write the token's text as a literal.\n"
        "  root ::= <[3]>\n           ^"
    ),
    "root ::= * x": (
        "g.gbnf:1:10: '*' has nothing to repeat. Put an item before it.\n  root ::= * x\n           ^"
    ),
    'root ::= ("a"': "g.gbnf:1:14: expected ')' for the '(' at character 10, found the end.\n"
    '  root ::= ("a"\n               ^',
    "root ::= " + "(" * 61 + '"a"' + ")" * 61: (
        "g.gbnf:1:70: groups are nested deeper than 60 levels. Move inner groups into rules of their own.\n"
        "  " + ("root ::= " + "(" * 61 + '"a"' + ")" * 61)[9:109] + "\n  " + " " * 60 + "^"
    ),
}


@pytest.mark.parametrize("text", ERRORS, ids=range(len(ERRORS)))
def test_a_fault_is_named_with_its_place(text: str) -> None:
    with pytest.raises(GrammarError) as caught:
        read(text, name="g.gbnf")
    assert str(caught.value) == ERRORS[text]


def test_all_faults_are_reported_together() -> None:
    with pytest.raises(GrammarError) as caught:
        read('root ::= [b-a]\nx ::= "a\n\ny ::= )\n')
    assert [fault.where for fault in caught.value.faults] == ["1:10", "2:7", "4:7"]


def test_exponential_left_corners_are_refused() -> None:
    rules = [f'r{i} ::= r{i + 1} | r{i + 1} "x"' for i in range(40)]
    text = "\n".join(["root ::= r0", *rules, 'r40 ::= "y"'])
    with pytest.raises(GrammarError) as caught:
        read(text)
    assert caught.value.faults[0].problem.endswith("it can start in too many ways for llama.cpp to check.")


def test_recursion_behind_a_rule_that_may_be_empty_is_refused() -> None:
    with pytest.raises(GrammarError, match="left-recursive"):
        read('root ::= ws root "x" | "y"\nws ::= w2\nw2 ::= [ ]*')


@given(trees)
@settings(max_examples=100, deadline=None)
def test_a_grammar_that_passes_is_loaded_and_matched_alike_by_llama_cpp(tree: GrammarTree) -> None:
    text = str(tree)
    try:
        checked = read(text)
    except GrammarError:
        return
    oracle, matcher = LlamaOracle(text), Matcher(checked)
    assert oracle.loads
    drawn = [sample(tree, seed, budget=20)[:60] for seed in range(3)]
    for probe in drawn + [text[:-1] for text in drawn] + [text + "a" for text in drawn] + ["", "a"]:
        verdict = unambiguous_verdict(matcher, probe)
        assert verdict is None or verdict == oracle.accepts(probe)
    oracle.close()


def unambiguous_verdict(matcher: Matcher, text: str) -> bool | None:
    """Whether the text is accepted; None if its readings multiply, which llama.cpp takes ages over."""
    matcher.reset()
    for character in text:
        matcher.feed(character)
        if matcher.n_stacks > 200:
            return None
    return matcher.is_complete


_FRAGMENTS = [
    "root ::= ", "a ::= ", '"x"', "[a-z]", "[^\\n]", "(", ")", "|", "*", "+", "?", "{2}", "{1,3}", "{0,}",
    "{1999}", "{,2}", "a", "root", " ", "\n", "# c\n", ".", '"', "\\", "[", "]", "<[1]>", "!", '""', "\\x41",
    "-", "é", "_", "::=",
]  # fmt: skip


@given(st.lists(st.sampled_from(_FRAGMENTS), max_size=14).map("".join))
@example('root ::= "" "a"')
@example('root ::= (""){3} "b"')
@example('root ::= "a"{ 2 , 3 }')
@example('root ::= ("a" | "b"{2}\n{2})')
@settings(max_examples=300, deadline=None)
def test_any_text_is_loaded_by_llama_cpp_or_refused_here(text: str) -> None:
    try:
        read(text)
    except GrammarError:
        return
    oracle = LlamaOracle(text)
    assert oracle.loads
    oracle.accepts("xax")
    oracle.close()


@given(st.text())
def test_any_text_gives_a_tree_or_a_typed_error(text: str) -> None:
    try:
        read(text)
    except GrammarError as error:
        assert error.faults
