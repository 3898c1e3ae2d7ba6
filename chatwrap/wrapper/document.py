"""Writes what functions there are for a model to read, as TypeScript signatures."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from chatwrap.chat.functions import ChatModelFunctions
from chatwrap.chat.json_text import dump_json

_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)
_MAX_DEPTH = 24

_SCALARS = {
    "string": "string",
    "number": "number",
    "integer": "number",
    "boolean": "boolean",
    "null": "null",
}
_BOUNDS = {
    "minLength": "minimum length",
    "maxLength": "maximum length",
    "pattern": "pattern",
    "format": "format",
    "minimum": "minimum",
    "maximum": "maximum",
    "exclusiveMinimum": "more than",
    "exclusiveMaximum": "less than",
    "multipleOf": "multiple of",
    "minItems": "minimum items",
    "maxItems": "maximum items",
    "default": "default",
}


def typescript_signatures(functions: ChatModelFunctions, *, document_params: bool = True) -> str:
    """The functions as TypeScript signatures with their descriptions as comments.

    >>> from chatwrap.chat.functions import as_functions
    >>> schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    >>> print(typescript_signatures(as_functions({"weather": {"description": "Now.", "params": schema}})))
    // Now.
    function weather(params: {city: string});
    """
    signatures = []
    for name, function in functions.items():
        parameters = ""
        if function.parameters is not None:
            kind = typescript_type(function.parameters) if document_params else ""
            parameters = f"params: {kind}" if kind else "params"
        signatures.append(f"{_comment(function.description)}function {name}({parameters});")
    return "\n\n".join(signatures)


def typescript_type(schema: Any, root: Any = None, depth: int = 0) -> str:
    """The TypeScript type that tells a model what `schema` (JSON Schema) wants; ``any`` where unsure."""
    root = schema if root is None else root
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return "any"
    if "$ref" in schema:
        return typescript_type(_referred(schema["$ref"], root), root, depth + 8)
    if "const" in schema:
        return dump_json(schema["const"])
    if isinstance(schema.get("enum"), list):
        return " | ".join(map(dump_json, schema["enum"])) or "any"
    for keyword, sign in (("anyOf", " | "), ("oneOf", " | "), ("allOf", " & ")):
        if isinstance(schema.get(keyword), list) and schema[keyword]:
            members = [typescript_type(member, root, depth + 1) for member in schema[keyword]]
            return sign.join(dict.fromkeys(members if sign == " | " else map(_grouped, members)))
    kinds = schema.get("type", "object" if "properties" in schema else None)
    names = kinds if isinstance(kinds, list) else [kinds]
    return " | ".join(_named(str(name), schema, root, depth) for name in names) or "any"


def _grouped(kind: str) -> str:
    """`kind` in parentheses if it is a union, not counting those inside braces."""
    outside = kind
    while (shorter := re.sub(r"\{[^{}]*\}", "", outside)) != outside:
        outside = shorter
    return f"({kind})" if " | " in outside else kind


def _named(name: str, schema: Mapping[str, Any], root: Any, depth: int) -> str:
    if name == "array":
        return _array(schema, root, depth)
    if name == "object":
        return _object(schema, root, depth)
    return _SCALARS.get(name, "any")


def _array(schema: Mapping[str, Any], root: Any, depth: int) -> str:
    items = typescript_type(schema["items"], root, depth + 1) if "items" in schema else "any"
    rest = f"({items})[]" if re.search(r"[\s|&]", items) else f"{items}[]"
    if isinstance(prefix := schema.get("prefixItems"), list) and prefix:
        first = ", ".join(typescript_type(item, root, depth + 1) for item in prefix)
        return f"[{first}]" if schema.get("items") is False else f"[{first}, ...{rest}]"
    return rest


def _object(schema: Mapping[str, Any], root: Any, depth: int) -> str:
    properties = schema.get("properties")
    required = schema.get("required")
    members = [
        _property(name, value, name in (required if isinstance(required, list) else ()), root, depth)
        for name, value in (properties.items() if isinstance(properties, Mapping) else ())
    ]
    extra = schema.get("additionalProperties")
    if extra is True or isinstance(extra, Mapping):
        members.append(
            f"[key: string]: {'any' if extra is True else typescript_type(extra, root, depth + 1)}"
        )
    if not any("\n" in member for member in members):
        return "{" + ", ".join(members) + "}"
    body = textwrap.indent(",\n".join(members).lstrip(), "    ")
    return "{\n" + body + "\n}"


def _property(name: str, schema: Any, is_required: bool, root: Any, depth: int) -> str:  # noqa: FBT001
    key = name if _IDENTIFIER.fullmatch(name) else json.dumps(name, ensure_ascii=False)
    line = f"{key}{'' if is_required else '?'}: {typescript_type(schema, root, depth + 1)}"
    if not isinstance(schema, Mapping):
        return line
    bounds = [f"{words}: {_plain(schema[key])}" for key, words in _BOUNDS.items() if key in schema]
    described = str(schema["description"]) if schema.get("description") else ""
    notes = "\n".join(filter(None, [described, ", ".join(bounds)]))
    return f"\n{_comment(notes)}{line}" if notes else line


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else dump_json(value)


def _comment(text: str | None) -> str:
    """`text` as comment lines: whatever Unicode or a model takes for the end of a line gets its own."""
    return (
        "".join(f"// {line}".rstrip() + "\n" for line in text.splitlines()) if text and text.strip() else ""
    )


def _referred(reference: Any, root: Any) -> Any:
    """What a local JSON pointer names, None for anything else."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    target = root
    for step in unquote(reference).lstrip("#/").split("/") if len(reference) > 1 else []:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list) and key.isascii() and key.isdigit():
            target = target[int(key)] if int(key) < len(target) else None
        else:
            target = target.get(key) if isinstance(target, Mapping) else None
    return target
