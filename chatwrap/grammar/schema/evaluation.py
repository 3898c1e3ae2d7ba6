"""Whether a given value fits a schema: decides which members of an enum the other keywords leave."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from chatwrap.errors import GrammarError
from chatwrap.grammar.automaton import TooManyStatesError
from chatwrap.grammar.formats import format_automaton
from chatwrap.grammar.regex import compile_pattern
from chatwrap.grammar.schema.conjunction import Conjunctions, Element
from chatwrap.grammar.schema.document import Node
from chatwrap.grammar.schema.equality import has_type, identity, type_of
from chatwrap.grammar.schema.numbers import decimal_of

MAX_DEPTH = 60


class Evaluation:
    """Evaluates values against the elements of one document."""

    def __init__(self, conjunctions: Conjunctions) -> None:
        self.conjunctions = conjunctions
        self.document = conjunctions.document

    def holds(self, elements: Iterable[Element], value: Any, depth: int = 0) -> bool:
        """Whether all elements hold for the value. A schema nested past `MAX_DEPTH` counts as holding."""
        if depth > MAX_DEPTH:
            return True
        flat = self.conjunctions.flatten(elements)
        if flat is None:
            return False
        return all(self._leaf_holds(leaf, value, depth) for leaf in flat.leaves) and all(
            any(self.holds(option, value, depth + 1) for option in choice.options) for choice in flat.choices
        )

    def is_free_of(self, elements: Iterable[Element]) -> bool:
        """Whether the elements say nothing."""
        flat = self.conjunctions.flatten(elements)
        return flat is not None and not flat.leaves and not flat.choices

    def _leaf_holds(self, node: Node, value: Any, depth: int) -> bool:
        keywords = self.document.keywords(node)
        names = keywords.get("type")
        if names is not None and not any(
            has_type(value, name) for name in (names if isinstance(names, list) else [names])
        ):
            return False
        own = identity(value)
        if "const" in keywords and identity(keywords["const"]) != own:
            return False
        if "enum" in keywords and all(identity(member) != own for member in keywords["enum"]):
            return False
        if any(identity(member) == own for member in keywords.get("!enum", ())):
            return False
        check: dict[str, Callable[[Node, Any, int], bool]] = {
            "string": self._string_holds, "number": self._number_holds,
            "array": self._array_holds, "object": self._object_holds,
        }  # fmt: skip
        return type_of(value) not in check or check[type_of(value)](node, value, depth)

    def _string_holds(self, node: Node, value: str, depth: int) -> bool:
        keywords = self.document.keywords(node)
        if not keywords.get("minLength", 0) <= len(value) <= keywords.get("maxLength", len(value)):
            return False
        return all(
            self._matches(node, keyword, value) is wanted
            for keyword, wanted in (
                ("pattern", True),
                ("format", True),
                ("!pattern", False),
                ("!format", False),
            )
            if keyword in keywords
        )

    def _matches(self, node: Node, keyword: str, value: str) -> bool:
        """Whether a pattern or a format matches; what can't be decided is reported and counts as fitting."""
        argument = self.document.keywords(node)[keyword]
        try:
            automaton = (format_automaton if keyword.endswith("format") else compile_pattern)(argument)
        except (GrammarError, TooManyStatesError) as error:
            self.document.recorder.refuse(node.path, keyword.lstrip("!"), str(error).rstrip("."))
            automaton = None
        return not keyword.startswith("!") if automaton is None else automaton.accepts(value)

    def _number_holds(self, node: Node, value: float, depth: int) -> bool:
        keywords, exact = self.document.keywords(node), decimal_of(value)
        for keyword, bound in keywords.items():
            fits = True
            if keyword in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"):
                fits = _within(exact, keyword, bound, keywords)
            elif keyword in ("multipleOf", "!multipleOf"):
                fits = ((exact / decimal_of(bound)).denominator == 1) is (keyword == "multipleOf")
            elif keyword == "!integer":
                fits = exact.denominator != 1
            if not fits:
                return False
        return True

    def _array_holds(self, node: Node, value: list[Any], depth: int) -> bool:
        keywords = self.document.keywords(node)
        if not keywords.get("minItems", 0) <= len(value) <= keywords.get("maxItems", len(value)):
            return False
        if keywords.get("uniqueItems") and len({identity(item) for item in value}) < len(value):
            return False
        prefix, rest = items_of(self.conjunctions, node)
        for index, item in enumerate(value):
            schema = prefix[index] if index < len(prefix) else rest
            if schema is not None and not self.holds([schema], item, depth + 1):
                return False
        if "contains" not in keywords:
            return True
        contained = self.document.child(node, "contains")
        n_found = sum(self.holds([contained], item, depth + 1) for item in value)
        return bool(keywords.get("minContains", 1) <= n_found <= keywords.get("maxContains", n_found))

    def _object_holds(self, node: Node, value: dict[str, Any], depth: int) -> bool:
        keywords = self.document.keywords(node)
        if any(name not in value for name in keywords.get("required", ())):
            return False
        if not keywords.get("minProperties", 0) <= len(value) <= keywords.get("maxProperties", len(value)):
            return False
        if "propertyNames" in keywords:
            names = self.document.child(node, "propertyNames")
            if not all(self.holds([names], name, depth + 1) for name in value):
                return False
        return all(
            self.holds(value_schemas(self.conjunctions, node, name, self._pattern_hits), item, depth + 1)
            for name, item in value.items()
        )

    def _pattern_hits(self, node: Node, pattern: str, name: str) -> bool:
        try:
            return compile_pattern(pattern).accepts(name)
        except (GrammarError, TooManyStatesError) as error:
            self.document.recorder.refuse(f"{node.path}.patternProperties", pattern, str(error).rstrip("."))
            return False


def _within(exact: Any, keyword: str, bound: Any, keywords: dict[str, Any]) -> bool:
    if isinstance(bound, bool):
        return True
    limit = decimal_of(bound)
    is_lower = keyword.endswith("inimum")
    strict_beside = keywords.get("exclusiveMinimum" if is_lower else "exclusiveMaximum") is True
    if exact == limit:
        return not keyword.startswith("exclusive") and not strict_beside
    return bool(exact > limit) is is_lower


def items_of(conjunctions: Conjunctions, node: Node) -> tuple[list[Node], Node | None]:
    """The schemas of the first items and of the rest, in the drafts' spellings alike."""
    document, keywords = conjunctions.document, conjunctions.document.keywords(node)
    if "prefixItems" in keywords:
        rest = keywords.get("items")
        return document.children(node, "prefixItems"), (
            document.child(node, "items") if rest is not None and not isinstance(rest, list) else None
        )
    if isinstance(keywords.get("items"), list):
        extra = document.child(node, "additionalItems") if "additionalItems" in keywords else None
        return document.children(node, "items"), extra
    return [], document.child(node, "items") if "items" in keywords else None


def value_schemas(
    conjunctions: Conjunctions, node: Node, name: str, hits: Callable[[Node, str, str], bool]
) -> list[Element]:
    """The schemas that a node has for the value of a property: its own, by pattern, or additional."""
    document, keywords = conjunctions.document, conjunctions.document.keywords(node)
    found: list[Element] = []
    if name in keywords.get("properties", ()):
        found.append(document.child(node, "properties", name))
    found += [
        document.child(node, "patternProperties", pattern)
        for pattern in keywords.get("patternProperties", ())
        if hits(node, pattern, name)
    ]
    if not found and "additionalProperties" in keywords:
        found.append(document.child(node, "additionalProperties"))
    return found
