"""The commands by name, each loaded when it runs: `--help` has to be quick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from chatwrap import __version__

# Typer names the errors of a command line but not their base: click's, or its own copy of it.
UsageError: Final[type[Exception]] = typer.BadParameter.__mro__[1]

COMMANDS: Final[Mapping[str, str]] = {
    "chat": "Talk to a model, or get one answer with -p.",
    "serve": "Serve a model to OpenAI's clients.",
    "run": "Answer a .prompt file.",
    "render": "Show the prompt for a history, content told apart.",
    "grammar": "Print the grammar of a JSON Schema or of calls, or check one.",
    "explain": "Show which chat format a model gets, and why.",
    "lint": "Check a chat template or a .prompt file; exits 1 on errors.",
    "diff": "Compare the prompts of two formats; exits 1 if any differ.",
    "convert": "Print the definition that equals a chat template.",
    "wrappers": "List the chat formats, or show one.",
    "models": "List the models known by name.",
    "doctor": "Examine the installation.",
    "bench": "Measure what chatwrap costs on this machine.",
}
"""What the list of commands says of each; one sentence that fits a line of 80 columns."""

_MODULES: Final[Mapping[str, str]] = {"models": "lists", "wrappers": "lists"}
"""Where a command isn't in a module of its own name."""


class _Commands(TyperGroup):
    """Commands that stand in for the real ones until one is called."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args:
            typer.echo(ctx.get_help())
            raise typer.Exit(2)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and _loaded(command.name or ""), rest


def _loaded(name: str) -> Any:
    """The command of a name, its module imported."""
    module = _MODULES.get(name, name)
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    single.command(name)(getattr(import_module(f"chatwrap.cli.{module}"), name))
    return typer.main.get_command(single)


def _stand_in(help_line: str) -> Callable[[], None]:
    def command() -> None:
        """Never called: `_Commands.resolve_command` puts the real one in its place."""

    command.__doc__ = help_line
    return command


app = typer.Typer(
    name="chatwrap",
    cls=_Commands,
    help="The chat-format layer for local LLMs: exact prompts for GGUF models on llama.cpp.",
    rich_markup_mode=None,  # Boxes would cost three times the rest of the list.
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command_name, help_line in COMMANDS.items():
    app.command(command_name)(_stand_in(help_line))


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
