"""Whether two schemas can hold for one value, judged by types, constants and required keys.

Says "may overlap" when in doubt, which costs a negation, never correctness.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from chatwrap.grammar.schema.document import TYPES, Document, Node
from chatwrap.grammar.schema.equality import identity, type_of

MAX_DEPTH = 4


@dataclass(slots=True)
class _Facts:
    """What must be true of a value: its type, its value, and for an object its keys."""

    types: set[str] = field(default_factory=lambda: set(TYPES))
    values: set[Hashable] | None = None
    required: set[str] = field(default_factory=set)
    allowed: set[str] | None = None
    properties: dict[str, list[Node]] = field(default_factory=dict)


class Overlap:
    """Compares nodes; their facts are gathered once."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._facts: dict[int, _Facts | None] = {}

    def all_disjoint(self, nodes: list[Node]) -> bool:
        """Whether no two of the nodes can hold together. Cost quadratic in their number."""
        return not any(
            self.may_overlap(first, second) for i, first in enumerate(nodes) for second in nodes[:i]
        )  # fmt: skip

    def may_overlap(self, first: Node, second: Node, depth: int = 0) -> bool:
        a, b = self._facts_of(first), self._facts_of(second)
        if a is None or b is None:
            return False
        common = a.types & b.types
        if not common or (a.values is not None and b.values is not None and not a.values & b.values):
            return False
        return common != {"object"} or self._objects_may_overlap(a, b, depth)

    def _objects_may_overlap(self, a: _Facts, b: _Facts, depth: int) -> bool:
        for one, other in ((a, b), (b, a)):
            if one.allowed is not None and other.required - one.allowed:
                return False
        if depth >= MAX_DEPTH:
            return True
        for name in (a.required | b.required) & a.properties.keys() & b.properties.keys():
            if not all(
                self.may_overlap(x, y, depth + 1) for x in a.properties[name] for y in b.properties[name]
            ):  # fmt: skip
                return False
        return not any(
            node.raw is False
            for one, other in ((a, b), (b, a))
            for name in one.required
            for node in other.properties.get(name, ())
        )

    def _facts_of(self, node: Node) -> _Facts | None:
        """The facts of a node, or None if it holds for nothing."""
        if id(node) not in self._facts:
            self._facts[id(node)] = self._gathered(node)
        return self._facts[id(node)]

    def _gathered(self, node: Node) -> _Facts | None:
        facts, seen, todo = _Facts(), set(), [node]
        while todo:
            current = todo.pop()
            if current.raw is False:
                return None
            if current.raw is True or id(current) in seen:
                continue
            seen.add(id(current))
            keywords = self.document.keywords(current)
            target = self.document.target(current) if "$ref" in keywords else None
            todo += [target] if target is not None else []
            todo += self.document.children(current, "allOf")
            self._take(current, facts)
        return facts

    def _take(self, node: Node, facts: _Facts) -> None:
        keywords = self.document.keywords(node)
        if "type" in keywords:
            names = keywords["type"] if isinstance(keywords["type"], list) else [keywords["type"]]
            if "any" not in names:
                facts.types &= {"number" if name == "integer" else name for name in names}
        for values in ([keywords["const"]] if "const" in keywords else None, keywords.get("enum")):
            if values is not None:
                found = {identity(value) for value in values}
                facts.values = found if facts.values is None else facts.values & found
                facts.types &= {type_of(value) for value in values}
        facts.required.update(keywords.get("required", ()))
        for name in keywords.get("properties", ()):
            facts.properties.setdefault(name, []).append(self.document.child(node, "properties", name))
        if keywords.get("additionalProperties") is False and not keywords.get("patternProperties"):
            allowed = set(keywords.get("properties", ()))
            facts.allowed = allowed if facts.allowed is None else facts.allowed & allowed
