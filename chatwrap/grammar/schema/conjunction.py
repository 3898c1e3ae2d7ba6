"""Subschemas that hold together, taken apart into plain assertions and open choices.

A value is described by a conjunction of elements. ``$ref`` and ``allOf`` dissolve into it, so
siblings, extension and inheritance need no merging; ``anyOf``, ``oneOf``, ``not``, ``if`` and the
dependent keywords become choices, which the conversion distributes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from chatwrap.grammar.schema.document import Document, Node
from chatwrap.grammar.schema.negation import Negation
from chatwrap.grammar.schema.overlap import Overlap

_LEAF_KEYWORDS = frozenset([
    "type", "enum", "const", "minLength", "maxLength", "pattern", "format", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "properties", "patternProperties", "required",
    "additionalProperties", "propertyNames", "minProperties", "maxProperties", "unevaluatedProperties",
    "items", "prefixItems", "additionalItems", "unevaluatedItems", "minItems", "maxItems",
    "uniqueItems", "contains", "!enum", "!pattern", "!format", "!integer", "!multipleOf",
])  # fmt: skip
MAX_EXCLUSIVE = 24
MAX_EXCLUDED = 4000


@dataclass(frozen=True, eq=False, slots=True)
class Leaf:
    """A node's own assertions, its applicators left aside."""

    node: Node


@dataclass(frozen=True, eq=False, slots=True)
class Choice:
    """One of several conjunctions must hold."""

    options: tuple[tuple[Element, ...], ...]


Element = Node | Leaf | Choice


@dataclass(frozen=True, slots=True)
class Flat:
    """A conjunction taken apart: all leaves and one option of each choice hold."""

    leaves: tuple[Node, ...]
    choices: tuple[Choice, ...]


class Conjunctions:
    """Takes conjunctions apart; what it makes of a node is made once."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.negation = Negation(document)
        self.overlap = Overlap(document)
        self._choices: dict[tuple[int, str], Choice | None] = {}
        self._leaves: dict[int, Leaf] = {}

    def leaf(self, node: Node) -> Leaf:
        return self._leaves.setdefault(id(node), Leaf(node))

    def flatten(self, elements: Iterable[Element]) -> Flat | None:
        """The parts of a conjunction, or None if it holds for nothing."""
        leaves: dict[int, Node] = {}
        choices: dict[int, Choice] = {}
        seen: set[int] = set()
        todo = deque(elements)
        while todo:
            element = todo.popleft()
            if isinstance(element, Leaf):
                leaves.setdefault(id(element.node), element.node)
            elif isinstance(element, Choice):
                if len(element.options) == 1:
                    todo.extendleft(reversed(element.options[0]))
                else:
                    choices.setdefault(id(element), element)
            elif element.raw is False:
                return None
            elif element.raw is not True and id(element) not in seen:
                seen.add(id(element))
                inner, found = self._opened(element)
                todo.extendleft(reversed(inner))
                todo.extend(found)
                if not _LEAF_KEYWORDS.isdisjoint(self.document.keywords(element)):
                    leaves.setdefault(id(element), element)
        return Flat(tuple(leaves.values()), tuple(choices.values()))

    def _opened(self, node: Node) -> tuple[list[Element], list[Element]]:
        """What a node adds to its conjunction: further nodes, and choices."""
        self.document.report_keywords(node)
        keywords = self.document.keywords(node)
        inner: list[Element] = []
        for reference in ("$ref", "$dynamicRef", "$recursiveRef"):
            target = self._target(node, reference) if reference in keywords else None
            if target is not None:
                inner.append(target)
        inner += self.document.children(node, "allOf")
        choices = [
            self._choice(node, keyword)
            for keyword in ("anyOf", "oneOf", "not", "if")
            if keyword in keywords
        ]  # fmt: skip
        choices += self._dependencies(node)
        return inner, [choice for choice in choices if choice is not None]

    def _target(self, node: Node, keyword: str) -> Node | None:
        if keyword != "$ref" and not self.document.is_static(node, keyword):
            self.document.recorder.refuse(node.path, keyword, "what it names depends on who refers to it")
            return None
        return self.document.target(node, keyword)

    def _choice(self, node: Node, keyword: str) -> Choice | None:
        key = (id(node), keyword)
        if key not in self._choices:
            self._choices[key] = None  # a choice that needs itself to be made asserts nothing
            self._choices[key] = self._made_choice(node, keyword)
        return self._choices[key]

    def _made_choice(self, node: Node, keyword: str) -> Choice | None:
        if keyword == "anyOf":
            return Choice(tuple((child,) for child in self.document.children(node, "anyOf")))
        if keyword == "oneOf":
            return self._one_of(node)
        child = self.document.child(node, keyword)
        opposite = self.negation.negate(child)
        if keyword == "if":
            return self._condition(node, child, opposite)
        if opposite is None:
            self.document.recorder.refuse(node.path, keyword)
            return None
        return Choice(tuple((option,) for option in opposite))

    def _condition(self, node: Node, condition: Node, opposite: list[Node] | None) -> Choice | None:
        keywords = self.document.keywords(node)
        if "then" not in keywords and "else" not in keywords and not self.document.has_unevaluated:
            return None
        if opposite is None:
            self.document.recorder.refuse(node.path, "if")
            return None
        then = [self.document.child(node, "then")] if "then" in keywords else []
        otherwise = [self.document.child(node, "else")] if "else" in keywords else []
        return Choice(((condition, *then), *((option, *otherwise) for option in opposite)))

    def _one_of(self, node: Node) -> Choice:
        """Each option together with the opposite of the options that it overlaps."""
        children = self.document.children(node, "oneOf")
        if len(children) > 1 and len(children) <= MAX_EXCLUSIVE * 8 and self.overlap.all_disjoint(children):
            return Choice(tuple((child,) for child in children))
        options: list[tuple[Element, ...]] = []
        for index, child in enumerate(children):
            others = [
                other
                for at, other in enumerate(children)
                if at != index and self.overlap.may_overlap(child, other)
            ]
            opposites = (
                [self.negation.negate(other) for other in others] if len(others) < MAX_EXCLUSIVE else [None]
            )
            known = [opposite for opposite in opposites if opposite is not None]
            if math.prod(map(len, known)) > MAX_EXCLUDED:
                known = []
            if len(known) < len(opposites):
                self.document.recorder.refuse(
                    node.path, "oneOf", "its options can't be kept apart in a grammar"
                )
            without = [Choice(tuple((option,) for option in opposite)) for opposite in known]
            options.append((child, *without))
        return Choice(tuple(options))

    def _dependencies(self, node: Node) -> list[Choice | None]:
        keywords = self.document.keywords(node)
        found: list[Choice | None] = []
        for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
            for name, value in keywords.get(keyword, {}).items():
                key = (id(node), f"{keyword}.{name}")
                if key not in self._choices:
                    self._choices[key] = self._dependency(node, keyword, name, value)
                found.append(self._choices[key])
        return found

    def _dependency(self, node: Node, keyword: str, name: str, value: object) -> Choice:
        make, path = self.document.make, f"{node.path}.{keyword}"
        absent = make({"properties": {name: make(False, path)}}, path)
        names = value if isinstance(value, list) else []
        present: tuple[Element, ...] = (make({"type": "object", "required": [name, *names]}, path),)
        if not isinstance(value, list):
            present = (*present, self.document.child(node, keyword, name))
        return Choice(((absent,), present))
