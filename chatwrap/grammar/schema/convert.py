"""JSON Schema to a grammar: the frame that gives each conjunction of subschemas one rule."""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from chatwrap.errors import Fault, SchemaError
from chatwrap.grammar.automaton import TooManyStatesError
from chatwrap.grammar.gbnf import (
    NEVER,
    Alternation,
    Expression,
    GrammarTree,
    Reference,
    Repetition,
    alternation,
    sequence,
)
from chatwrap.grammar.gbnf import Literal as Text
from chatwrap.grammar.rules import RuleBook
from chatwrap.grammar.safety import hazards
from chatwrap.grammar.schema.arrays import Arrays
from chatwrap.grammar.schema.conjunction import Conjunctions, Element, Flat
from chatwrap.grammar.schema.document import TYPES, Document, Node
from chatwrap.grammar.schema.equality import identity
from chatwrap.grammar.schema.evaluation import Evaluation
from chatwrap.grammar.schema.layout import WS, Layout, Whitespace
from chatwrap.grammar.schema.objects import Braces, Form, Objects
from chatwrap.grammar.schema.report import Recorder, Report
from chatwrap.grammar.schema.scalars import Scalars

MAX_CHOICES_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Options:
    """How a schema is converted.

    `unsupported`: ``"error"`` refuses a schema that can't be enforced, ``"relax"`` leaves those
    keywords open. `is_closed`: objects that name properties and don't speak of others allow no
    others. `is_nullable`: OpenAPI's ``nullable: true`` counts. `timeout_s` and `max_rules` bound the
    conversion.
    """

    unsupported: Literal["error", "relax"] = "error"
    is_closed: bool = False
    is_nullable: bool = False
    whitespace: Whitespace = "flexible"
    timeout_s: float = 5.0
    max_rules: int = 40_000


def convert(schema: Any, options: Options = Options()) -> tuple[GrammarTree, Report]:
    """The grammar of the JSON texts that are valid by a schema, and what it enforces.

    Raises `SchemaError`, with a fault for each keyword that can't be written (unless they are
    relaxed), for a schema that nothing satisfies, and past the limits of size and time.

    >>> tree, report = convert({"enum": ["a", 1]})
    >>> print(tree)
    root ::= "1" | "\\"a\\""
    """
    if not isinstance(schema, dict | bool):
        raise SchemaError.of(
            "$", f"a schema is an object or a boolean, not {schema!r:.60}.", "Pass a schema."
        )
    converter = Converter(Document(schema, Recorder()), options)
    return converter.converted(converter.values)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Puts off the search for garbage in cycles: there is none, and it would take a third of the time.

    A conversion's memory is bounded by its limits of time and size.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True, eq=False, slots=True)
class Manner:
    """How values are written: scalars, arrays and objects each in a layout. `types` are those it has.

    `nested` is the manner of what stands inside arrays and objects, None for the same.
    """

    scalars: Scalars
    arrays: Arrays
    objects: Objects
    types: frozenset[str] = frozenset(TYPES)
    nested: Manner | None = None

    @property
    def name(self) -> str:
        return self.scalars.layout.spelling.name


class Converter:
    """Compiles conjunctions from a queue, so that neither depth nor recursion of a schema matters."""

    def __init__(self, document: Document, options: Options) -> None:
        self.document, self.options = document, options
        self.book = RuleBook(max_rules=options.max_rules)
        self.book.rules["ws"] = WS
        self.conjunctions = Conjunctions(document)
        self.evaluation = Evaluation(self.conjunctions)
        self.waiting: deque[tuple[str, tuple[Element, ...], Node | None, Manner]] = deque()
        self.asked: dict[tuple[int, ...], Reference] = {}
        self.compiled: dict[tuple[frozenset[int], frozenset[int], int, int], Reference] = {}
        self.any_values: dict[int, Reference] = {}
        self.kept: list[object] = []
        self.started_s = time.monotonic()
        self.values = self.manner(Layout.of(options.whitespace))

    def converted(self, manner: Manner) -> tuple[GrammarTree, Report]:
        """The grammar of the document's root in a manner, and what it enforces; see `convert`."""
        with _without_collections():
            return self._checked(self._tree(manner))

    def _checked(self, tree: GrammarTree) -> tuple[GrammarTree, Report]:
        recorder = self.document.recorder
        if self.options.unsupported == "error" and (faults := recorder.faults()):
            raise SchemaError(faults)
        if found := hazards(tree, self.book.takes, self.book.uses):
            raise SchemaError(
                Fault("$", f"the grammar would harm llama.cpp: {h.problem}", h.remedy) for h in found
            )
        return tree, recorder.report()

    def manner(self, layout: Layout) -> Manner:
        """Everything in one layout."""

        def compile_value(elements: Sequence[Element]) -> Expression:
            return self.later(elements, made)

        braces = Braces(layout, self.book, compile_value)
        made = Manner(
            self.scalars(layout),
            Arrays(self.conjunctions, self.book, layout, compile_value),
            self.objects(braces),
        )
        return made

    def scalars(self, layout: Layout) -> Scalars:
        return Scalars(self.document, self.book, layout)

    def objects(self, form: Form) -> Objects:
        scalars = self.scalars(Layout.of(self.options.whitespace))
        return Objects(self.evaluation, self.book, scalars, form, is_closed=self.options.is_closed)

    def _tree(self, manner: Manner) -> GrammarTree:
        self.book.rules["root"] = self.later([self.document.root], manner)
        while self.waiting:
            name, elements, sole, manner = self.waiting.popleft()
            try:
                self.book.rules[name] = self._compiled(name, elements, sole, manner)
            except TooManyStatesError as error:
                raise SchemaError.of("$", str(error)) from None
            if time.monotonic() - self.started_s > self.options.timeout_s:
                problem = f"the conversion takes more than {self.options.timeout_s:g} s."
                raise SchemaError.of("$", problem, "Split the schema, or pass a larger timeout_s.")
        tree = self.book.tree()
        if tree.rules["root"] == NEVER:
            raise SchemaError.of("$", "no value satisfies this schema.", "Loosen what excludes everything.")
        return tree

    def later(self, elements: Sequence[Element], manner: Manner, sole: Node | None = None) -> Expression:
        """The rule of a conjunction; it is written when its turn comes."""
        distinct = tuple(dict.fromkeys(elements))
        if sole is None and len(distinct) == 1 and isinstance(distinct[0], Node):
            sole = distinct[0]
        key = (id(sole), id(manner), *sorted(map(id, distinct)))
        known = self.asked.get(key)
        if known is None:
            known = self.asked[key] = Reference(self.book.new_name("v"))
            self.kept.append((distinct, manner))
            self.book.rules[known.name] = NEVER
            self.waiting.append((known.name, distinct, sole, manner))
        return known

    def _compiled(
        self, name: str, elements: tuple[Element, ...], sole: Node | None, manner: Manner
    ) -> Expression:
        flat = self.conjunctions.flatten(elements)
        if flat is None:
            return NEVER
        if not self._needs_sole(flat):
            sole = None
        key = (frozenset(map(id, flat.leaves)), frozenset(map(id, flat.choices)), id(sole), id(manner))
        if key in self.compiled:
            return self.compiled[key]
        self.compiled[key] = Reference(name)
        values = self._constants(flat, manner)
        if values is not None:
            return manner.scalars.constants(v for v in values if self.evaluation.holds(elements, v))
        if not flat.choices:
            return self._of_leaves(flat.leaves, sole, manner)
        first, *others = flat.choices
        kept: list[Element] = [self.conjunctions.leaf(leaf) for leaf in flat.leaves]
        return alternation(self.later([*kept, *others, *option], manner, sole) for option in first.options)

    def _needs_sole(self, flat: Flat) -> bool:
        return any("unevaluatedProperties" in self.document.keywords(leaf) for leaf in flat.leaves)

    def is_text_only(self, elements: Sequence[Element], depth: int = 0) -> bool:
        """Whether the schemas say themselves that only a string can hold."""
        flat = self.conjunctions.flatten(elements)
        if flat is None or depth > MAX_CHOICES_DEPTH:
            return False
        if self._types(flat.leaves)[0] <= {"string"}:
            return True
        values = self._constants(flat, self.values)
        if values is not None:
            return all(isinstance(value, str) for value in values)
        return any(
            all(self.is_text_only(option, depth + 1) for option in choice.options) for choice in flat.choices
        )

    def _constants(self, flat: Flat, manner: Manner) -> list[Any] | None:
        """The shortest list of values that some leaf limits the value to; None without one."""
        if manner.types != frozenset(TYPES):
            self._refuse_constants(flat)
            return None
        lists = [
            [keywords["const"]] if "const" in keywords else keywords["enum"]
            for leaf in flat.leaves
            if "const" in (keywords := self.document.keywords(leaf)) or "enum" in keywords
        ]
        return min(lists, key=len) if lists else None

    def _refuse_constants(self, flat: Flat) -> None:
        for leaf in flat.leaves:
            for keyword in ("const", "enum"):
                if keyword in self.document.keywords(leaf):
                    note = "the format writes each argument on its own, not a choice of whole objects"
                    self.document.recorder.refuse(leaf.path, keyword, note)

    def _of_leaves(self, leaves: Sequence[Node], sole: Node | None, manner: Manner) -> Expression:
        types, is_integer = self._types(leaves)
        types &= manner.types
        is_free = types == set(TYPES) and not is_integer
        if is_free and not self._says_more_than_type(leaves):
            return self._any_value(manner)
        excluded = {
            identity(value) for leaf in leaves for value in self.document.keywords(leaf).get("!enum", ())
        }
        options: list[Expression] = []
        for name in TYPES:
            if name in types:
                options.append(self._of_type(name, leaves, excluded, sole, manner, is_integer=is_integer))
        return alternation(options)

    def _says_more_than_type(self, leaves: Sequence[Node]) -> bool:
        return any(self.document.keywords(leaf).keys() - {"type"} for leaf in leaves)

    def _of_type(self, name: str, leaves: Sequence[Node], excluded: set[Any], sole: Node | None,
                 manner: Manner, *, is_integer: bool) -> Expression:  # fmt: skip
        match name:
            case "null" | "boolean":
                words: list[bool | None] = [None] if name == "null" else [True, False]
                return manner.scalars.constants(word for word in words if identity(word) not in excluded)
            case "number":
                return manner.scalars.number(leaves, is_integer=is_integer)
            case "string":
                return manner.scalars.string(leaves)
            case "array":
                self._refuse_excluded(leaves, list, "array")
                return manner.arrays.array(leaves)
            case _:
                self._refuse_excluded(leaves, dict, "object")
                return manner.objects.object(leaves, sole)

    def _refuse_excluded(self, leaves: Sequence[Node], kind: type, name: str) -> None:
        """Arrays and objects can't be left out one by one."""
        for leaf in leaves:
            if any(isinstance(value, kind) for value in self.document.keywords(leaf).get("!enum", ())):
                self.document.recorder.refuse(leaf.path, "not", f"an {name} can't be excluded by value")

    def _types(self, leaves: Sequence[Node]) -> tuple[set[str], bool]:
        """The types that all leaves allow, and whether numbers must be whole."""
        types, is_integer = set(TYPES), False
        for leaf in leaves:
            keywords = self.document.keywords(leaf)
            names = keywords.get("type", "any")
            names = [names] if isinstance(names, str) else list(names)
            if self.options.is_nullable and keywords.get("nullable") is True:
                names.append("null")
            if "any" in names:
                continue
            is_integer = is_integer or ("integer" in names and "number" not in names)
            types &= {"number" if name == "integer" else name for name in names}
        return types, is_integer

    def _any_value(self, manner: Manner) -> Expression:
        """Any JSON value, in a manner."""
        known = self.any_values.get(id(manner))
        if known is not None:
            return known
        found = self.any_values[id(manner)] = Reference(self._free_name(f"{manner.name}value"))
        inner = manner.nested or manner
        value = found if inner is manner else self._any_value(inner)
        layout, scalars = inner.scalars.layout, manner.scalars
        comma = sequence(Text(","), layout.after_comma)
        pair = self.book.name(
            sequence(layout.spelling.keys(self.book, None), layout.after_colon, value), "pair"
        )
        words: list[bool | None] = [True, False, None]
        self.book.rules[found.name] = alternation([
            self._bracketed("{", pair, comma, "}", layout), self._bracketed("[", value, comma, "]", layout),
            scalars.string([]), scalars.number([], is_integer=False), *map(scalars.constant, words),
        ])  # fmt: skip
        return found

    def _free_name(self, name: str) -> str:
        return self.book.new_name(name) if name in self.book.rules else name

    def _bracketed(
        self, opening: str, item: Expression, comma: Expression, closing: str, layout: Layout
    ) -> Expression:
        full = sequence(item, Repetition(sequence(comma, item), 0), layout.inside, Text(closing))
        return sequence(Text(opening), layout.inside, Alternation((full, Text(closing))))
