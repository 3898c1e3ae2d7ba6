"""``chatwrap chat``: one answer with ``-p``, else a conversation in the terminal."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from chatwrap.cli.repl import Repl
from chatwrap.files import read_text
from chatwrap.models import default_model

if TYPE_CHECKING:
    from chatwrap.engine.session import ChatSession

_HISTORY_HELP: Final = "Go on from the conversation in this file, and save it there after each answer."


def chat(
    model: Annotated[str | None, typer.Argument(help="A GGUF file or a name in `chatwrap models`.")] = None,
    *,
    prompt: Annotated[str | None, typer.Option("--prompt", "-p", help="Answer this and exit.")] = None,
    prompt_file: Annotated[Path | None, typer.Option(help="Answer this file's text and exit.")] = None,
    system: Annotated[
        str | None, typer.Option("--system", "-s", help="System message; none by default.")
    ] = None,
    chat_format: Annotated[
        str,
        typer.Option("--format", "-f", help="Format name or file; 'auto', or 'jinja': the file's template."),
    ] = "auto",
    history: Annotated[Path | None, typer.Option(help=_HISTORY_HELP)] = None,
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token.")] = 0.2,
    top_k: Annotated[int, typer.Option(help="Below 1: no limit.")] = 40,
    top_p: float = 0.95,
    min_p: float = 0.05,
    repeat_penalty: float = 1.0,
    seed: int | None = None,
    max_tokens: Annotated[int | None, typer.Option(help="The longest answer.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="End answers here too; may be repeated.")] = None,
    n_ctx: Annotated[
        int | None, typer.Option(help="Context in tokens; the model's own, 8192 at most.")
    ] = None,
    n_gpu_layers: Annotated[int, typer.Option(help="Layers on the GPU; -1 for all.")] = 0,
    threads: Annotated[int | None, typer.Option(help="CPU threads; llama.cpp's choice by default.")] = None,
) -> None:
    """Talk to a model. Without -p, type messages; /help lists commands, Ctrl-C stops an answer."""
    from chatwrap.engine.model import load_model
    from chatwrap.engine.sampling import SamplingOptions
    from chatwrap.engine.session import ChatSession

    options = SamplingOptions(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repeat_penalty=repeat_penalty,
        seed=seed,
        max_tokens=max_tokens,
        stop=stop or (),
    )
    question = read_text(prompt_file) if prompt_file else prompt
    loaded = load_model(
        model or default_model().name,
        n_ctx=n_ctx,
        n_gpu_layers=n_gpu_layers,
        n_threads=threads,
        chat_wrapper=chat_format,
        seed=seed,
    )
    with loaded:
        session = ChatSession(loaded, system_prompt=system or "")
        if history and history.exists():
            session.load(history)
        talk = Conversation(session, {"options": options}, history)
        if question is not None:
            talk.answer(question)
            return
        Repl(
            talk, n_ctx=loaded.n_ctx, title=f"{loaded.name}, format {loaded.chat_wrapper.wrapper_name}"
        ).run()


class Conversation:
    """A session whose answers are printed as they come, and saved after each."""

    def __init__(self, session: ChatSession, options: dict[str, Any], file: Path | None) -> None:
        self.session = session
        self._options = options
        self._file = file

    def answer(self, text: str) -> None:
        """Prints the answer to `text`. Ctrl-C ends it; what there is of it stays in the history."""
        with _abort_on_interrupt() as abort:
            for piece in self.session.stream(text, abort=abort, **self._options):
                sys.stdout.write(piece)
                sys.stdout.flush()
        sys.stdout.write(" [stopped]\n" if abort.is_set() else "\n")
        sys.stdout.flush()
        if self._file:
            self.session.save(self._file)


@contextmanager
def _abort_on_interrupt() -> Iterator[threading.Event]:
    """Ctrl-C sets the event: an exception would cost the model all that it has evaluated."""
    abort = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield abort
        return
    previous = signal.signal(signal.SIGINT, lambda *_: abort.set())
    try:
        yield abort
    finally:
        signal.signal(signal.SIGINT, previous)
