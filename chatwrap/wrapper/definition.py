"""Chat formats as data: reads the files in ``wrappers/`` and those that users write."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final

from chatwrap.chat.functions import ChatModelFunctions, as_functions
from chatwrap.chat.history import ChatHistory, as_history
from chatwrap.errors import DefinitionError, Fault, FaultsError, TemplateError, UnknownNameError
from chatwrap.files import as_path_text, data_path, read_text
from chatwrap.wrapper.template import TemplateChatWrapper

_FREE_KINDS: Final[Mapping[str, tuple[type, str]]] = {
    "description": (str, "a string"),
    "source": (str, "a string"),
    "models": (list, "a list of strings"),
    "special_tokens": (list, "a list of strings"),
    "examples": (list, "an array of tables"),
}
_TEMPLATE_KINDS: Final[Mapping[str, tuple[type | tuple[type, ...], str]]] = {
    "template": (str, "a string"),
    "history_template": (dict, "a table"),
    "function_call_message_template": (dict, "a table"),
    "function_call_arguments": (dict, "a table"),
    "join_adjacent_messages_of_the_same_type": (bool, "true or false"),
    "segments": (dict, "a table"),
    "opening": (dict, "a table"),
    "function_documentation": (dict, "a table"),
    "function_call_sections": (dict, "a table"),
    "trim_messages": ((bool, list), "true, false or a list of roles"),
    "trim_thoughts": (bool, "true or false"),
    "hoist_system_messages": (bool, "true or false"),
    "kept_thoughts": (str, "a string"),
    "empty_thoughts": (str, "a string"),
    "stop_texts": (list, "a list of strings"),
    "ends_at_eos": (bool, "true or false"),
    "date_format": (str, "a string"),
}
_KINDS: Final = {**_FREE_KINDS, **_TEMPLATE_KINDS}


@dataclass(frozen=True, slots=True)
class Example:
    """A history, functions if there are any, and the exact prompt that the format makes of them on a day."""

    history: ChatHistory
    prompt: str
    functions: ChatModelFunctions = field(default_factory=dict)
    day: date | None = None


@dataclass(frozen=True, slots=True)
class ChatWrapperDefinition:
    """A chat format read from a file: what it is, who uses it, and its wrapper.

    `source` says where the format is specified, `models` which models use it, `special_tokens` what a
    vocabulary has if it is made for this format.
    """

    name: str
    path: Path
    description: str
    source: str
    models: tuple[str, ...]
    special_tokens: frozenset[str]
    examples: tuple[Example, ...]
    wrapper: TemplateChatWrapper


def chat_wrapper_names() -> tuple[str, ...]:
    """The names of the built-in chat formats, sorted."""
    return tuple(sorted(path.stem for path in data_path("wrappers").glob("*.toml")))


def load_chat_wrapper(name_or_path: str | Path) -> TemplateChatWrapper:
    """The wrapper of a built-in format (``"chatml"``) or of a definition file (``"my/format.toml"``).

    Raises `UnknownNameError`, `FileError`, or `DefinitionError` with every fault of the file.
    """
    return load_definition(name_or_path).wrapper


def load_definition(name_or_path: str | Path) -> ChatWrapperDefinition:
    """The definition of a built-in format or of a file; see `load_chat_wrapper`."""
    path = _path_of(name_or_path)
    builtin = path.parent == data_path("wrappers")
    shown = f"wrappers/{path.name}" if builtin else str(path)
    return parse_definition(read_text(path), path=path, shown=shown)


def parse_definition(text: str, *, path: Path, shown: str | None = None) -> ChatWrapperDefinition:
    """The definition that a TOML text holds; errors call it `shown` (by default its path)."""
    where = shown or str(path)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DefinitionError.of(where, f"not TOML: {error}.") from None
    except RecursionError:
        raise DefinitionError.of(where, "TOML nested too deep to read.") from None
    faults = list(_shape_faults(table))
    wrapper = _wrapper(table, path.stem, faults)
    examples = _examples(table, faults)
    if faults or wrapper is None:
        raise DefinitionError(replace(fault, where=f"{where}: {fault.where}") for fault in faults)
    return ChatWrapperDefinition(
        name=path.stem,
        path=path,
        description=table.get("description", ""),
        source=table.get("source", ""),
        models=tuple(table.get("models", ())),
        special_tokens=frozenset(table.get("special_tokens", ())),
        examples=examples,
        wrapper=wrapper,
    )


def _path_of(name_or_path: str | Path) -> Path:
    text = as_path_text(name_or_path, "chat_wrapper")
    if isinstance(name_or_path, Path) or text.endswith(".toml") or "/" in text or os.sep in text:
        return Path(text)
    names = chat_wrapper_names()
    if text not in names:
        raise UnknownNameError("chat wrapper", text, names, "`chatwrap wrappers`")
    return data_path("wrappers") / f"{text}.toml"


def _shape_faults(table: Mapping[str, Any]) -> Iterator[Fault]:
    for key, value in table.items():
        if key not in _KINDS:
            yield Fault(key, "unknown key.", f"Known are {', '.join(_KINDS)}.")
        elif not isinstance(value, _KINDS[key][0]):
            yield Fault(key, f"must be {_KINDS[key][1]}, not {value!r}.")
    for key in ("template", "history_template"):
        if key not in table:
            yield Fault(key, "missing.", "A definition needs template and history_template.")
    for key in ("models", "special_tokens"):
        texts = table.get(key)
        if isinstance(texts, list) and not all(isinstance(text, str) for text in texts):
            yield Fault(key, f"must be a list of strings, not {texts!r}.")


def _wrapper(table: Mapping[str, Any], name: str, faults: list[Fault]) -> TemplateChatWrapper | None:
    given = {key: table[key] for key in _TEMPLATE_KINDS if key in table}
    if any(fault.where in _TEMPLATE_KINDS for fault in faults):
        return None
    try:
        wrapper = TemplateChatWrapper(**given)
    except TemplateError as error:
        faults += error.faults
        return None
    wrapper.wrapper_name = name
    return wrapper


def _examples(table: Mapping[str, Any], faults: list[Fault]) -> tuple[Example, ...]:
    given = table.get("examples")
    examples = []
    for index, example in enumerate(given if isinstance(given, list) else ()):
        where = f"examples[{index}]"
        if not isinstance(example, Mapping) or not isinstance(example.get("prompt"), str):
            faults.append(
                Fault(where, "must be a table with a history and a prompt.", "Add what is missing.")
            )
            continue
        try:
            examples.append(_example(example, where))
        except FaultsError as error:
            faults += error.faults
    return tuple(examples)


def _example(example: Mapping[str, Any], where: str) -> Example:
    return Example(
        history=as_history(example.get("history", ()), where=f"{where}.history"),
        prompt=example["prompt"],
        functions=as_functions(example.get("functions"), where=f"{where}.functions"),
        day=_day(example.get("day"), f"{where}.day"),
    )


def _day(value: Any, where: str) -> date | None:
    if value is not None and (not isinstance(value, date) or isinstance(value, datetime)):
        raise DefinitionError.of(where, f"must be a date, not {value!r}.", "Write it as 2026-02-03.")
    return value


def builtin_definitions() -> Iterator[ChatWrapperDefinition]:
    """Every built-in format's definition, by name."""
    return (load_definition(name) for name in chat_wrapper_names())
