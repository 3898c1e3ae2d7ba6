"""The command ``chatwrap``: talk to a model, see a prompt, list formats and models, examine the build."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Final

import typer

from chatwrap.cli.chat import chat
from chatwrap.cli.diff import diff
from chatwrap.cli.doctor import doctor
from chatwrap.cli.explain import explain
from chatwrap.cli.lint import lint
from chatwrap.cli.lists import models, wrappers
from chatwrap.cli.render import render
from chatwrap.errors import ChatwrapError, ModelError

INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
USER_FAULT: Final = 2
RUN_FAULT: Final = 1

app = typer.Typer(
    name="chatwrap",
    help="The chat-format layer for local LLMs: exact prompts for GGUF models on llama.cpp.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (chat, render, explain, lint, diff, wrappers, models, doctor):
    app.command()(command)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer's callback
    if wanted:
        from chatwrap import __version__

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


def main() -> None:
    """Runs the program. A user's mistake is one message on stderr and exit code 2, never a traceback."""
    try:
        app()
    except ModelError as error:
        _fail(error, RUN_FAULT)
    except ChatwrapError as error:
        _fail(error, USER_FAULT)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # Python flushes stdout once more at its end; that must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BROKEN_PIPE)


def _fail(error: ChatwrapError, code: int) -> None:
    sys.stdout.flush()
    sys.stderr.write(f"chatwrap: {error}\n")
    sys.exit(code)
