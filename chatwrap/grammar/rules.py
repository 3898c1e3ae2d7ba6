"""A grammar in the making: rules with names of their own, and automata written as rules.

An automaton becomes right-linear rules, one for each state that is reached in more than one way.
They are deterministic, so llama.cpp keeps one stack where a list of alternatives would keep one for
each (a 1,000-word list: 461 ms for a token against 11 ms).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from operator import is_

from chatwrap.errors import SchemaError
from chatwrap.grammar.automaton import DEAD, Automaton, moves_of
from chatwrap.grammar.charset import EVERY, MAX_CODE_POINT, Ranges, complement, intersection, union
from chatwrap.grammar.gbnf import (
    EMPTY,
    NEVER,
    Alternation,
    CharClass,
    Expression,
    GrammarTree,
    Literal,
    Reference,
    Repetition,
    Sequence,
    alternation,
    optional,
    references,
    sequence,
)
from chatwrap.grammar.safety import Takes, takes

# llama.cpp unfolds a repetition into as many rules; longer ones are built from blocks.
BLOCK = 1000
MAX_INLINE = 8

_MUST_ESCAPE: Ranges = union([(0, 0x1F), (34, 34), (92, 92)])
_RAW: Ranges = complement(_MUST_ESCAPE)
_NON_ASCII: Ranges = intersection(((0x80, MAX_CODE_POINT),), EVERY)
_SHORT_ESCAPES = {34: '"', 92: "\\", 8: "b", 9: "t", 10: "n", 12: "f", 13: "r"}

_N_LONG_ESCAPES = 32 - sum(c < 32 for c in _SHORT_ESCAPES)

_HEX = CharClass(((48, 57), (65, 70), (97, 102)))
_DIGIT = CharClass(((48, 57),))
_D = CharClass(((68, 68), (100, 100)))


def _not_surrogate(first: Ranges) -> Expression:
    """Four hexadecimal digits that start with one of `first`, surrogates left out."""
    plain = sequence(CharClass(first), _HEX, _HEX, _HEX)
    return alternation([plain, sequence(_D, CharClass(((48, 55),)), _HEX, _HEX)])


_PAIR = sequence(
    _D, CharClass(((56, 57), (65, 66), (97, 98))), _HEX, _HEX,
    Literal("\\u"), _D, CharClass(((67, 70), (99, 102))), _HEX, _HEX,
)  # fmt: skip
_ABOVE_LATIN = _not_surrogate(((49, 57), (65, 67), (69, 70), (97, 99), (101, 102)))
_ABOVE_ASCII = alternation([
    sequence(Literal("00"), CharClass(((56, 57), (65, 70), (97, 102))), _HEX),
    sequence(Literal("0"), CharClass(((49, 57), (65, 70), (97, 102))), _HEX, _HEX),
    _ABOVE_LATIN, _PAIR,
])  # fmt: skip

# The rules of RFC 8259 strings and numbers. Numbers stay below 1e308 and within 31 digits on each
# side of the point: a model can't run away in digits. An escaped surrogate stands only in a pair, so
# that one `char` is one code point.
TEXT_RULES: dict[str, Expression] = {
    "char": alternation([
        CharClass(_MUST_ESCAPE, negated=True),
        sequence(Literal("\\"), alternation([
            CharClass(union((ord(c), ord(c)) for c in '"\\/bfnrt')),
            sequence(Literal("u"), Reference("code-unit")),
        ])),
    ]),
    "code-unit": alternation([
        _not_surrogate(((48, 57), (65, 67), (69, 70), (97, 99), (101, 102))), _PAIR,
    ]),
    "escaped-non-ascii": sequence(Literal("\\u"), _ABOVE_ASCII),
    "escaped-control": sequence(Literal("\\u00"), alternation([
        sequence(Literal("0"), CharClass(union((ord(c), ord(c)) for c in "01234567bBeEfF"))),
        sequence(Literal("1"), _HEX),
    ])),
    "whole": alternation([Literal("0"), sequence(CharClass(((49, 57),)), Repetition(_DIGIT, 0, 30))]),
    "integer": sequence(optional(Literal("-")), Reference("whole")),
    "number": sequence(
        optional(Literal("-")), Reference("whole"),
        optional(sequence(Literal("."), Repetition(_DIGIT, 1, 30))), optional(Reference("exponent")),
    ),
    "exponent": sequence(
        CharClass(((69, 69), (101, 101))), optional(CharClass(((43, 43), (45, 45)))),
        alternation([
            Repetition(_DIGIT, 1, 2), sequence(CharClass(((49, 50),)), _DIGIT, _DIGIT),
            sequence(Literal("30"), CharClass(((48, 55),))),
        ]),
    ),
    "string": sequence(Literal('"'), Repetition(Reference("char"), 0), Literal('"')),
}  # fmt: skip


@dataclass(slots=True)
class RuleBook:
    """Rules being written. `max_rules` bounds them; past it `SchemaError` is raised.

    `takes` is what each rule must take, once `tree` has been called (`safety.takes`).
    """

    rules: dict[str, Expression] = field(default_factory=dict)
    max_rules: int = 100_000
    takes: Takes = field(default_factory=dict)
    _known: dict[Expression, Reference] = field(default_factory=dict)
    _automata: dict[tuple[Automaton, bool], Expression] = field(default_factory=dict)
    _n_names: int = 0

    def new_name(self, hint: str) -> str:
        self._n_names += 1
        if self._n_names > self.max_rules:
            problem = f"the grammar needs more than {self.max_rules:,} rules."
            raise SchemaError.of("$", problem, "Split the schema, or make its bounds smaller.")
        return f"{hint}-{self._n_names}"

    def name(self, expression: Expression, hint: str) -> Expression:
        """A reference to the expression; equal expressions share a rule, short ones need none."""
        if isinstance(expression, Reference | Literal | CharClass) or expression == NEVER:
            return expression
        known = self._known.get(expression)
        if known is None:
            known = self._known[expression] = Reference(self.new_name(hint))
            self.rules[known.name] = expression
        return known

    def shared(self, name: str) -> Reference:
        """A reference to one of `TEXT_RULES`, put into the book with what it refers to."""
        todo = [name]
        while todo:
            current = todo.pop()
            if current not in self.rules:
                self.rules[current] = TEXT_RULES[current]
                todo.extend(references(TEXT_RULES[current]))
        return Reference(name)

    def repeat(self, item: Expression, minimum: int, maximum: int | None) -> Expression:
        """`item` from `minimum` to `maximum` times, large bounds in blocks of `BLOCK`."""
        if item == NEVER:
            return EMPTY if minimum == 0 else NEVER
        item = self.name(item, "item")
        if max(minimum, maximum or 0) <= BLOCK:
            return EMPTY if maximum == 0 else Repetition(item, minimum, maximum)
        block = self.name(Repetition(item, BLOCK, BLOCK), "block")
        full, rest = divmod(minimum, BLOCK)
        parts = [Repetition(block, full, full)] if full else []
        parts += [Repetition(item, rest, rest)] if rest else []
        if maximum is None:
            return sequence(*parts, Repetition(item, 0))
        full, rest = divmod(maximum - minimum, BLOCK)
        tail = Repetition(item, 0, BLOCK - 1 if full and rest == 0 else rest or None)
        return sequence(*parts, self._at_most(item, block, full, rest) if full else tail)

    def _at_most(self, item: Expression, block: Expression, full: int, rest: int) -> Expression:
        """Up to ``full * BLOCK + rest`` items: one rule a block, which goes on only when it is full."""
        tail: Expression = Repetition(item, 0, rest) if rest else EMPTY
        for _ in range(full):
            tail = self.name(alternation([Repetition(item, 0, BLOCK - 1), sequence(block, tail)]), "items")
        return tail

    def json_text(self, automaton: Automaton) -> Expression:
        """A JSON string whose content is in the automaton."""
        return sequence(Literal('"'), self._written(automaton, json=True), Literal('"'))

    def plain_text(self, automaton: Automaton) -> Expression:
        """The texts of the automaton as they are."""
        return self._written(automaton, json=False)

    def _written(self, automaton: Automaton, *, json: bool) -> Expression:
        if automaton.is_empty:
            return NEVER
        key = (automaton, json)
        if key not in self._automata:
            spell = self._json_spelling if json else _plain_spelling
            self._automata[key] = _AutomatonWriter(self, automaton, spell).state(0, 0)
        return self._automata[key]

    def _json_spelling(self, ranges: Ranges) -> list[Expression]:
        if ranges == EVERY:
            return [self.shared("char")]
        found, shared = _json_spelling(ranges)
        return [*found, *map(self.shared, shared)]

    def tree(self) -> GrammarTree:
        """The finished grammar: reachable rules that can match, none that merely rename another."""
        rules = _without_unit_cycles(self.rules)
        self.takes = takes(GrammarTree(rules))
        meant = {name: _meant(name, rules) if self.takes[name] is not None else NEVER for name in rules}
        kept: dict[str, Expression] = {}
        todo = ["root"]
        while todo:
            name = todo.pop()
            if name not in kept:
                source = meant[name] if name == "root" else Reference(name)
                if source == NEVER:
                    return GrammarTree({"root": NEVER})
                expression = rules[source.name] if isinstance(source, Reference) else source
                kept[name] = _pruned(expression, meant)
                todo.extend(references(kept[name]))
        return GrammarTree(kept)


@lru_cache(maxsize=4096)
def _json_spelling(ranges: Ranges) -> tuple[tuple[Expression, ...], tuple[str, ...]]:
    """How JSON writes one character of a set: expressions, and names of `TEXT_RULES`."""
    options: list[Expression] = []
    shared: list[str] = []
    raw = intersection(ranges, _RAW)
    if intersection(ranges, _NON_ASCII) == _NON_ASCII:
        options.append(CharClass(intersection(complement(raw), ((0, 0x7F),)), negated=True))
        shared.append("escaped-non-ascii")
    elif raw:
        options.append(_characters(raw))
    escaped = [c for low, high in intersection(ranges, _MUST_ESCAPE) for c in range(low, high + 1)]
    short = [ord(_SHORT_ESCAPES[c]) for c in escaped if c in _SHORT_ESCAPES]
    long = [c for c in escaped if c not in _SHORT_ESCAPES]
    if short:
        options.append(sequence(Literal("\\"), _characters(union((c, c) for c in short))))
    if len(long) == _N_LONG_ESCAPES:
        shared.append("escaped-control")
    else:
        options += [Literal(f"\\u{c:04x}") for c in long]
    return tuple(options), tuple(shared)


def _characters(ranges: Ranges) -> Expression:
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return Literal(chr(ranges[0][0]))
    return CharClass(ranges)


def _plain_spelling(ranges: Ranges) -> list[Expression]:
    ranges = intersection(ranges, ((1, MAX_CODE_POINT),))
    outside = complement(ranges)
    if outside and outside[-1][1] < 0x80:
        return [CharClass(outside, negated=True)]
    return [_characters(ranges)] if ranges else []


@dataclass(slots=True)
class _AutomatonWriter:
    book: RuleBook
    automaton: Automaton
    spell: Callable[[Ranges], list[Expression]]
    names: dict[int, str] = field(default_factory=dict)
    entries: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.entries = [0] * len(self.automaton.rows)
        self.entries[0] = 1
        for row in self.automaton.rows:
            for target in {target for _, target in row if target != DEAD}:
                self.entries[target] += 1

    def state(self, state: int, depth: int) -> Expression:
        """What may follow once `state` is reached: a rule of its own if reached twice, else in place."""
        automaton = self.automaton
        if automaton.accepting[state] and len(automaton.rows[state]) == 1:
            return EMPTY if automaton.rows[state][0][1] == DEAD else self._rule(state)
        if self.entries[state] > 1 or depth > MAX_INLINE:
            return self._rule(state)
        return self._body(state, depth)

    def _rule(self, state: int) -> Expression:
        if state not in self.names:
            self.names[state] = self.book.new_name("text")
            self.book.rules[self.names[state]] = NEVER
            self.book.rules[self.names[state]] = self._body(state, 0)
        return Reference(self.names[state])

    def _body(self, state: int, depth: int) -> Expression:
        word, state = self._word_from(state)
        moves = moves_of(self.automaton.rows[state])
        if self.automaton.accepting[state] and not moves:
            return Literal(word)
        options: list[Expression] = []
        loop = self._loop(state, moves)
        if loop is not None:
            return sequence(Literal(word), loop)
        for target, ranges in moves.items():
            spelled = alternation(self.spell(ranges))
            options.append(sequence(spelled, self.state(target, depth + 1)))
        if self.automaton.accepting[state]:
            options.append(EMPTY)
        return sequence(Literal(word), alternation(options))

    def _loop(self, state: int, moves: dict[int, Ranges]) -> Expression | None:
        """A state that only loops, as a repetition."""
        if list(moves) != [state] or not self.automaton.accepting[state]:
            return None
        return Repetition(self.book.name(alternation(self.spell(moves[state])), "class"), 0)

    def _word_from(self, state: int) -> tuple[str, int]:
        """The characters that must follow one by one, and the state behind them."""
        word: list[str] = []
        while not self.automaton.accepting[state]:
            moves = moves_of(self.automaton.rows[state])
            (target, ranges), *more = moves.items()
            if more or len(ranges) != 1 or ranges[0][0] != ranges[0][1] or (word and self.entries[state] > 1):
                break
            spelled = self.spell(ranges)
            if len(spelled) != 1 or not isinstance(spelled[0], Literal) or self.entries[target] > 1:
                break
            word.append(spelled[0].text)
            state = target
        return "".join(word), state


def _meant(name: str, rules: dict[str, Expression]) -> Expression:
    """What a reference to the rule comes to: the last of a chain of mere renamings, or its literal."""
    expression = rules[name]
    while isinstance(expression, Reference):
        name, expression = expression.name, rules[expression.name]
    return expression if isinstance(expression, Literal) and expression.text else Reference(name)


def _pruned(expression: Expression, meant: dict[str, Expression]) -> Expression:
    """The expression without parts that can never match, renamings resolved."""
    match expression:
        case Reference(name):
            target = meant[name]
            return expression if target == expression else target
        case Alternation(options):
            pruned = [_pruned(option, meant) for option in options]
            if all(map(is_, pruned, options)):
                return expression
            return alternation(option for option in pruned if option != NEVER)
        case Sequence(items):
            parts = [_pruned(item, meant) for item in items]
            return expression if all(map(is_, parts, items)) else sequence(*parts)
        case Repetition(item, minimum, maximum):
            kept = _pruned(item, meant)
            if kept is item:
                return expression
            if kept == NEVER:
                return EMPTY if minimum == 0 else NEVER
            return Repetition(kept, minimum, maximum)
        case _:
            return expression


def _unit_options(expression: Expression) -> tuple[Expression, ...]:
    return expression.options if isinstance(expression, Alternation) else (expression,)


def _without_unit_cycles(rules: dict[str, Expression]) -> dict[str, Expression]:
    """The rules with alternatives that lead straight back to the rule itself taken out.

    ``a ::= b | x`` and ``b ::= a | y`` both match x and y: the rules of such a cycle share their
    other alternatives (the least fixed point, which is what a self-referring anyOf means).
    """
    units = {
        name: [o.name for o in _unit_options(expression) if isinstance(o, Reference)]
        for name, expression in rules.items()
    }
    units = {name: targets for name, targets in units.items() if targets}
    cyclic = _cyclic_names(units)
    if not cyclic:
        return rules
    changed = dict(rules)
    for name in cyclic:
        seen, todo, options = {name}, [name], []
        while todo:
            for option in _unit_options(rules[todo.pop()]):
                if isinstance(option, Reference) and option.name in cyclic:
                    if option.name not in seen:
                        seen.add(option.name)
                        todo.append(option.name)
                else:
                    options.append(option)
        changed[name] = alternation(options)
    return changed


def _cyclic_names(units: dict[str, list[str]]) -> set[str]:
    """The names that can lead back to themselves, and those between two such. Cost linear."""
    inner = {name: [t for t in targets if t in units] for name, targets in units.items()}
    back: dict[str, list[str]] = {name: [] for name in inner}
    for name, targets in inner.items():
        for target in targets:
            back[target].append(name)
    ending = _peeled(inner, back)
    inner = {name: [t for t in inner[name] if t in ending] for name in ending}
    back = {name: [n for n in back[name] if n in ending] for name in ending}
    return _peeled(back, inner)


def _peeled(ways: dict[str, list[str]], back: dict[str, list[str]]) -> set[str]:
    """The names left when those without a way on are taken away again and again."""
    n_ways = {name: len(targets) for name, targets in ways.items()}
    ready = [name for name, count in n_ways.items() if not count]
    left = set(n_ways)
    while ready:
        name = ready.pop()
        left.discard(name)
        for before in back[name]:
            n_ways[before] -= 1
            if not n_ways[before]:
                ready.append(before)
    return left
