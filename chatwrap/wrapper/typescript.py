"""Function documentation as TypeScript namespaces, as gpt-oss and Functionary were trained to read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from chatwrap.chat.functions import ChatModelFunction, ChatModelFunctions
from chatwrap.chat.json_text import dump_json

_SCALARS: Final = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean"}
_LONGEST_ITEM: Final = 50
# What the vendor's template has between a member of an inner object and its type.
_MARGIN: Final = "\n" + 16 * " "


def harmony_namespace(functions: ChatModelFunctions) -> str:
    """The functions as the namespace ``functions`` in Harmony's look."""
    texts = [_harmony_function(name, function) for name, function in functions.items()]
    return f"## functions\n\nnamespace functions {{\n\n{''.join(texts)}}} // namespace functions"


def _harmony_function(name: str, function: ChatModelFunction) -> str:
    comment = f"// {function.description}\n" if function.description is not None else ""
    schema = function.parameters or {}
    properties = _mappings(schema.get("properties"))
    if not properties:
        return f"{comment}type {name} = () => any;\n\n"
    required = schema.get("required") or ()
    members = [_harmony_member(one, spec, required) for one, spec in properties.items()]
    return f"{comment}type {name} = (_: {{\n{''.join(members)}}}) => any;\n\n"


def _harmony_member(name: str, schema: Mapping[str, Any], required: Any) -> str:
    comment = f"// {schema['description']}\n" if schema.get("description") else ""
    optional = "" if name in required else "?"
    return f"{comment}{name}{optional}: {_harmony_type(schema)}{_harmony_default(schema)},\n"


def _harmony_default(schema: Mapping[str, Any]) -> str:
    if "default" not in schema:
        return ""
    plain = schema.get("enum") or schema.get("oneOf")
    shown = str(schema["default"]) if plain else dump_json(schema["default"])
    comma = "" if schema.get("oneOf") and not schema.get("enum") else ", "
    return f"{comma}// default: {shown}"


def _harmony_type(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if kind == "array":
        return _harmony_array(schema)
    if isinstance(kind, list) and kind:
        return " | ".join(map(str, kind))
    if schema.get("oneOf"):
        return _harmony_union(schema["oneOf"])
    if kind == "string" and schema.get("enum"):
        return " | ".join(f'"{value}"' for value in schema["enum"])
    if kind == "string":
        return "string | null" if schema.get("nullable") else "string"
    if kind == "object":
        return _harmony_object(schema)
    return _SCALARS.get(kind, "any") if isinstance(kind, str) else "any"


def _harmony_array(schema: Mapping[str, Any]) -> str:
    items = schema.get("items")
    element = "any"
    if isinstance(items, Mapping) and items:
        kind = items.get("type")
        inner = _SCALARS[kind] if isinstance(kind, str) and kind in _SCALARS else _harmony_type(items)
        plain = isinstance(kind, str) and kind in _SCALARS
        too_long = not plain and (inner == "object | object" or len(inner) > _LONGEST_ITEM)
        element = "any" if too_long else inner
    return f"{element}[]" + (" | null" if schema.get("nullable") else "")


def _harmony_union(variants: Any) -> str:
    if len(variants) > 1 and any(variant.get("type") == "object" for variant in variants):
        return "any"
    shown = []
    for variant in variants:
        comment = f"// {variant['description']}" if variant.get("description") else ""
        default = f"// default: {dump_json(variant['default'])}" if "default" in variant else ""
        shown.append(f"{_harmony_type(variant)}{comment}{default}")
    return " | ".join(shown)


def _harmony_object(schema: Mapping[str, Any]) -> str:
    properties = _mappings(schema.get("properties"))
    if not properties:
        return "object"
    required = schema.get("required") or ()
    members = [
        f"{name}{'' if name in required else '?'}: {_MARGIN}{_harmony_type(one)}"
        for name, one in properties.items()
    ]
    return "{\n" + ", ".join(members) + "}"


def _mappings(properties: Any) -> dict[str, Mapping[str, Any]]:
    found = properties if isinstance(properties, Mapping) else {}
    return {name: schema for name, schema in found.items() if isinstance(schema, Mapping)}


_BOUNDS: Final = {
    "maximum": "Maximum",
    "minimum": "Minimum",
    "maxLength": "Maximum length",
    "minLength": "Minimum length",
}


def functionary_namespace(functions: ChatModelFunctions) -> str:
    """The functions as the namespace ``functions`` in Functionary's look."""
    texts = []
    for name, function in functions.items():
        schema = function.parameters or {}
        members = "".join(_functionary_members(schema.get("properties"), schema.get("required", ()), 0))
        signature = f"(_: {{{members}\n}}) => any" if schema.get("properties") else "() => any"
        texts.append(f"// {function.description or ''}\ntype {name} = {signature};\n\n")
    opening = (
        "// Supported function definitions that should be called when necessary.\nnamespace functions {\n\n"
    )
    return f"{opening}{''.join(texts)}}} // namespace functions"


def _functionary_members(properties: Any, required: Any, depth: int) -> Iterator[str]:
    margin = "\n" + "    " * depth
    for name, schema in _mappings(properties).items():
        notes = _functionary_notes(schema)
        yield from (f"{margin}{note}" for note in notes)
        if notes or schema.get("type") in ("object", "array"):
            yield from (f"{margin}// {example}" for example in _examples(name, schema))
        declared = name if name in required else f"{name}?"
        match schema.get("type"):
            case "object":
                yield f"{margin}{declared}: {{"
                yield from _functionary_members(
                    schema.get("properties"), schema.get("required", ()), depth + 1
                )
                yield f"{margin}}},"
            case "array":
                yield f"{margin}{declared}: {_functionary_array(schema, depth)},"
            case _:
                nullable = " | null" if schema.get("nullable") else ""
                kind = _enum(schema["enum"]) if "enum" in schema else _functionary_type(schema)
                yield f"{margin}{declared}: {kind}{nullable},"


def _examples(name: str, schema: Mapping[str, Any]) -> list[str]:
    if "examples" not in schema:
        return []
    return [f"Example {name}:", *(str(example).replace("'", '"') for example in schema["examples"])]


def _functionary_array(schema: Mapping[str, Any], depth: int) -> str:
    items = schema.get("items")
    if not isinstance(items, Mapping) or "type" not in items:
        return "[]"
    match items["type"]:
        case "object":
            members = _functionary_members(items.get("properties"), items.get("required", ()), depth + 1)
            margin = "\n" + "    " * depth
            return f"{{{''.join(members)}{margin}}}[]"
        case "array":
            return f"{_functionary_array(items, depth + 1)}[]"
    return f"({_enum(items['enum'])})[]" if "enum" in items else f"{_functionary_type(items)}[]"


def _functionary_type(schema: Mapping[str, Any]) -> str:
    if "type" in schema:
        kinds = schema["type"]
        shown = kinds if isinstance(kinds, str) else " | ".join(map(str, kinds))
    else:
        variants = schema.get("oneOf", ())
        shown = " | ".join(dict.fromkeys(one["type"] for one in variants if "type" in one))
    return "number" if shown in ("integer", "float") else shown


def _enum(values: Any) -> str:
    return " | ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in values)


def _functionary_notes(schema: Mapping[str, Any]) -> list[str]:
    """The comment above a parameter, none if there is nothing to say of it."""
    notes = []
    if "description" in schema:
        notes.append(f"{schema['description'].removesuffix('.')}.")
    if "default" in schema:
        shown = f'"{schema["default"]}"' if schema.get("type") == "string" else str(schema["default"])
        notes.append(f"Default={shown}.")
    if "format" in schema:
        notes.append(f"Format={schema['format']}")
    notes += [f"{word}={schema[key]}" for key, word in _BOUNDS.items() if key in schema]
    return [f"// {' '.join(notes)}"] if notes else []
