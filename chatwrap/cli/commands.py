"""The commands and what they share."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from chatwrap import __version__
from chatwrap.cli.chat import chat
from chatwrap.cli.diff import diff
from chatwrap.cli.doctor import doctor
from chatwrap.cli.explain import explain
from chatwrap.cli.grammar import grammar
from chatwrap.cli.lint import lint
from chatwrap.cli.lists import models, wrappers
from chatwrap.cli.render import render
from chatwrap.cli.serve import serve

# Typer names the errors of a command line but not their base: click's, or its own copy of it.
UsageError: Final[type[Exception]] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="chatwrap",
    help="The chat-format layer for local LLMs: exact prompts for GGUF models on llama.cpp.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (chat, serve, render, grammar, explain, lint, diff, wrappers, models, doctor):
    app.command()(command)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer's callback
    if wanted:
        typer.echo(f"chatwrap {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of the program itself."""
