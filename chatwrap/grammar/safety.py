"""What in a grammar would crash llama.cpp, hang it, or be refused by it.

llama.cpp answers a grammar that it can't read with a null pointer, which llama-cpp-python
dereferences; a grammar with a dead end, an endless loop or an exponential left-corner check
aborts or hangs the process (llama.cpp ``src/llama-grammar.cpp``). Each of these is found here
first. All checks together cost time linear in the size of the tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from chatwrap.grammar.charset import EVERY, complement, intersection, union
from chatwrap.grammar.gbnf import (
    Alternation,
    CharClass,
    Expression,
    GrammarTree,
    Literal,
    Reference,
    Repetition,
    Sequence,
    children,
    references,
)

# llama.cpp's MAX_REPETITION_THRESHOLD is 2000; some releases refuse 2000 itself, others ignore
# a larger upper bound without a word.
MAX_REPETITION = 1999
MAX_ELEMENTS = 2_000_000
MAX_LEFT_VISITS = 1_000_000
MAX_DEPTH = 200

Lengths = dict[str, int | None]


@dataclass(frozen=True, slots=True)
class Hazard:
    """Something harmful in the rule `rule`; `about` is the name in it that it is about, or empty."""

    rule: str
    problem: str
    remedy: str
    about: str = ""


def hazards(tree: GrammarTree) -> list[Hazard]:
    """Everything in the tree that llama.cpp must not be given; empty if the grammar is safe.

    >>> [print(h.rule, h.problem) for h in hazards(GrammarTree({"root": Reference("x")}))]
    root no rule is named 'x'.
    [None]
    """
    found = list(_undefined(tree)) or list(_too_deep(tree))
    if found:
        return found
    lengths = shortest(tree)
    found = _unmatchable(tree, lengths)
    for name, expression in tree.rules.items():
        found += _bad_repetitions(name, expression, lengths)
    found += _left_recursion(tree, lengths)
    return found or _too_large(tree)


def _undefined(tree: GrammarTree) -> Iterator[Hazard]:
    if "root" not in tree.rules:
        yield Hazard("", "no rule is named 'root'.", "Name the rule that matches everything 'root'.")
    for rule, expression in tree.rules.items():
        for name in dict.fromkeys(references(expression)):
            if name not in tree.rules:
                yield Hazard(rule, f"no rule is named {name!r}.", "Define it, or correct the name.", name)


def _too_deep(tree: GrammarTree) -> Iterator[Hazard]:
    for rule, expression in tree.rules.items():
        level, depth = [expression], 0
        while level and depth <= MAX_DEPTH:
            level = [child for current in level for child in children(current)]
            depth += 1
        if level:
            yield Hazard(
                rule, f"groups are nested deeper than {MAX_DEPTH} levels.", "Move inner groups into rules."
            )


def _unmatchable(tree: GrammarTree, lengths: Lengths) -> list[Hazard]:
    endless = "it can never match: every way through it needs itself or an empty class."
    found: list[Hazard] = []
    for rule, expression in tree.rules.items():
        if lengths[rule] is None:
            found.append(Hazard(rule, endless, "Give it a way to end."))
        elif any(_is_dead_leaf(part, lengths) for part in _parts(expression)):
            stuck = "Remove it: the model would get stuck."
            found.append(Hazard(rule, "a part of it can never match.", stuck))
    return found


def _parts(expression: Expression) -> Iterator[Expression]:
    stack = [expression]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(children(current))


def _is_dead_leaf(expression: Expression, lengths: Lengths) -> bool:
    return (
        not isinstance(expression, Reference)
        and not children(expression)
        and (shortest_of(expression, lengths) is None)
    )


def shortest(tree: GrammarTree) -> Lengths:
    """The fewest characters that each rule matches, or None for a rule that never matches."""
    lengths: Lengths = dict.fromkeys(tree.rules)
    users: dict[str, list[str]] = {name: [] for name in tree.rules}
    for name, expression in tree.rules.items():
        for used in set(references(expression)):
            if used in users:
                users[used].append(name)
    waiting = dict.fromkeys(tree.rules)
    while waiting:
        name = next(iter(waiting))
        del waiting[name]
        length = shortest_of(tree.rules[name], lengths)
        old = lengths[name]
        if length is not None and (old is None or length < old):
            lengths[name] = length
            waiting.update(dict.fromkeys(users[name]))
    return lengths


def shortest_of(expression: Expression, lengths: Lengths) -> int | None:
    match expression:
        case Literal(text):
            return None if any(c == "\0" or "\ud800" <= c <= "\udfff" for c in text) else len(text)
        case CharClass(ranges, negated):
            members = complement(union(ranges)) if negated else intersection(union(ranges), EVERY)
            return 1 if any(high > 0 for _, high in members) else None
        case Reference(name):
            return lengths.get(name)
        case Sequence(items):
            parts = [shortest_of(item, lengths) for item in items]
            return None if None in parts else sum(part for part in parts if part is not None)
        case Alternation(options):
            found = [n for option in options if (n := shortest_of(option, lengths)) is not None]
            return min(found, default=None)
        case Repetition(item, minimum, _):
            length = shortest_of(item, lengths)
            return 0 if minimum == 0 else None if length is None else length * minimum
        case _:
            assert_never(expression)


def _bad_repetitions(rule: str, expression: Expression, lengths: Lengths) -> Iterator[Hazard]:
    for current in _parts(expression):
        if not isinstance(current, Repetition):
            continue
        maximum, minimum = current.maximum, current.minimum
        if maximum is not None and maximum < minimum:
            yield Hazard(rule, f"{{{minimum},{maximum}}} asks for more than it allows.", "Swap the bounds.")
            continue
        if maximum is None and shortest_of(current.item, lengths) == 0:
            yield Hazard(
                rule, "it repeats without end what may be empty.", "Let the repeated part take text."
            )
        if _copies(current) > MAX_REPETITION:
            yield Hazard(
                rule,
                f"repeats come to more than {MAX_REPETITION} copies.",
                "Lower the bounds, or repeat a named rule.",
            )


def _copies(repetition: Repetition) -> int:
    """How often llama.cpp copies rules for a repetition, nested groups multiplied, at most."""
    times = max(repetition.minimum if repetition.maximum is None else repetition.maximum, 1)
    return times * max(1, _generated(repetition.item))


def _generated(expression: Expression) -> int:
    """How many rules llama.cpp makes for a group, counted generously."""
    match expression:
        case Literal() | CharClass() | Reference():
            return 1
        case Repetition(item, minimum, maximum):
            optional_copies = 1 if maximum is None else max(0, maximum - minimum)
            return _generated(item) * max(minimum, 1) + optional_copies
        case Sequence() | Alternation():
            return 1 + sum(
                1 if isinstance(part, Reference) else _generated(part) if children(part) else 0
                for part in children(expression)
            )
        case _:
            assert_never(expression)


def _left_corners(expression: Expression, lengths: Lengths) -> list[str]:
    """The rules that an expression may enter before it takes any text."""
    match expression:
        case Literal() | CharClass():
            return []
        case Reference(name):
            return [name]
        case Repetition(item):
            return _left_corners(item, lengths)
        case Alternation(options):
            return [name for option in options for name in _left_corners(option, lengths)]
        case Sequence(items):
            found: list[str] = []
            for item in items:
                found += _left_corners(item, lengths)
                if shortest_of(item, lengths) != 0:
                    break
            return found
        case _:
            assert_never(expression)


def _left_recursion(tree: GrammarTree, lengths: Lengths) -> list[Hazard]:
    """Rules that reach themselves before they take text, and left corners too many to check.

    llama.cpp walks every path of left corners again, so their number is bounded as well.
    """
    corners = {name: _left_corners(expression, lengths) for name, expression in tree.rules.items()}
    visits: dict[str, int] = {}
    open_rules: set[str] = set()
    for start in tree.rules:
        stack = [(start, iter(corners[start]))]
        if start in visits:
            continue
        open_rules.add(start)
        while stack:
            name, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                stack.pop()
                open_rules.discard(name)
                visits[name] = 1 + sum(visits[corner] for corner in corners[name])
            elif following in open_rules:
                problem = f"it is left-recursive: it may enter {following!r} again before it takes any text."
                return [Hazard(name, problem, "Write the repetition with * or +.", following)]
            elif following not in visits:
                open_rules.add(following)
                stack.append((following, iter(corners[following])))
    worst = max(visits, key=lambda name: visits[name])
    if sum(visits.values()) > MAX_LEFT_VISITS:
        problem = "it can start in too many ways for llama.cpp to check."
        return [Hazard(worst, problem, "Factor out what its alternatives begin with.")]
    return []


def _too_large(tree: GrammarTree) -> list[Hazard]:
    sizes = {name: _elements(expression) for name, expression in tree.rules.items()}
    total = sum(sizes.values())
    if total <= MAX_ELEMENTS:
        return []
    worst = max(sizes, key=lambda name: sizes[name])
    problem = f"the grammar unfolds to {total:,} elements; at most {MAX_ELEMENTS:,} are allowed."
    return [Hazard(worst, problem, "Lower its repetition bounds.")]


def _elements(expression: Expression) -> int:
    """How many elements llama.cpp keeps for an expression after it has unfolded the repetitions."""
    match expression:
        case Literal(text):
            return 1 + len(text)
        case CharClass(ranges):
            return 1 + 2 * len(ranges)
        case Reference():
            return 1
        case Sequence() | Alternation():
            return 2 + sum(_elements(part) + 1 for part in children(expression))
        case Repetition(item, minimum, maximum):
            optional_copies = 1 if maximum is None else maximum - minimum
            return _elements(item) * (minimum + optional_copies) + 3 * optional_copies
        case _:
            assert_never(expression)
