"""What in a grammar would crash llama.cpp, hang it, or be refused by it.

llama.cpp answers a grammar that it can't read with a null pointer, which llama-cpp-python
dereferences; a grammar with a dead end, an endless loop or an exponential left-corner check
aborts or hangs the process (llama.cpp ``src/llama-grammar.cpp``). Each of these is found here
first. All checks together cost time linear in the size of the tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
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

Takes = dict[str, int | None]


@dataclass(frozen=True, slots=True)
class Hazard:
    """Something harmful in the rule `rule`; `about` is the name in it that it is about, or empty."""

    rule: str
    problem: str
    remedy: str
    about: str = ""


def hazards(tree: GrammarTree, known: Takes | None = None) -> list[Hazard]:
    """Everything in the tree that llama.cpp must not be given; empty if the grammar is safe.

    `known`: what `takes` gives, for a tree from which all that can't match has been taken out.

    >>> [print(h.rule, h.problem) for h in hazards(GrammarTree({"root": Reference("x")}))]
    root no rule is named 'x'.
    [None]
    """
    parts: dict[str, list[Expression]] = {}
    for rule, expression in tree.rules.items():
        parts[rule], is_too_deep = _parts(expression)
        if is_too_deep:
            problem = f"groups are nested deeper than {MAX_DEPTH} levels."
            return [Hazard(rule, problem, "Move inner groups into rules.")]
    found = _undefined(tree, parts)
    if found:
        return found
    if known is None:
        known = takes(tree)
        found = _unmatchable(parts, known)
    for rule, inside in parts.items():
        found += _bad_repetitions(rule, inside, known)
    found += _left_recursion(tree, known)
    return found or _too_large(tree, parts)


def _parts(expression: Expression) -> tuple[list[Expression], bool]:
    """Everything inside an expression, itself included, and whether it is nested too deep."""
    found: list[Expression] = []
    level = [expression]
    for _ in range(MAX_DEPTH):
        found += level
        level = [part for current in level for part in children(current)]
        if not level:
            return found, False
    return found, True


def _undefined(tree: GrammarTree, parts: dict[str, list[Expression]]) -> list[Hazard]:
    if "root" not in tree.rules:
        return [Hazard("", "no rule is named 'root'.", "Name the rule that matches everything 'root'.")]
    return [
        Hazard(rule, f"no rule is named {name!r}.", "Define it, or correct the name.", name)
        for rule, inside in parts.items()
        for name in dict.fromkeys(part.name for part in inside if isinstance(part, Reference))
        if name not in tree.rules
    ]


def _unmatchable(parts: dict[str, list[Expression]], known: Takes) -> list[Hazard]:
    endless = "it can never match: every way through it needs itself or an empty class."
    found: list[Hazard] = []
    for rule, inside in parts.items():
        if known[rule] is None:
            found.append(Hazard(rule, endless, "Give it a way to end."))
        elif any(_is_dead_leaf(part, known) for part in inside):
            stuck = "Remove it: the model would get stuck."
            found.append(Hazard(rule, "a part of it can never match.", stuck))
    return found


def _is_dead_leaf(part: Expression, known: Takes) -> bool:
    is_leaf = isinstance(part, Literal | CharClass) or part == Alternation(())
    return is_leaf and take_of(part, known) is None


def takes(tree: GrammarTree) -> Takes:
    """What each rule must take: 0 if it may be empty, 1 if it takes text, None if it never matches.

    Rules come after those that they refer to; where that can't be, a rule is looked at again when one
    that it refers to has changed. Cost: linear, but for rules that refer to each other.
    """
    used = {name: references(expression) for name, expression in tree.rules.items()}
    found: Takes = dict.fromkeys(tree.rules)
    users: dict[str, list[str]] = {}
    for name, others in used.items():
        for other in others:
            users.setdefault(other, []).append(name)
    todo = _dependencies_first(used)
    waiting = set(todo)
    for name in todo:  # grows
        if name not in waiting:
            continue
        waiting.discard(name)
        taken = take_of(tree.rules[name], found)
        if found[name] != 0 and found[name] != taken:
            found[name] = taken
            again = [user for user in users.get(name, ()) if user not in waiting and found[user] != 0]
            waiting.update(again)
            todo += again
    return found


def _dependencies_first(used: dict[str, list[str]]) -> list[str]:
    order: list[str] = []
    seen: set[str] = set()
    for start in used:
        stack = [] if start in seen else [(start, iter(used[start]))]
        seen.add(start)
        while stack:
            name, rest = stack[-1]
            following = next((other for other in rest if other not in seen and other in used), None)
            if following is None:
                order.append(name)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(used[following])))
    return order


_UNMATCHABLE = re.compile("[\0\ud800-\udfff]")


def take_of(expression: Expression, known: Takes) -> int | None:
    """What an expression must take, with what its rules must take as `known`; see `takes`."""
    match expression:
        case Reference(name):
            return known.get(name)
        case Literal(text):
            return None if _UNMATCHABLE.search(text) else 1 if text else 0
        case CharClass():
            return 1 if _has_characters(expression) else None
        case Sequence(items):
            taken = 0
            for item in items:
                part = take_of(item, known)
                if part is None:
                    return None
                taken = taken or part
            return taken
        case Alternation(options):
            best: int | None = None
            for option in options:
                part = take_of(option, known)
                if part == 0:
                    return 0
                best = part if best is None else best
            return best
        case Repetition(item, minimum, _):
            return 0 if minimum == 0 else take_of(item, known)
        case _:
            assert_never(expression)


@lru_cache(maxsize=4096)
def _has_characters(part: CharClass) -> bool:
    """Whether the class holds any character that llama.cpp can match (all but NUL)."""
    members = union(part.ranges)
    members = complement(members) if part.negated else intersection(members, EVERY)
    return any(high > 0 for _, high in members)


def _bad_repetitions(rule: str, inside: list[Expression], known: Takes) -> Iterator[Hazard]:
    for current in inside:
        if not isinstance(current, Repetition):
            continue
        maximum, minimum = current.maximum, current.minimum
        if maximum is not None and maximum < minimum:
            yield Hazard(rule, f"{{{minimum},{maximum}}} asks for more than it allows.", "Swap the bounds.")
            continue
        if maximum is None and take_of(current.item, known) == 0:
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


def _enter(expression: Expression, known: Takes, corners: list[str]) -> bool:
    """Adds the rules that an expression may enter before it takes any text; whether it may be empty."""
    match expression:
        case Literal(text):
            return not text
        case CharClass():
            return False
        case Reference(name):
            corners.append(name)
            return known.get(name) == 0
        case Repetition(item, minimum, _):
            return _enter(item, known, corners) or minimum == 0
        case Alternation(options):
            can_be_empty = [_enter(option, known, corners) for option in options]
            return True in can_be_empty
        case Sequence(items):
            return all(_enter(item, known, corners) for item in items)
        case _:
            assert_never(expression)


def _left_recursion(tree: GrammarTree, known: Takes) -> list[Hazard]:
    """Rules that reach themselves before they take text, and left corners too many to check.

    llama.cpp starts at each rule that it hasn't seen, in the order in which names appear, and walks
    every path of left corners from there, seen or not; so the number of those paths is bounded.
    """
    corners: dict[str, list[str]] = {name: [] for name in tree.rules}
    for name, expression in tree.rules.items():
        _enter(expression, known, corners[name])
    visits: dict[str, int] = {}
    n_visits = 0
    for start in _names_in_order(tree):
        if start in visits:
            continue
        again = _count_visits(start, corners, visits)
        if again is not None:
            name, following = again
            problem = f"it is left-recursive: it may enter {following!r} again before it takes any text."
            return [Hazard(name, problem, "Write the repetition with * or +.", following)]
        n_visits += visits[start]
    if n_visits > MAX_LEFT_VISITS:
        worst = max(visits, key=lambda name: visits[name])
        problem = "it can start in too many ways for llama.cpp to check."
        return [Hazard(worst, problem, "Factor out what its alternatives begin with.")]
    return []


def _names_in_order(tree: GrammarTree) -> dict[str, None]:
    """The names in the order in which they appear in the text."""
    order: dict[str, None] = {}
    for name in sorted(tree.rules, key=lambda name: name != "root"):
        order[name] = None
        order.update(dict.fromkeys(references(tree.rules[name])))
    return order


def _count_visits(
    start: str, corners: dict[str, list[str]], visits: dict[str, int]
) -> tuple[str, str] | None:
    """Adds to `visits` how many paths lead down from each rule below `start`; or a rule and the open
    rule that it enters again."""
    stack, open_rules = [(start, iter(corners[start]))], {start}
    while stack:
        name, rest = stack[-1]
        following = next((corner for corner in rest if corner not in visits), None)
        if following is None:
            stack.pop()
            open_rules.discard(name)
            visits[name] = 1 + sum(visits[corner] for corner in corners[name])
        elif following in open_rules:
            return name, following
        else:
            open_rules.add(following)
            stack.append((following, iter(corners[following])))
    return None


def _too_large(tree: GrammarTree, parts: dict[str, list[Expression]]) -> list[Hazard]:
    sizes = {
        rule: _elements(tree.rules[rule])
        if any(isinstance(p, Repetition) for p in inside)
        else 2 * len(inside)
        for rule, inside in parts.items()
    }
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
