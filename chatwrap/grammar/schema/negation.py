"""The opposite of a schema, exactly, as alternatives; None where it can't be said exactly."""

from __future__ import annotations

import itertools
import math
from typing import Any

from chatwrap.grammar.schema.document import TYPES, Document, Node

MAX_DEPTH = 12
MAX_ALTERNATIVES = 48
_SILENT = frozenset([
    "title", "description", "default", "examples", "example", "$comment", "$schema", "$id", "id",
    "$defs", "definitions", "$anchor", "deprecated", "readOnly", "writeOnly", "then", "else",
])  # fmt: skip


class Negation:
    """Negates nodes; the result for a node is made once, so that equal conjunctions stay equal."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._known: dict[int, list[Node] | None] = {}

    def negate(self, node: Node, depth: int = 0) -> list[Node] | None:
        """Nodes of which at least one holds exactly where `node` doesn't; None if that can't be said.

        Cost: up to `MAX_ALTERNATIVES` nodes for each group of alternatives.
        """
        if id(node) not in self._known:
            self._known[id(node)] = None  # a schema that refers to itself has no finite opposite
            self._known[id(node)] = self._negated(node, depth)
        return self._known[id(node)]

    def _make(self, node: Node, keywords: dict[str, Any] | bool) -> Node:  # noqa: FBT001
        return self.document.make(keywords, node.path)

    def _negated(self, node: Node, depth: int) -> list[Node] | None:
        if isinstance(node.raw, bool):
            return [self._make(node, not node.raw)]
        if depth > MAX_DEPTH:
            return None
        keywords = self.document.keywords(node)
        found: list[Node] = []
        for keyword in keywords:
            if keyword in _SILENT:
                continue
            opposite = self._of_keyword(node, keyword, keywords[keyword], depth)
            if opposite is None:
                return None
            found += opposite
        return found or [self._make(node, False)] if len(found) <= MAX_ALTERNATIVES else None

    def _of_keyword(self, node: Node, keyword: str, value: Any, depth: int) -> list[Node] | None:
        simple = self._of_assertion(keyword, value)
        if simple is not None:
            return [self._make(node, keywords) for keywords in simple]
        match keyword:
            case "$ref":
                target = self.document.target(node)
                return None if target is None else self.negate(target, depth + 1)
            case "properties":
                return self._of_properties(node, depth)
            case "items" if not isinstance(value, list) and "prefixItems" not in self.document.keywords(node):
                opposite = self.negate(self.document.child(node, "items"), depth + 1)
                if opposite is None:
                    return None
                return [
                    self._make(node, {"type": "array", "contains": option}) for option in opposite
                    if option.raw is not False
                ]  # fmt: skip
            case "allOf":
                parts = [self.negate(child, depth + 1) for child in self.document.children(node, "allOf")]
                return None if None in parts else [option for part in parts for option in part or ()]
            case "anyOf":
                return self._none_of(node, depth)
            case "not" if not self.document.has_unevaluated:  # what stands in a not evaluates nothing
                return [self.document.child(node, "not")]
            case _:
                return None

    def _none_of(self, node: Node, depth: int) -> list[Node] | None:
        parts = [self.negate(child, depth + 1) for child in self.document.children(node, "anyOf")]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts) or math.prod(len(part) for part in known) > MAX_ALTERNATIVES:
            return None
        return [self._make(node, {"allOf": list(options)}) for options in itertools.product(*known)]

    def _of_properties(self, node: Node, depth: int) -> list[Node] | None:
        found: list[Node] = []
        for name in self.document.keywords(node)["properties"]:
            opposite = self.negate(self.document.child(node, "properties", name), depth + 1)
            if opposite is None:
                return None
            found += [
                self._make(node, {"type": "object", "required": [name], "properties": {name: option}})
                for option in opposite
                if option.raw is not False
            ]
        return found

    def _of_assertion(self, keyword: str, value: Any) -> list[dict[str, Any]] | None:
        """The opposite of an assertion that has no subschemas; None for another keyword."""
        match keyword:
            case "type":
                return self._of_type(value if isinstance(value, list) else [value])
            case "required":
                no = self.document.make(False, "$")
                return [{"type": "object", "properties": {name: no}} for name in value]
            case "const" | "enum":
                return [{"!enum": [value] if keyword == "const" else value}]
            case "pattern" | "format" | "multipleOf":
                kind = "number" if keyword == "multipleOf" else "string"
                return [{"type": kind, f"!{keyword}": value}]
            case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum":
                return None if isinstance(value, bool) else [{"type": "number", _FLIPPED[keyword]: value}]
            case "!pattern" | "!format" | "!multipleOf":
                return [{"type": "number" if keyword == "!multipleOf" else "string", keyword[1:]: value}]
            case "!enum":
                return [{"enum": value}]
            case "minLength" | "minItems" | "minProperties":
                bound = keyword.replace("min", "max")
                return [{"type": _KINDS[keyword[3:]], bound: value - 1}] if value > 0 else []
            case "maxLength" | "maxItems" | "maxProperties":
                return [{"type": _KINDS[keyword[3:]], keyword.replace("max", "min"): value + 1}]
            case _:
                return None

    def _of_type(self, names: list[str]) -> list[dict[str, Any]]:
        if "any" in names:
            return []
        rest = [t for t in TYPES if t not in names and not (t == "number" and "integer" in names)]
        found: list[dict[str, Any]] = [{"type": rest}] if rest else []
        if "integer" in names and "number" not in names:
            found.append({"type": "number", "!integer": True})
        return found


_FLIPPED = {
    "minimum": "exclusiveMaximum", "maximum": "exclusiveMinimum",
    "exclusiveMinimum": "maximum", "exclusiveMaximum": "minimum",
}  # fmt: skip
_KINDS = {"Length": "string", "Items": "array", "Properties": "object"}
