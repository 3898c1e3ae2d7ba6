"""Function documentation in the forms that vendors trained their models on: XML, Python, Gemma's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from chatwrap.chat.functions import ChatModelFunction, ChatModelFunctions
from chatwrap.chat.json_text import dump_json
from chatwrap.chat.text import LlamaText, LlamaTextInput, control

_PYTHON_TYPES: Final = {
    "string": "str",
    "number": "int",
    "integer": "int",
    "boolean": "bool",
    "array": "list",
}


def xml_functions(functions: ChatModelFunctions) -> LlamaText:
    """The functions in tags of their own (Qwen3-Coder): name, description, parameters, the rest."""
    return LlamaText.join_values("\n", [_xml_function(name, one) for name, one in functions.items()])


def _xml_function(name: str, function: ChatModelFunction) -> LlamaText:
    parameters = function.parameters or {}
    lines: list[LlamaTextInput] = [control("<function>"), _xml("name", name)]
    if function.description is not None:
        lines.append(_xml("description", function.description.strip()))
    lines.append(control("<parameters>"))
    for parameter, schema in _properties(parameters).items():
        lines += [control("<parameter>"), _xml("name", parameter)]
        lines += [_xml("type", _text_of(schema["type"]))] if "type" in schema else []
        lines += [_xml("description", str(schema["description"]).strip())] if "description" in schema else []
        lines += _xml_members(schema, {"name", "type", "description"})
        lines.append(control("</parameter>"))
    lines += _xml_members(parameters, {"type", "properties"})
    return LlamaText.join_values("\n", [*lines, control("</parameters>"), control("</function>")])


def _xml(tag: str, text: str) -> LlamaText:
    return LlamaText(control("<"), tag, control(">"), text, control("</"), tag, control(">"))


def _xml_members(schema: Mapping[str, Any], handled: set[str]) -> Iterator[LlamaText]:
    for key, value in schema.items():
        if key not in handled:
            shown = dump_json(value) if isinstance(value, Mapping | list) else str(value)
            yield _xml(key, shown)


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def _properties(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The properties of a schema that are schemas."""
    properties = schema.get("properties")
    found = properties if isinstance(properties, Mapping) else {}
    return {name: one for name, one in found.items() if isinstance(one, Mapping)}


def _required(schema: Mapping[str, Any]) -> tuple[Any, ...]:
    required = schema.get("required")
    return tuple(required) if isinstance(required, list | tuple) else ()


def python_stubs(functions: ChatModelFunctions) -> LlamaText:
    """The functions as Python definitions with docstrings (Seed-OSS)."""
    return LlamaText("".join(_python_stub(name, function) for name, function in functions.items()))


def _python_stub(name: str, function: ChatModelFunction) -> str:
    parameters = function.parameters or {}
    properties = _properties(parameters)
    signature = ",".join(f"{one}: {_python_type(schema)}" for one, schema in properties.items())
    described = (function.description or "").strip()
    text = f'\n\nFunction:\ndef {name}({signature}):\n    """\n    {described}\n\n'
    if properties:
        required = _required(parameters)
        lines = [
            f"    - {one} ({_python_type(schema)}) {'[必填]' if one in required else '[选填]'}: "
            f"{schema.get('description') or ''}"
            for one, schema in properties.items()
        ]
        text += "\n".join(["    Args:", *lines])
    return text + '\n\n    """'


def _python_type(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    return _PYTHON_TYPES.get(kind, "Any") if isinstance(kind, str) else "Any"


def namespace_of(name: str) -> str:
    """What stands before the first dot in a function's name; the name itself if there is no dot."""
    return name.partition(".")[0]


def namespaced_json_lines(functions: ChatModelFunctions) -> LlamaText:
    """The functions' namespaces, then the functions, a line of JSON each (Muse)."""
    lines: list[LlamaTextInput] = [control("// Tool metadata")]
    for space in dict.fromkeys(map(namespace_of, functions)):
        lines.append(dump_json({"name": space, "description": ""}))
    lines.append(control("// Function schemas"))
    for name, one in functions.items():
        schema = {"name": name, "description": one.description or "", "parameters": one.parameters or {}}
        lines.append(dump_json(schema, where=f"functions.{name}"))
    return LlamaText.join_values("\n", lines)


GEMMA_MARKS: Final = ("<|tool>", "<tool|>", '<|"|>')
_GEMMA_WORDS: Final = frozenset({"description", "type", "properties", "required", "nullable"})
_QUOTE: Final = control('<|"|>')


def gemma_declarations(functions: ChatModelFunctions) -> LlamaText:
    """The functions in Gemma 4's notation with bare keys, each between tokens of its own."""
    return LlamaText([_gemma_declaration(name, function) for name, function in functions.items()])


def _gemma_declaration(name: str, function: ChatModelFunction) -> LlamaText:
    text: list[LlamaTextInput] = [control("<|tool>declaration:"), name, "{"]
    text += ["description:", _quoted(function.description or "")]
    if function.parameters:
        text += [",parameters:{", *_gemma_schema(function.parameters)]
    return LlamaText(text, "}", control("<tool|>"))


def _gemma_schema(schema: Mapping[str, Any]) -> Iterator[LlamaTextInput]:
    if schema.get("properties"):
        yield LlamaText("properties:{", _gemma_properties(schema["properties"]), "},")
    if schema.get("required"):
        yield LlamaText("required:", _gemma_value(schema["required"]), ",")
    if schema.get("type"):
        yield LlamaText("type:", _quoted(str(schema["type"]).upper()), "}")


def _gemma_properties(properties: Any) -> LlamaText:
    members = _sorted(properties) if isinstance(properties, Mapping) else []
    return LlamaText.join_values(
        ",", [_gemma_property(name, schema) for name, schema in members if name not in _GEMMA_WORDS]
    )


def _gemma_property(name: str, given: Any) -> LlamaText:
    schema = given if isinstance(given, Mapping) else {}
    kind = str(schema.get("type", "")).upper()
    members: list[LlamaTextInput] = []
    if schema.get("description"):
        members.append(LlamaText("description:", _quoted(str(schema["description"]))))
    if kind == "STRING" and schema.get("enum"):
        members.append(LlamaText("enum:", _gemma_value(schema["enum"])))
    items = schema.get("items")
    if kind == "ARRAY" and isinstance(items, Mapping) and items:
        members.append(LlamaText("items:{", LlamaText.join_values(",", list(_gemma_items(items))), "}"))
    if schema.get("nullable"):
        members.append("nullable:true")
    if kind == "OBJECT":
        properties = schema["properties"] if isinstance(schema.get("properties"), Mapping) else schema
        members.append(LlamaText("properties:{", _gemma_properties(properties), "}"))
        if schema.get("required"):
            members.append(LlamaText("required:", _gemma_value(schema["required"])))
    members.append(LlamaText("type:", _quoted(kind)))
    return LlamaText(name, ":{", LlamaText.join_values(",", members), "}")


def _gemma_items(items: Mapping[str, Any]) -> Iterator[LlamaText]:
    for key, value in _sorted(items):
        if value is None:
            continue
        if key == "properties":
            yield LlamaText("properties:{", _gemma_properties(value), "}")
        elif key == "type":
            kinds = value.upper() if isinstance(value, str) else [str(kind).upper() for kind in value]
            yield LlamaText("type:", _gemma_value(kinds))
        else:
            yield LlamaText(f"{key}:", _gemma_value(value))


def _gemma_value(value: Any) -> LlamaText:
    """A value as Gemma's declarations have it: keys quoted, too."""
    match value:
        case str():
            return _quoted(value)
        case Mapping():
            pairs = [LlamaText(_quoted(key), ":", _gemma_value(member)) for key, member in _sorted(value)]
            return LlamaText("{", LlamaText.join_values(",", pairs), "}")
        case list() | tuple():
            return LlamaText("[", LlamaText.join_values(",", map(_gemma_value, value)), "]")
        case bool():
            return LlamaText("true" if value else "false")
    return LlamaText(str(value))


def _quoted(text: str) -> LlamaText:
    return LlamaText(_QUOTE, text, _QUOTE)


def _sorted(members: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The members as Jinja's ``dictsort`` orders them: without regard to case."""
    return sorted(members.items(), key=lambda member: member[0].lower())
