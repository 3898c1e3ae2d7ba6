"""``chatwrap wrappers`` and ``chatwrap models``: what there is to choose from."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from chatwrap.chat.json_text import dump_json
from chatwrap.cli.spans import print_spans, spans_of
from chatwrap.models import installed_path, read_models
from chatwrap.wrapper.definition import builtin_definitions, load_definition


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
    wrapper = definition.wrapper
    print(f"{definition.name}: {definition.description}")
    if definition.models:
        print(f"models: {', '.join(definition.models)}")
    if definition.source:
        print(f"source: {definition.source}")
    print(f"template = {dump_json(wrapper.template)}")
    for role, template in wrapper.history_template.items():
        print(f"history_template.{role} = {dump_json(template)}")
    for example in definition.examples:
        print("\nexample:")
        print_spans(spans_of(wrapper.generate_context_state(example.history).context_text, None))


def models() -> None:
    """List the models that chatwrap knows by name, and whether this machine has them."""
    table = Table("model", "format", "licence", "source", "here")
    for entry in read_models():
        here = "yes" if installed_path(entry) else "no"
        table.add_row(entry.name, entry.chat_format, entry.licence, str(entry.source), here)
    Console().print(table)
