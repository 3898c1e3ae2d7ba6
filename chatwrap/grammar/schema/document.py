"""A JSON Schema as nodes: checked keywords, paths, and references resolved without any network.

``$id`` and ``$anchor`` follow JSON Schema core 2020-12, sections 8.2 and 9; drafts 4, 6 and 7 ignore
what stands beside a ``$ref``. A reference to another document is refused, never fetched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from chatwrap.errors import SchemaError
from chatwrap.grammar.schema.report import Recorder

TYPES = ("null", "boolean", "number", "string", "array", "object")
MAX_DEPTH = 1500

_ANNOTATIONS = frozenset([
    "title", "description", "default", "examples", "example", "$comment", "$schema", "$id", "id",
    "$defs", "definitions", "$anchor", "deprecated", "readOnly", "writeOnly", "contentEncoding",
    "contentMediaType", "contentSchema", "$vocabulary", "discriminator", "externalDocs", "xml",
])  # fmt: skip
# Applicators that say nothing without a neighbour, and drafts' spellings read with their keyword.
_HELPERS = frozenset([
    "then", "else", "additionalItems", "minContains", "maxContains", "nullable",
])  # fmt: skip


def _is_count(value: object) -> bool:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return whole and not isinstance(value, bool) and float(str(value)) >= 0


def _is_number(value: object) -> bool:
    """Whether it is a number of JSON, which has no infinity and no NaN."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _is_schema(value: object) -> bool:
    return isinstance(value, dict | bool | Node)


def _is_schema_list(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_schema(item) for item in value)


def _is_schema_map(value: object) -> bool:
    return isinstance(value, dict) and all(_is_schema(item) for item in value.values())


def _is_name_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_type(value: object) -> bool:
    names = value if isinstance(value, list) else [value]
    return (
        bool(names)
        and all(name in (*TYPES, "integer", "any") for name in names if isinstance(name, str))
        and (all(isinstance(name, str) for name in names))
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_dependency_map(value: object) -> bool:
    return isinstance(value, dict) and all(_is_schema(v) or _is_name_list(v) for v in value.values())


def _is_finite(value: object) -> bool:
    """Whether no number in a value is an infinity or NaN, which JSON can't write."""
    pending = [value]
    while pending:
        match pending.pop():
            case float() as number if not math.isfinite(number):
                return False
            case dict() as members:
                pending += members.values()
            case list() | tuple() as members:
                pending += members
    return True


KEYWORDS: dict[str, Callable[[object], bool]] = {
    "type": _is_type, "enum": lambda v: isinstance(v, list) and _is_finite(v), "const": _is_finite,
    "minLength": _is_count, "maxLength": _is_count, "pattern": _is_text, "format": _is_text,
    "minimum": _is_number, "maximum": _is_number,
    "exclusiveMinimum": lambda v: _is_number(v) or isinstance(v, bool),
    "exclusiveMaximum": lambda v: _is_number(v) or isinstance(v, bool),
    "multipleOf": lambda v: _is_number(v) and float(str(v)) > 0,
    "properties": _is_schema_map, "patternProperties": _is_schema_map, "required": _is_name_list,
    "additionalProperties": _is_schema, "propertyNames": _is_schema, "unevaluatedProperties": _is_schema,
    "minProperties": _is_count, "maxProperties": _is_count,
    "dependentRequired": lambda v: isinstance(v, dict) and all(_is_name_list(n) for n in v.values()),
    "dependentSchemas": _is_schema_map, "dependencies": _is_dependency_map,
    "items": lambda v: _is_schema(v) or (isinstance(v, list) and all(_is_schema(i) for i in v)),
    "prefixItems": _is_schema_list, "additionalItems": _is_schema, "unevaluatedItems": _is_schema,
    "minItems": _is_count, "maxItems": _is_count, "uniqueItems": lambda v: isinstance(v, bool),
    "contains": _is_schema, "minContains": _is_count, "maxContains": _is_count,
    "anyOf": _is_schema_list, "oneOf": _is_schema_list, "allOf": _is_schema_list, "not": _is_schema,
    "if": _is_schema, "then": _is_schema, "else": _is_schema,
    "$ref": _is_text, "$dynamicRef": _is_text, "$recursiveRef": _is_text,
    "nullable": lambda v: isinstance(v, bool),
}  # fmt: skip


class Node:
    """One subschema: its raw keywords, its path for reports, and the base URI of its references."""

    __slots__ = ("base", "is_made", "keywords", "path", "raw", "was_reported")

    def __init__(self, raw: Any, path: str, base: str, *, is_made: bool = False) -> None:
        self.raw, self.path, self.base, self.is_made = raw, path, base, is_made
        self.keywords: dict[str, Any] | None = None
        self.was_reported = False


class Document:
    """All nodes of one schema; a subschema has one node, however it is reached."""

    def __init__(self, schema: Any, recorder: Recorder) -> None:
        self.recorder = recorder
        draft = str(schema.get("$schema", "")) if isinstance(schema, dict) else ""
        self.ignores_ref_siblings = any(f"draft-0{n}" in draft for n in (3, 4, 6, 7))
        self.has_unevaluated = False
        self._nodes: dict[tuple[int, str], Node] = {}
        self._kept: list[Any] = []
        self._known: dict[str, tuple[Any, str, str]] = {"": (schema, "$", "")}
        self._index(schema)
        base = self._base_of(schema, "")
        self.root = self.node(schema, "$", base)

    def _base_of(self, raw: Any, base: str) -> str:
        if not isinstance(raw, dict):
            return base
        own = raw.get("$id", raw.get("id"))
        if not isinstance(own, str) or own.startswith("#") or (self.ignores_ref_siblings and "$ref" in raw):
            return base
        try:
            return urldefrag(urljoin(base, own)).url
        except ValueError:
            return base

    def _index(self, schema: Any) -> None:
        """Notes every ``$id`` and ``$anchor``. Raises `SchemaError` for a schema nested too deep."""
        level: list[tuple[Any, str, str]] = [(schema, "$", "")]
        for _ in range(MAX_DEPTH):
            following: list[tuple[Any, str, str]] = []
            for raw, path, outer in level:
                base = self._base_of(raw, outer)
                if base != outer:
                    self._known.setdefault(base, (raw, path, base))
                if isinstance(raw, dict):
                    self._index_anchors(raw, path, base)
                    following += [
                        (v, f"{path}.{k}", base) for k, v in raw.items() if k not in ("enum", "const")
                    ]
                elif isinstance(raw, list):
                    following += [(v, f"{path}[{i}]", base) for i, v in enumerate(raw)]
            level = [entry for entry in following if isinstance(entry[0], dict | list)]
            if not level:
                return
        raise SchemaError.of("$", f"it is nested deeper than {MAX_DEPTH} levels.", "Write it flatter.")

    def _index_anchors(self, raw: dict[Any, Any], path: str, base: str) -> None:
        self.has_unevaluated = (
            self.has_unevaluated or "unevaluatedItems" in raw or "unevaluatedProperties" in raw
        )
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(raw.get(keyword), str):
                self._known.setdefault(f"{base}#{raw[keyword]}", (raw, path, base))
        for keyword in ("$id", "id"):
            if isinstance(raw.get(keyword), str) and raw[keyword].startswith("#"):
                self._known.setdefault(base + raw[keyword], (raw, path, base))

    def node(self, raw: Any, path: str, base: str) -> Node:
        if isinstance(raw, Node):
            return raw
        key = (id(raw) if isinstance(raw, dict) else -1 - bool(raw), base)
        found = self._nodes.get(key)
        if found is None:
            found = self._nodes[key] = Node(raw, path, base)
            self._kept.append(raw)
        return found

    def make(self, raw: Mapping[str, Any] | bool, path: str) -> Node:  # noqa: FBT001
        """A node that the conversion needs and the schema doesn't spell out; values may be nodes."""
        return Node(raw, path, "", is_made=True)

    def keywords(self, node: Node) -> dict[str, Any]:
        """The well-formed keywords of a node; the others are reported as unsupported."""
        if node.keywords is None:
            node.keywords = {}
            for keyword, value in node.raw.items() if isinstance(node.raw, Mapping) else ():
                check = KEYWORDS.get(keyword)
                if node.is_made or (check is not None and check(value)):
                    node.keywords[keyword] = value
                elif check is not None:
                    shown = repr(value)[:60]
                    self.recorder.refuse(node.path, keyword, f"{shown} isn't a value that {keyword} can have")
            self._drop_ref_siblings(node)
        return node.keywords

    def _drop_ref_siblings(self, node: Node) -> None:
        if self.ignores_ref_siblings and node.keywords and "$ref" in node.keywords:
            node.keywords = {"$ref": node.keywords["$ref"]}

    def report_keywords(self, node: Node) -> None:
        """Notes each keyword of a node that takes part as enforced, each unknown one as annotation."""
        if node.was_reported or node.is_made or not isinstance(node.raw, Mapping):
            return
        node.was_reported = True
        known = self.keywords(node)
        for keyword in node.raw:
            if keyword in known:
                self.recorder.add(node.path, keyword, "enforced")
            elif keyword not in _ANNOTATIONS and keyword not in KEYWORDS:
                self.recorder.add(node.path, str(keyword), "annotation", "unknown keyword")

    def child(self, node: Node, keyword: str, key: str | int | None = None) -> Node:
        """The subschema at a keyword, or inside its list or mapping."""
        value = self.keywords(node)[keyword]
        path = f"{node.path}.{keyword}"
        if key is not None:
            value = value[key]
            path += f"[{key}]" if isinstance(key, int) else f".{key}"
        return self.node(value, path, self._base_of(value, node.base))

    def children(self, node: Node, keyword: str) -> list[Node]:
        """The subschemas in the list at a keyword; none without it."""
        return [self.child(node, keyword, i) for i in range(len(self.keywords(node).get(keyword, ())))]

    def target(self, node: Node, keyword: str = "$ref") -> Node | None:
        """The node that a reference names, or None, reported, if it can't be found here."""
        reference = self.keywords(node)[keyword]
        found = self._find(reference, node.base) or self._find(reference, self.root.base)
        if found is None:
            remote = not reference.startswith("#")
            note = "other documents aren't fetched" if remote else "it names nothing in this schema"
            self.recorder.refuse(node.path, keyword, f"{reference!r}: {note}")
            return None
        raw, path, base = found
        return self.node(raw, path, self._base_of(raw, base))

    def is_static(self, node: Node, keyword: str) -> bool:
        """Whether a dynamic reference can only mean what it names where it stands."""
        name = self.keywords(node)[keyword].rpartition("#")[2]
        spots = [spot for spot in self._known if spot.rpartition("#")[2] == name and "#" in spot]
        return keyword == "$dynamicRef" and len(spots) == 1 and spots[0].startswith(f"{node.base}#")

    def _find(self, reference: str, base: str) -> tuple[Any, str, str] | None:
        try:
            uri, fragment = urldefrag(urljoin(base, reference))
        except ValueError:
            return None
        if fragment and not fragment.startswith("/"):
            return self._known.get(f"{uri}#{fragment}")
        resource = self._known.get(uri) or (self._known[""] if reference.startswith("#") else None)
        return None if resource is None else self._walk(resource, fragment)

    def _walk(self, resource: tuple[Any, str, str], pointer: str) -> tuple[Any, str, str] | None:
        raw, path, base = resource
        for part in pointer.split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(raw, dict) and key in raw:
                raw, path = raw[key], f"{path}.{key}"
            elif isinstance(raw, list) and key.isdecimal() and int(key) < len(raw):
                raw, path = raw[int(key)], f"{path}[{key}]"
            else:
                return None
            base = self._base_of(raw, base)
        return (raw, path, base) if isinstance(raw, dict | bool) else None
