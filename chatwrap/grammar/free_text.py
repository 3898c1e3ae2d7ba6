"""Text that is free until a mark appears in it, as rules: an Aho-Corasick automaton, one rule a state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from chatwrap.grammar.automaton import Automaton, explore
from chatwrap.grammar.charset import MAX_CODE_POINT, Ranges, complement, intersection, single, union
from chatwrap.grammar.gbnf import EMPTY, CharClass, Expression, Literal, Reference, alternation, sequence
from chatwrap.grammar.rules import RuleBook


def free_text(
    book: RuleBook, exits: Mapping[str, Expression], reserved: Ranges, *, may_end: bool = False
) -> Reference:
    """Any text up to the first of the marks `exits`, and what follows each of them.

    Laws: the mark with the earliest end counts, of those the longest; so there is one reading of a
    text. Characters of `reserved` are in no free text. With `may_end` the text may also end without a
    mark. Cost: a rule for each character of the marks.
    """
    states = sorted({mark[:n] for mark in exits for n in range(len(mark))} | {""})
    names = {state: book.new_name("free") for state in states}
    characters = sorted({character for mark in exits for character in mark})
    others = complement(union((ord(c), ord(c)) for c in characters))
    for state in states:
        moves: dict[str, list[tuple[int, int]]] = {"": list(others)}
        for character in characters:
            following = _following(state + character, exits, names)
            moves.setdefault(following, []).append((ord(character), ord(character)))
        options: list[Expression] = []
        for following, ranges in moves.items():
            if following in exits:
                options.append(sequence(Literal(following[-1]), exits[following]))
            elif allowed := intersection(union(ranges), complement(reserved)):
                options.append(sequence(_class(allowed), Reference(names[following])))
        book.rules[names[state]] = alternation([*options, EMPTY] if may_end else options)
    return Reference(names[""])


def _following(text: str, exits: Mapping[str, object], states: Mapping[str, object]) -> str:
    """The mark that `text` completes, or the longest end of it that begins one."""
    ends = [text[n:] for n in range(len(text) + 1)]
    complete = next((end for end in ends if end in exits), None)
    return complete if complete is not None else next(end for end in ends if end in states)


def _class(ranges: Ranges) -> Expression:
    """A class, negated where that is shorter."""
    outside = complement(ranges)
    if outside and outside[-1][1] < 0x80:
        return CharClass(outside, negated=True)
    (low, high), *more = ranges
    return Literal(chr(low)) if low == high and not more else CharClass(ranges)


def text_before(suffix: str, forbidden: Iterable[str], reserved: Ranges) -> Automaton:
    """The texts that `suffix` may follow such that the first of the marks in both is where they meet.

    The marks are `suffix` itself and the `forbidden` ones: none stands in the text, and none ends in
    `suffix` before its end.
    """
    marks = {suffix, *forbidden} - {""}
    states = {mark[:n] for mark in marks for n in range(len(mark))} | {""}
    characters = sorted({character for mark in marks for character in mark})
    gaps = complement(reserved)

    def step(state: str, character: str) -> str | None:
        ends = [(state + character)[n:] for n in range(len(state) + 2)]
        return None if any(end in marks for end in ends) else next(end for end in ends if end in states)

    def moves(state: str) -> list[tuple[int, str | None]]:
        targets: dict[int, str | None] = {}
        for low, high in gaps:
            targets[low] = ""
            if high < MAX_CODE_POINT:
                targets[high + 1] = None
        for character in characters:
            code_point = ord(character)
            if intersection(gaps, single(character)):
                targets[code_point] = step(state, character)
                if intersection(gaps, ((code_point + 1, code_point + 1),)):
                    targets.setdefault(code_point + 1, "")
        if 0 not in targets:
            targets[0] = None
        return sorted(targets.items())

    def accepts(state: str) -> bool:
        ends = (state[n:] + suffix for n in range(len(state)))
        return not any(end.startswith(mark) for end in ends for mark in marks)

    return explore("", moves, accepts)
