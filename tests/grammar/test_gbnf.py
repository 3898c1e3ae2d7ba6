from __future__ import annotations

from hypothesis import given

from chatwrap.grammar.gbnf import (
    ANY_CHARACTER,
    EMPTY,
    NEVER,
    CharClass,
    GrammarTree,
    Literal,
    Reference,
    Repetition,
    Sequence,
    alternation,
    sequence,
)
from chatwrap.grammar.reader import _Reader
from tests.grammar.trees import trees


def parse(text: str) -> GrammarTree:
    """The tree of a text without the safety check."""
    reader = _Reader(text, "")
    reader.read_rules()
    assert not reader.faults
    return GrammarTree(reader.rules)


@given(trees)
def test_reading_what_was_printed_gives_the_tree(tree: GrammarTree) -> None:
    assert parse(str(tree)) == tree


def test_printing_shows_every_kind_of_expression() -> None:
    tree = GrammarTree(
        {
            "x": Repetition(Repetition(Literal("a"), 0, 1), 2, 5),
            "root": Sequence((Literal('"\\\n'), CharClass(((94, 94), (97, 122)), True), Reference("x"))),
            "y": alternation([sequence(ANY_CHARACTER, Reference("x")), EMPTY, Repetition(EMPTY, 3, 3)]),
        }
    )
    assert str(tree) == ('root ::= "\\"\\\\\\n" [^\\x5Ea-z] x\nx ::= ("a"?){2,5}\ny ::= . x | "" | (""){3}')


def test_normal_form_joins_and_drops() -> None:
    assert sequence(Literal("a"), sequence(Literal("b"), Reference("x"))) == Sequence(
        (Literal("ab"), Reference("x"))
    )
    assert sequence(Literal("a"), NEVER) == NEVER
    assert sequence() == EMPTY
    assert alternation([Literal("a"), NEVER, Literal("a")]) == Literal("a")
    assert alternation([]) == NEVER
