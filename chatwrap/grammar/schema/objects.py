"""Objects of a conjunction: which keys may come, in which order, with what values.

The keys of a schema come in its order, as a chain of rules whose size is linear in their number.
Where few are optional, those may come anywhere between the required ones (`members.MAX_ORDERED_STATES`).
A key that the schema doesn't name comes after those that it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from chatwrap.errors import GrammarError
from chatwrap.grammar.automaton import ANYTHING, Automaton, TooManyStatesError, of_words, without_words
from chatwrap.grammar.gbnf import NEVER, Expression, Literal, alternation, sequence
from chatwrap.grammar.regex import compile_pattern
from chatwrap.grammar.rules import RuleBook
from chatwrap.grammar.schema.conjunction import Conjunctions, Element
from chatwrap.grammar.schema.document import Node
from chatwrap.grammar.schema.equality import type_of
from chatwrap.grammar.schema.evaluation import Evaluation, value_schemas
from chatwrap.grammar.schema.layout import Layout
from chatwrap.grammar.schema.members import Frame, Members
from chatwrap.grammar.schema.scalars import Scalars, length_bounds

MAX_PROPERTIES = 10_000
MAX_COUNTED_STATES = 4000
_SHAPING = frozenset(["additionalProperties", "patternProperties", "unevaluatedProperties"])


@dataclass(slots=True)
class _Keys:
    """What a conjunction says about keys: required and named ones, patterns, bounds."""

    named: dict[str, None] = field(default_factory=dict)
    required: dict[str, None] = field(default_factory=dict)
    patterns: dict[str, Automaton] = field(default_factory=dict)
    names: list[Element] = field(default_factory=list)
    is_open: bool = True


class Form(Protocol):
    """How objects are written: what is around their members, and each member."""

    @property
    def frame(self) -> Frame:
        """What stands before, between and after the members."""

    @property
    def sorts_keys(self) -> bool:
        """Whether keys come sorted, without regard to case."""

    def member(self, name: str, schemas: Sequence[Element]) -> Expression:
        """The key `name` with a value for which the schemas hold."""

    def other_member(self, names: Automaton | None, schemas: Sequence[Element]) -> Expression:
        """A key in the automaton (None: any) with such a value."""


@dataclass(frozen=True, slots=True)
class Braces:
    """Keys and values between braces, in one layout; `compile_value` gives the rule of a value."""

    layout: Layout
    book: RuleBook
    compile_value: Callable[[Sequence[Element]], Expression]

    @property
    def sorts_keys(self) -> bool:
        return self.layout.sorts_keys

    @property
    def frame(self) -> Frame:
        inside, closing = self.layout.inside, Literal("}")
        between = sequence(Literal(","), self.layout.after_comma)
        return Frame(sequence(Literal("{"), inside), between, sequence(inside, closing), closing)

    def member(self, name: str, schemas: Sequence[Element]) -> Expression:
        return self._valued(self.layout.spelling.key(name), schemas)

    def other_member(self, names: Automaton | None, schemas: Sequence[Element]) -> Expression:
        return self._valued(self.layout.spelling.keys(self.book, names), schemas)

    def _valued(self, key: Expression, schemas: Sequence[Element]) -> Expression:
        if key == NEVER:
            return NEVER
        return sequence(key, self.layout.after_colon, self.compile_value(schemas))


class Objects:
    """Writes objects in one form."""

    def __init__(self, evaluation: Evaluation, book: RuleBook, scalars: Scalars, form: Form, *,
                 is_closed: bool) -> None:  # fmt: skip
        self.evaluation, self.book, self.scalars, self.form = evaluation, book, scalars, form
        self.conjunctions: Conjunctions = evaluation.conjunctions
        self.document, self.is_closed = evaluation.document, is_closed

    def object(self, leaves: Sequence[Node], sole: Node | None) -> Expression:
        """A JSON object for which all leaves hold. `sole` is the one schema they all belong to, if any."""
        bounds = length_bounds(self.document, leaves, "Properties", MAX_PROPERTIES)
        if bounds is None:
            return NEVER
        keys = self._keys(leaves)
        evaluated = self._unevaluated(leaves, sole)
        members: list[tuple[Expression, bool]] = []
        for name in keys.named:
            member = self._member(leaves, keys, evaluated, name)
            if member != NEVER:
                members.append((member, name in keys.required))
            elif name in keys.required:
                return NEVER
        extra = self._extra(leaves, keys, evaluated)
        low, high = self._counted(leaves, members, *bounds)
        if low > 1 and extra != NEVER:
            self._report_twins(leaves)
        if high is not None and sum(required for _, required in members) > high:
            return NEVER
        return Members(self.book, self.form.frame, members, extra, low, high).written()

    def _report_twins(self, leaves: Sequence[Node]) -> None:
        """A grammar can't tell that a key it doesn't know by name comes twice, and counts it twice."""
        for leaf in leaves:
            if self.document.keywords(leaf).get("minProperties", 0) > 1:
                note = "a key that the schema doesn't name counts each time it is written"
                self.document.recorder.relax(leaf.path, "minProperties", note)

    def _keys(self, leaves: Sequence[Node]) -> _Keys:
        keys = _Keys()
        shaped = False
        for leaf in leaves:
            keywords = self.document.keywords(leaf)
            keys.named.update(dict.fromkeys(keywords.get("properties", ())))
            keys.required.update(dict.fromkeys(keywords.get("required", ())))
            shaped = shaped or not _SHAPING.isdisjoint(keywords)
            for pattern in keywords.get("patternProperties", ()):
                self._add_pattern(leaf, pattern, keys)
            if "propertyNames" in keywords:
                keys.names.append(self.document.child(leaf, "propertyNames"))
        if self.is_closed and keys.named and not shaped:
            keys.is_open = False
            for leaf in leaves:
                if "properties" in self.document.keywords(leaf) and not leaf.is_made:
                    note = "closed: other properties aren't written"
                    self.document.recorder.add(leaf.path, "additionalProperties", "enforced", note)
        keys.named.update(keys.required)
        if self.form.sorts_keys:
            keys.named = dict.fromkeys(sorted(keys.named, key=str.lower))
        return keys

    def _add_pattern(self, leaf: Node, pattern: str, keys: _Keys) -> None:
        try:
            keys.patterns[pattern] = compile_pattern(pattern)
        except (GrammarError, TooManyStatesError) as error:
            self.document.recorder.refuse(f"{leaf.path}.patternProperties", pattern, str(error).rstrip("."))

    def _unevaluated(self, leaves: Sequence[Node], sole: Node | None) -> list[Node]:
        """The leaves whose ``unevaluatedProperties`` can be told from the leaves alone."""
        found: list[Node] = []
        for leaf in leaves:
            if "unevaluatedProperties" not in self.document.keywords(leaf):
                continue
            if leaf is sole or all(other is leaf or other.is_made for other in leaves):
                found.append(leaf)
            else:
                self.document.recorder.refuse(leaf.path, "unevaluatedProperties")
        return found

    def _values(self, leaves: Sequence[Node], keys: _Keys, evaluated: Sequence[Node],
                hits: Callable[[str], bool], name: str | None) -> list[Element]:  # fmt: skip
        """The schemas of the value of a key: a named one, or one that matches just these patterns."""
        found: list[Element] = []
        seen = False
        for leaf in leaves:
            schemas = value_schemas(
                self.conjunctions, leaf, "\0" if name is None else name, lambda _, pattern, __: hits(pattern)
            )
            seen = seen or (bool(schemas) and not leaf.is_made)
            found += schemas
        if not seen:
            found += [self.document.child(leaf, "unevaluatedProperties") for leaf in evaluated]
        return found

    def _member(
        self, leaves: Sequence[Node], keys: _Keys, evaluated: Sequence[Node], name: str
    ) -> Expression:
        if not self.evaluation.holds(keys.names, name):
            return NEVER
        schemas = self._values(
            leaves, keys, evaluated, lambda p: p in keys.patterns and keys.patterns[p].accepts(name), name
        )
        if any(isinstance(schema, Node) and schema.raw is False for schema in schemas):
            return NEVER
        return self.form.member(name, schemas)

    def _extra(self, leaves: Sequence[Node], keys: _Keys, evaluated: Sequence[Node]) -> Expression:
        """A member whose key isn't named, each with the schemas of the patterns that it matches."""
        allowed = self._allowed_names(keys)
        pieces: list[tuple[Automaton | None, frozenset[str]]] = [(allowed, frozenset())]
        for pattern, automaton in keys.patterns.items():
            pieces = [part for piece in pieces for part in self._split(piece, pattern, automaton, leaves)]
        options: list[Expression] = []
        for automaton_or_any, hit in pieces:
            if not hit and not keys.is_open:
                continue
            schemas = self._values(leaves, keys, evaluated, lambda p, hit=hit: p in hit, None)  # type: ignore[misc]
            if any(isinstance(schema, Node) and schema.raw is False for schema in schemas):
                continue
            options.append(self.form.other_member(self._others(automaton_or_any, keys), schemas))
        return self.book.name(alternation(options), "member")

    def _split(self, piece: tuple[Automaton | None, frozenset[str]], pattern: str, automaton: Automaton,
               leaves: Sequence[Node]) -> list[tuple[Automaton | None, frozenset[str]]]:  # fmt: skip
        names, hit = piece
        try:
            inside = automaton if names is None else names & automaton
            outside = (ANYTHING if names is None else names) - automaton
        except TooManyStatesError as error:
            for leaf in leaves:
                if pattern in self.document.keywords(leaf).get("patternProperties", ()):
                    path = f"{leaf.path}.patternProperties"
                    self.document.recorder.refuse(path, pattern, str(error).rstrip("."))
            return [piece]
        found: list[tuple[Automaton | None, frozenset[str]]] = []
        if not inside.is_empty:
            found.append((inside, hit | {pattern}))
        if not outside.is_empty:
            found.append((outside, hit))
        return found

    def _others(self, names: Automaton | None, keys: _Keys) -> Automaton | None:
        """The keys among `names` that the schema doesn't name; None for all."""
        if not keys.named:
            return names
        return without_words(tuple(keys.named)) if names is None else names - of_words(keys.named)

    def _allowed_names(self, keys: _Keys) -> Automaton | None:
        """The keys that ``propertyNames`` allows; None for all."""
        if not keys.names:
            return None
        flat = self.conjunctions.flatten(keys.names)
        if flat is None:
            return of_words([])
        allowed = self.scalars.content(flat.leaves)
        for leaf in flat.leaves:
            keywords = self.document.keywords(leaf)
            types = keywords.get("type", "string")
            if "string" not in types and "any" not in types:
                return of_words([])
            values = [keywords["const"]] if "const" in keywords else keywords.get("enum")
            if values is not None:
                words = [v for v in values if type_of(v) == "string"]
                allowed = of_words(words) if allowed is None else allowed & of_words(words)
        if flat.choices:
            if allowed is not None and (words_of := _finite_words(allowed)) is not None:
                return of_words(w for w in words_of if self.evaluation.holds(keys.names, w))
            for name in keys.names:
                if isinstance(name, Node):
                    self.document.recorder.refuse(name.path.rpartition(".")[0], "propertyNames")
        return allowed

    def _counted(self, leaves: Sequence[Node], members: Sequence[tuple[Expression, bool]], low: int,
                 high: int | None) -> tuple[int, int | None]:  # fmt: skip
        """The bounds on the number of members that the chain has to count."""
        low = 0 if low <= sum(required for _, required in members) else low
        if (max(low, high or 0) + 2) * (len(members) + 1) <= MAX_COUNTED_STATES:
            return low, high
        for leaf in leaves:
            for keyword in ("minProperties", "maxProperties"):
                if keyword in self.document.keywords(leaf):
                    self.document.recorder.refuse(leaf.path, keyword, "it takes too many rules here")
        return 0, None


def _finite_words(automaton: Automaton, limit: int = 200) -> list[str] | None:
    """The words of a small finite automaton; None for a larger one."""
    found: list[str] = []
    todo = [(0, "")]
    while todo:
        state, word = todo.pop()
        if automaton.accepting[state]:
            found.append(word)
        row = automaton.rows[state]
        ends = [start for start, _ in row[1:]] + [0x110000]
        for (low, target), end in zip(row, ends, strict=True):
            if target >= 0 and (end - low > 1 or len(todo) + len(found) > limit):
                return None
            if target >= 0:
                todo.append((target, word + chr(low)))
        if len(word) > 500:
            return None
    return found
