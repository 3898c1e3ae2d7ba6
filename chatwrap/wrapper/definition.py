"""Chat formats as data: reads the files in ``wrappers/`` and those that users write."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from chatwrap.chat.history import ChatHistory, as_history
from chatwrap.errors import DefinitionError, Fault, FaultsError, TemplateError, UnknownNameError
from chatwrap.files import data_path, read_text
from chatwrap.wrapper.template import TemplateChatWrapper

_TEMPLATE_KEYS: Final = (
    "template",
    "history_template",
    "function_call_message_template",
    "join_adjacent_messages_of_the_same_type",
    "segments",
)
_KINDS: Final[Mapping[str, tuple[type, str]]] = {
    "description": (str, "a string"),
    "source": (str, "a string"),
    "models": (list, "a list of strings"),
    "examples": (list, "an array of tables"),
    "template": (str, "a string"),
    "history_template": (dict, "a table"),
    "function_call_message_template": (dict, "a table"),
    "join_adjacent_messages_of_the_same_type": (bool, "true or false"),
    "segments": (dict, "a table"),
}


@dataclass(frozen=True, slots=True)
class Example:
    """A history and the exact prompt that the format makes of it."""

    history: ChatHistory
    prompt: str


@dataclass(frozen=True, slots=True)
class ChatWrapperDefinition:
    """A chat format read from a file: what it is, who uses it, and its wrapper.

    `source` says where the format is specified, `models` which models use it.
    """

    name: str
    path: Path
    description: str
    source: str
    models: tuple[str, ...]
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
        examples=examples,
        wrapper=wrapper,
    )


def _path_of(name_or_path: str | Path) -> Path:
    text = os.fspath(name_or_path)
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
    models = table.get("models")
    if isinstance(models, list) and not all(isinstance(model, str) for model in models):
        yield Fault("models", f"must be a list of strings, not {models!r}.")


def _wrapper(table: Mapping[str, Any], name: str, faults: list[Fault]) -> TemplateChatWrapper | None:
    given = {key: table[key] for key in _TEMPLATE_KEYS if key in table}
    if any(fault.where in _TEMPLATE_KEYS for fault in faults):
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
            history = as_history(example.get("history", ()), where=f"{where}.history")
        except FaultsError as error:
            faults += error.faults
        else:
            examples.append(Example(history, example["prompt"]))
    return tuple(examples)


def builtin_definitions() -> Iterator[ChatWrapperDefinition]:
    """Every built-in format's definition, by name."""
    return (load_definition(name) for name in chat_wrapper_names())
