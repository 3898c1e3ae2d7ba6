"""``chatwrap wrappers`` and ``chatwrap models``: what there is to choose from."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from chatwrap.chat.history import as_history
from chatwrap.cli.spans import print_spans, spans_of, triggers_text
from chatwrap.cli.streams import printable_json
from chatwrap.files import read_text
from chatwrap.models import installed_path, read_models
from chatwrap.wrapper.definition import builtin_definitions, load_definition

_ABOUT: Final = ("description", "source", "models", "examples")
_EXAMPLE: Final = (
    {"type": "system", "text": "Be brief."},
    {"type": "user", "text": "Hi"},
    {"type": "model", "response": ["Hello."]},
    {"type": "user", "text": "1+1?"},
)


def wrappers(
    name: Annotated[str | None, typer.Argument(help="Show this format (a name or a file) in full.")] = None,
) -> None:
    """List the chat formats, or show one: its templates, an example, its stop triggers."""
    if name is not None:
        _show(name)
        return
    table = Table("format", "description", "models")
    for definition in builtin_definitions():
        table.add_row(definition.name, definition.description, ", ".join(definition.models))
    Console().print(table)


def _show(name: str) -> None:
    definition = load_definition(name)
    print(f"{definition.name}: {definition.description}" if definition.description else definition.name)
    if definition.models:
        print(f"models: {', '.join(definition.models)}")
    if definition.source:
        print(f"source: {definition.source}")
    print(f"file: {definition.path}")
    for key, text in _templates(tomllib.loads(read_text(definition.path))):
        print(f"{key} = {printable_json(text)}")
    for history in [example.history for example in definition.examples] or [as_history(_EXAMPLE)]:
        print("\nexample:")
        state = definition.wrapper.generate_context_state(history)
        print_spans(spans_of(state.context_text, None))
        print("stop:", triggers_text(state.stop_generation_triggers))


def _templates(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """What a definition says about the format: dotted keys and their values, in its order."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _templates(value, f"{path}{key}.")
        elif path or key not in _ABOUT:
            yield f"{path}{key}", value


def models() -> None:
    """List the models that chatwrap knows by name, and whether this machine has them."""
    table = Table("model", "format", "licence", "source", "here")
    for entry in read_models():
        here = "yes" if installed_path(entry) else "no"
        table.add_row(entry.name, entry.chat_format, entry.licence, str(entry.source), here)
    Console().print(table)
