"""What the commands share that take a .prompt file: its input and its tools."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from chatwrap.chat.json_text import parse_json
from chatwrap.cli.streams import argument_text
from chatwrap.dotprompt.document import PromptMetadata
from chatwrap.dotprompt.dotprompt import Dotprompt
from chatwrap.dotprompt.store import DirectoryStore
from chatwrap.errors import DotpromptError, FileError, OptionError
from chatwrap.files import read_text

SUFFIX: Final = ".prompt"


def is_prompt(name: str) -> bool:
    """Whether a name is that of a .prompt file."""
    return name.endswith(SUFFIX)


def opened(file: str, **arguments: Any) -> Dotprompt:
    """A Dotprompt whose partials are those beside the file."""
    return Dotprompt(DirectoryStore(Path(file).parent), **arguments)


def read_input(
    variables: list[str] | None, file: Path | None, metadata: PromptMetadata, *, option: str
) -> dict[str, Any]:
    """The variables of a JSON file, and over them those that are given as ``name=value``.

    A value is text, unless the prompt's ``input.schema`` wants it to be something else: then it is JSON.
    """
    given: dict[str, Any] = {}
    if file is not None:
        read = parse_json(read_text(file), where=str(file))
        if not isinstance(read, Mapping):
            raise OptionError.of(
                option, f"{file} holds a {type(read).__name__}.", "Give an object of variables."
            )
        given |= read
    declared = metadata.input or {}
    schema = declared.get("schema")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    for variable in variables or ():
        name, equals, value = argument_text(variable).partition("=")
        if not equals or not name:
            raise OptionError.of("", f"{variable!r} is no variable.", "Write name=value.")
        wanted = properties.get(name) if isinstance(properties, Mapping) else None
        given[name] = _value(name, value, wanted)
    return given


def _value(name: str, text: str, wanted: Any) -> Any:
    kinds = wanted.get("type") if isinstance(wanted, Mapping) else None
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not isinstance(kinds, list) or "string" in kinds:
        return text
    return parse_json(text, where=name)


def read_tools(file: Path | None) -> dict[str, Callable[..., Any]]:
    """The functions that a Python file defines, by name; those with an underscore first are its own.

    Raises `FileError` if there is no such file, and `DotpromptError` if it can't be run.
    """
    if file is None:
        return {}
    if not file.is_file():
        raise FileError(f"{file}: no such file.")
    try:
        names = runpy.run_path(str(file), run_name="chatwrap_tools")
    except Exception as error:
        raise DotpromptError.of(str(file), f"can't be run: {type(error).__name__}: {error}.") from error
    return {
        name: value
        for name, value in names.items()
        if not name.startswith("_")
        and callable(value)
        and getattr(value, "__module__", None) == "chatwrap_tools"
    }
