"""``chatwrap chat``: one answer with ``-p``, else a conversation in the terminal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from chatwrap.chat.history import ChatHistory, ChatSystemMessage
from chatwrap.chat.json_text import parse_json
from chatwrap.chat.text import LlamaText
from chatwrap.cli.options import ChatFormat, ContextSize, GpuLayers, ModelArgument, Threads
from chatwrap.cli.repl import Repl
from chatwrap.cli.streams import argument_text, on_terminal, visible
from chatwrap.errors import AnswerError, FileError, OptionError
from chatwrap.files import read_text
from chatwrap.models import default_model

if TYPE_CHECKING:
    from chatwrap.engine.model import Model
    from chatwrap.engine.response_format import ResponseFormat
    from chatwrap.engine.sampling import SamplingOptions
    from chatwrap.engine.session import ChatSession

INTERRUPTED: Final = 130
"""Exit code for an answer that Ctrl-C ended, as shells count it."""

_HISTORY_HELP: Final = "Go on from the conversation in this file, and save it there after each answer."


def chat(
    model: ModelArgument = None,
    *,
    prompt: Annotated[str | None, typer.Option("--prompt", "-p", help="Answer this and exit.")] = None,
    prompt_file: Annotated[Path | None, typer.Option(help="Answer this file's text and exit.")] = None,
    system: Annotated[
        str | None, typer.Option("--system", "-s", help="System message; none by default.")
    ] = None,
    chat_format: ChatFormat = "auto",
    history: Annotated[Path | None, typer.Option(help=_HISTORY_HELP)] = None,
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token.")] = 0.2,
    top_k: Annotated[int, typer.Option(help="Below 1: no limit.")] = 40,
    top_p: Annotated[float, typer.Option(help="Likeliest tokens up to this probability.")] = 0.95,
    min_p: Annotated[float, typer.Option(help="Tokens at least this likely, beside the likeliest.")] = 0.05,
    repeat_penalty: Annotated[float, typer.Option(help="Above 1: repeat less.")] = 1.0,
    seed: Annotated[int | None, typer.Option(help="For the same answer again; random by default.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="The longest answer.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="End answers here too; may be repeated.")] = None,
    json_schema: Annotated[
        Path | None, typer.Option(help="Answer with JSON that is valid by this schema.")
    ] = None,
    n_ctx: ContextSize = None,
    n_gpu_layers: GpuLayers = 0,
    threads: Threads = None,
) -> None:
    """Talk to a model. Without -p, type messages; /help lists commands, Ctrl-C stops an answer."""
    from chatwrap.engine.build import require_llama_cpp

    require_llama_cpp()
    from chatwrap.engine.model import load_model
    from chatwrap.engine.sampling import SamplingOptions

    question = _question(prompt, prompt_file)
    _check_folder(history)
    form = _response_format(json_schema)
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
    with load_model(
        default_model().name if model is None else model,
        n_ctx=n_ctx,
        n_gpu_layers=n_gpu_layers,
        n_threads=threads,
        n_threads_batch=threads,
        chat_wrapper=chat_format,
        seed=seed,
    ) as loaded:
        talk = Conversation(_session(loaded, system, history), options, history, form)
        if question is None:
            Repl(talk).run()
        elif not talk.answer(question):
            raise typer.Exit(INTERRUPTED)


def _question(prompt: str | None, prompt_file: Path | None) -> str | None:
    if prompt is not None and prompt_file is not None:
        raise OptionError.of("prompt_file", "given together with --prompt.", "Give one of them.")
    if prompt_file is not None:
        return read_text(prompt_file)
    return None if prompt is None else argument_text(prompt)


def _response_format(file: Path | None) -> ResponseFormat | None:
    """What a schema file asks for; a schema that can't be enforced is refused before a model is loaded."""
    if file is None:
        return None
    from chatwrap.engine.response_format import ResponseFormat

    return ResponseFormat.of(parse_json(read_text(file), where=str(file)))


def _check_folder(history: Path | None) -> None:
    """Refuses a history that can't be saved, before time goes into a model and an answer."""
    if history is not None and not history.parent.is_dir():
        raise FileError(f"{history}: there is no folder {history.parent} to save it in. Make it first.")


def _session(model: Model, system: str | None, file: Path | None) -> ChatSession:
    """A new conversation, or the one in `file`; a system message that is given takes the place of its."""
    from chatwrap.engine.session import ChatSession

    text = "" if system is None else argument_text(system)
    session = ChatSession(model, system_prompt=text)
    if file is not None and file.exists():
        session.load(file)
        if system is not None:
            session.history = _with_system_message(session.history, text)
    return session


def _with_system_message(history: ChatHistory, text: str) -> ChatHistory:
    """`history` with this one system message, or with none if the text is empty."""
    rest = tuple(item for item in history if not isinstance(item, ChatSystemMessage))
    return (ChatSystemMessage(text=LlamaText(text)), *rest) if text else rest


class Conversation:
    """A session whose answers are printed as they come, and saved after each."""

    def __init__(
        self,
        session: ChatSession,
        options: SamplingOptions,
        file: Path | None,
        response_format: ResponseFormat | None = None,
    ) -> None:
        self.session = session
        self._options = options
        self._file = file
        self._format = response_format

    def set_system_message(self, text: str) -> None:
        """Puts this system message in the place of those in the history; an empty one: none."""
        self.session.history = _with_system_message(self.session.history, text)

    def set_format(self, name_or_file: str) -> None:
        """Goes on in another chat format, with all that was said."""
        from chatwrap.engine.formats import resolved_wrapper

        model = self.session.model
        model.chat_wrapper = resolved_wrapper(name_or_file, model.vocabulary)

    def answer(self, text: str) -> bool:
        """Prints the answer to `text` and a line break; False if Ctrl-C ended it.

        What there is of an ended answer stays in the history, but not if it was to be JSON.
        """
        shown = visible if on_terminal() else str
        with _abort_on_interrupt() as abort:
            stream = self.session.stream(
                text, abort=abort, options=self._options, response_format=self._format
            )
            try:
                with closing(stream) as pieces:
                    for piece in pieces:
                        print(shown(piece), end="", flush=True)
            except AnswerError:
                if not abort.is_set():
                    raise
            finally:
                print(flush=True)
        if self._file:
            self.session.save(self._file)
        return not abort.is_set()


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
