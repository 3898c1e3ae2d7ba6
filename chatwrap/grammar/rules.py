"""A grammar in the making: rules with names of their own, and automata written as rules.

An automaton becomes right-linear rules, one for each state that is reached in more than one way.
They are deterministic, so llama.cpp keeps one stack where a list of alternatives would keep one for
each (a 1,000-word list: 461 ms for a token against 11 ms).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import is_
from typing import assert_never

from chatwrap.errors import SchemaError
from chatwrap.grammar.automaton import Automaton, moves_of
from chatwrap.grammar.charset import EVERY, Ranges
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
    references,
    sequence,
)
from chatwrap.grammar.merging import DEAD, NO_MOVES
from chatwrap.grammar.safety import Takes, takes, uses_of
from chatwrap.grammar.texts import TEXT_RULES, json_spelling, plain_spelling

# llama.cpp unfolds a repetition into as many rules; longer ones are built from blocks.
BLOCK = 1000
MAX_INLINE = 8

Spell = Callable[[Ranges], list[Expression]]


@dataclass(slots=True)
class RuleBook:
    """Rules being written. `max_rules` bounds them; past it `SchemaError` is raised.

    Once `tree` has been called, `takes` is what each rule must take (`safety.takes`), and `uses` what
    those of the tree refer to. `classes` are the sets of characters written so far, by their spelling.
    """

    rules: dict[str, Expression] = field(default_factory=dict)
    max_rules: int = 100_000
    takes: Takes = field(default_factory=dict)
    uses: dict[str, list[str]] = field(default_factory=dict)
    classes: dict[tuple[str, Ranges], Expression] = field(default_factory=dict)
    _known: dict[Expression, Reference] = field(default_factory=dict)
    _automata: dict[tuple[Automaton, str], Expression] = field(default_factory=dict)
    _by_id: dict[tuple[int, str], tuple[Automaton, Expression]] = field(default_factory=dict)
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
        return sequence(Literal('"'), self.spelled(automaton, "json", self._json_spelling), Literal('"'))

    def plain_text(self, automaton: Automaton) -> Expression:
        """The texts of the automaton as they are."""
        return self.spelled(automaton, "", plain_spelling)

    def spelled(self, automaton: Automaton, how: str, spell: Spell) -> Expression:
        """The texts of the automaton, each character as `spell` (known by the name `how`) writes it."""
        if automaton.is_empty:
            return NEVER
        same = (id(automaton), how)
        if same not in self._by_id:
            key = (automaton, how)  # whose hash costs its size
            if key not in self._automata:
                self._automata[key] = _AutomatonWriter(self, automaton, how, spell).written()
            self._by_id[same] = (automaton, self._automata[key])
        return self._by_id[same][1]

    def _json_spelling(self, ranges: Ranges) -> list[Expression]:
        if ranges == EVERY:
            return [self.shared("char")]
        found, shared = json_spelling(ranges)
        return [*found, *map(self.shared, shared)]

    def tree(self) -> GrammarTree:
        """The finished grammar: reachable rules that can match, none that merely rename another."""
        rules = _without_unit_cycles(self.rules)
        uses = uses_of(GrammarTree(rules))
        self.takes = takes(GrammarTree(rules), uses)
        meant = {name: _meant(name, rules) if self.takes[name] is not None else NEVER for name in rules}
        changed = {name for name, target in meant.items() if target != Reference(name)}
        kept: dict[str, Expression] = {}
        self.uses = {}
        todo = ["root"]
        while todo:
            name = todo.pop()
            if name in kept:
                continue
            source = meant[name] if name == "root" else Reference(name)
            if source == NEVER:
                return GrammarTree({"root": NEVER})
            expression = rules[source.name] if isinstance(source, Reference) else source
            used = uses[source.name] if isinstance(source, Reference) else []
            if not changed.isdisjoint(used):
                expression = _pruned(expression, meant)
                used = references(expression)
            kept[name], self.uses[name] = expression, used
            todo.extend(used)
        return GrammarTree(kept)


@dataclass(slots=True)
class _AutomatonWriter:
    book: RuleBook
    automaton: Automaton
    how: str
    spell: Spell
    names: dict[int, str] = field(default_factory=dict)
    entries: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.entries = [0] * len(self.automaton.rows)
        self.entries[0] = 1
        for row in self.automaton.rows:
            for target in {target for _, target in row if target != DEAD}:
                self.entries[target] += 1

    def written(self) -> Expression:
        """The whole automaton; states that need rules wait for their turn, so no depth matters."""
        expression = self._state(0, 0)
        while self.waiting:
            state = self.waiting.pop()
            self.book.rules[self.names[state]] = self._body(state, 0)
        return expression

    def _state(self, state: int, depth: int) -> Expression:
        """What may follow once `state` is reached: a rule of its own if reached twice, else in place."""
        automaton = self.automaton
        if automaton.accepting[state] and automaton.rows[state] == NO_MOVES:
            return EMPTY
        if self.entries[state] > 1 or depth > MAX_INLINE:
            return self._rule(state)
        return self._body(state, depth)

    def _rule(self, state: int) -> Expression:
        if state not in self.names:
            self.names[state] = self.book.new_name("text")
            self.book.rules[self.names[state]] = NEVER
            self.waiting.append(state)
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
            options.append(sequence(self._spelled(ranges), self._state(target, depth + 1)))
        if self.automaton.accepting[state]:
            options.append(EMPTY)
        return sequence(Literal(word), alternation(options))

    def _spelled(self, ranges: Ranges) -> Expression:
        """One character of the set."""
        known = self.book.classes.get((self.how, ranges))
        if known is None:
            known = self.book.classes[self.how, ranges] = alternation(self.spell(ranges))
        return known

    def _loop(self, state: int, moves: dict[int, Ranges]) -> Expression | None:
        """A state that only loops, as a repetition."""
        if list(moves) != [state] or not self.automaton.accepting[state]:
            return None
        return Repetition(self.book.name(self._spelled(moves[state]), "class"), 0)

    def _word_from(self, state: int) -> tuple[str, int]:
        """The characters that must follow one by one, and the state behind them."""
        word: list[str] = []
        while not self.automaton.accepting[state]:
            moves = moves_of(self.automaton.rows[state])
            (target, ranges), *more = moves.items()
            if more or len(ranges) != 1 or ranges[0][0] != ranges[0][1] or (word and self.entries[state] > 1):
                break
            spelled = self._spelled(ranges)
            if not isinstance(spelled, Literal) or self.entries[target] > 1:
                break
            word.append(spelled.text)
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


def renamed(expression: Expression, prefix: str) -> Expression:
    """The expression with `prefix` before the names of all rules."""
    match expression:
        case Literal() | CharClass():
            return expression
        case Reference(name):
            return Reference(prefix + name)
        case Sequence(items):
            return Sequence(tuple(renamed(item, prefix) for item in items))
        case Alternation(options):
            return Alternation(tuple(renamed(option, prefix) for option in options))
        case Repetition(item, minimum, maximum):
            return Repetition(renamed(item, prefix), minimum, maximum)
        case _:
            assert_never(expression)


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
