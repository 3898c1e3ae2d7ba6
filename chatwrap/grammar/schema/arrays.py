"""Arrays of a conjunction: item schemas by position, bounds, contains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chatwrap.grammar.gbnf import EMPTY, NEVER, Expression, Literal, Reference, alternation, sequence
from chatwrap.grammar.rules import RuleBook
from chatwrap.grammar.schema.conjunction import Conjunctions, Element
from chatwrap.grammar.schema.document import Node
from chatwrap.grammar.schema.evaluation import items_of
from chatwrap.grammar.schema.layout import Layout
from chatwrap.grammar.schema.scalars import length_bounds

Compile = Callable[[Sequence[Element]], Expression]
MAX_ITEMS = 10_000
MAX_STATES = 4000


@dataclass(frozen=True, slots=True)
class _Contains:
    """How many items must (and may) fit one schema."""

    schema: Node
    minimum: int
    maximum: int | None


class Arrays:
    """Writes arrays; `compile_value` gives the rule of an item's schemas."""

    def __init__(
        self, conjunctions: Conjunctions, book: RuleBook, layout: Layout, compile_value: Compile
    ) -> None:
        self.conjunctions, self.book, self.layout = conjunctions, book, layout
        self.document, self.compile_value = conjunctions.document, compile_value

    def array(self, leaves: Sequence[Node]) -> Expression:
        """A JSON array for which all leaves hold."""
        bounds = length_bounds(self.document, leaves, "Items", MAX_ITEMS)
        if bounds is None:
            return NEVER
        low, high = self._check_unique(leaves, *bounds)
        prefix, rest = self._positions(leaves)
        contains = self._contains(leaves)
        if contains is None and not prefix:
            return self._uniform(self.compile_value(rest), low, high)
        n_counted = (contains.maximum or contains.minimum) + 2 if contains else 1
        if max(len(prefix), low, high or 0) * n_counted > MAX_STATES:
            for leaf in leaves:
                for keyword in ("contains", "maxItems", "minItems"):
                    if keyword in self.document.keywords(leaf):
                        self.document.recorder.refuse(leaf.path, keyword, "it takes too many rules here")
            contains, low, high = None, min(low, len(prefix)), None
        return _Chain(self, prefix, rest, low, high, contains).written()

    def _check_unique(self, leaves: Sequence[Node], low: int, high: int | None) -> tuple[int, int | None]:
        """Unique items can't be written, except where there is at most one."""
        for leaf in leaves:
            if self.document.keywords(leaf).get("uniqueItems") and (high is None or high > 1):
                self.document.recorder.refuse(leaf.path, "uniqueItems")
        return low, high

    def _positions(self, leaves: Sequence[Node]) -> tuple[list[list[Element]], list[Element]]:
        """The schemas of each position of the longest prefix, and of all items after it."""
        read = [items_of(self.conjunctions, leaf) for leaf in leaves]
        length = max((len(prefix) for prefix, _ in read), default=0)
        positions: list[list[Element]] = [[] for _ in range(length)]
        rest: list[Element] = []
        for prefix, others in read:
            for index in range(length):
                schema = prefix[index] if index < len(prefix) else others
                positions[index] += [schema] if schema is not None else []
            rest += [others] if others is not None else []
        return positions, rest + self._unevaluated(leaves)

    def _unevaluated(self, leaves: Sequence[Node]) -> list[Element]:
        found: list[Element] = []
        for leaf in leaves:
            keywords = self.document.keywords(leaf)
            if "unevaluatedItems" not in keywords:
                continue
            others = [other for other in leaves if other is not leaf]
            if any(
                self.document.keywords(o).keys() & {"items", "prefixItems", "contains"} for o in others
            ) or ("contains" in keywords):
                self.document.recorder.refuse(leaf.path, "unevaluatedItems")
            elif "items" not in keywords or isinstance(keywords["items"], list):
                found.append(self.document.child(leaf, "unevaluatedItems"))
        return found

    def _contains(self, leaves: Sequence[Node]) -> _Contains | None:
        found: list[_Contains] = []
        for leaf in leaves:
            keywords = self.document.keywords(leaf)
            if "contains" not in keywords:
                continue
            low = int(keywords.get("minContains", 1))
            high = int(keywords["maxContains"]) if "maxContains" in keywords else None
            if found:
                self.document.recorder.refuse(leaf.path, "contains", "only one contains can be counted")
            elif (
                high is not None
                and self.conjunctions.negation.negate(self.document.child(leaf, "contains")) is None
            ):
                self.document.recorder.refuse(leaf.path, "maxContains")
                found.append(_Contains(self.document.child(leaf, "contains"), low, None))
            elif low > 0 or high is not None:
                found.append(_Contains(self.document.child(leaf, "contains"), low, high))
        return found[0] if found else None

    def _uniform(self, item: Expression, low: int, high: int | None) -> Expression:
        opening, closing = (
            sequence(Literal("["), self.layout.inside),
            sequence(self.layout.inside, Literal("]")),
        )
        empty = sequence(opening, Literal("]"))
        if high == 0:
            return empty
        more = self.book.repeat(
            sequence(Literal(","), self.layout.after_comma, item),
            max(low - 1, 0),
            None if high is None else high - 1,
        )
        body = sequence(item, more, closing)
        return sequence(opening, body if low > 0 else alternation([body, Literal("]")]))


class _Chain:
    """An array item by item: one rule for each position and number of contained items so far."""

    def __init__(self, arrays: Arrays, prefix: list[list[Element]], rest: list[Element], low: int,
                 high: int | None, contains: _Contains | None) -> None:  # fmt: skip
        self.arrays, self.prefix, self.rest = arrays, prefix, rest
        self.low, self.high, self.contains = low, high, contains
        self.last = max(len(prefix), low, high or 0)
        self.names: dict[tuple[int, int], str] = {}
        self.waiting: list[tuple[int, int]] = []

    def written(self) -> Expression:
        start = self._state(0, 0)
        while self.waiting:
            position, n_found = self.waiting.pop()
            options = [self._end(position)] if self._may_end(position, n_found) else []
            options += self._items(position, n_found)
            self.arrays.book.rules[self.names[position, n_found]] = alternation(options)
        return sequence(Literal("["), self.arrays.layout.inside, start)

    def _state(self, position: int, n_found: int) -> Expression:
        key = (min(position, self.last + 1 if position else 0), n_found)
        if key not in self.names:
            self.names[key] = self.arrays.book.new_name("items")
            self.arrays.book.rules[self.names[key]] = NEVER
            self.waiting.append(key)
        return Reference(self.names[key])

    def _may_end(self, position: int, n_found: int) -> bool:
        return position >= self.low and (self.contains is None or n_found >= self.contains.minimum)

    def _end(self, position: int) -> Expression:
        return sequence(self.arrays.layout.inside if position else EMPTY, Literal("]"))

    def _items(self, position: int, n_found: int) -> list[Expression]:
        if self.high is not None and position >= self.high:
            return []
        schemas = self.prefix[position] if position < len(self.prefix) else self.rest
        gap = [Literal(","), self.arrays.layout.after_comma] if position else []
        if self.contains is None:
            return [sequence(*gap, self.arrays.compile_value(schemas), self._state(position + 1, 0))]
        options: list[Expression] = []
        cap = self.contains.minimum if self.contains.maximum is None else self.contains.maximum
        if self.contains.maximum is None or n_found < cap:
            fitting = self.arrays.compile_value([*schemas, self.contains.schema])
            options.append(sequence(*gap, fitting, self._state(position + 1, min(n_found + 1, cap))))
        opposites = self.arrays.conjunctions.negation.negate(self.contains.schema)
        for opposite in opposites if opposites is not None else [None]:
            other = self.arrays.compile_value(schemas if opposite is None else [*schemas, opposite])
            options.append(sequence(*gap, other, self._state(position + 1, n_found)))
        return options
