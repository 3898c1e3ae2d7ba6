"""The conversation in the terminal: reads lines, answers them, obeys commands."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from chatwrap.chat.history import ChatModelResponse, ChatUserMessage
from chatwrap.cli.spans import print_spans, spans_of
from chatwrap.cli.streams import on_terminal, visible
from chatwrap.errors import ChatwrapError, FileError

if TYPE_CHECKING:
    from chatwrap.cli.chat import Conversation

_PROMPT: Final = "> "


class Repl:
    """Answers lines until /exit, Ctrl-D or the end of the input. Works without a terminal as well."""

    def __init__(self, conversation: Conversation) -> None:
        self._talk = conversation
        self._session = conversation.session
        self._is_terminal = sys.stdin.isatty() and on_terminal()
        self._commands: Mapping[str, tuple[Callable[[str], None], str]] = {
            "/help": (self._help, "this list"),
            "/exit": (self._exit, "leave (Ctrl-D does too)"),
            "/reset": (self._reset, "forget the conversation"),
            "/history": (self._history, "show the conversation"),
            "/prompt": (self._show_prompt, "show the prompt that the model would get now"),
            "/system": (self._system, "TEXT: set the system message; without a text, remove it"),
            "/format": (self._format, "NAME or FILE: go on in another chat format"),
            "/save": (self._save, "FILE: save the conversation"),
            "/load": (self._load, "FILE: go on from a saved conversation"),
        }
        self._left = False

    def run(self) -> None:
        """Reads and answers until the end. In a terminal, Ctrl-C drops what was typed and goes on."""
        if not self._is_terminal:
            self._read_and_obey_all()
            return
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - gives `input` line editing and history
        signal.signal(signal.SIGINT, signal.default_int_handler)
        model = self._session.model
        title = f"{model.name}, format {model.chat_wrapper.wrapper_name}, {model.n_ctx} tokens"
        print(f"{visible(title)}. /help lists commands, Ctrl-D leaves.")
        self._read_and_obey_all()

    def _read_and_obey_all(self) -> None:
        while not self._left:
            try:
                self._obey(input(_PROMPT if self._is_terminal else ""))
            except EOFError:
                self._left = True
                self._end_line()
            except KeyboardInterrupt:
                self._end_line()

    def _end_line(self) -> None:
        if self._is_terminal:
            print()

    def _obey(self, line: str) -> None:
        name, _, rest = line.strip().partition(" ")
        try:
            if name in self._commands:
                self._commands[name][0](rest.strip())
            elif name.startswith("/") and "/" not in name[1:]:
                raise ChatwrapError(f"No command {name}. /help lists all.")
            elif name:
                self._answer(line)
        except ChatwrapError as error:
            sys.stdout.flush()
            print(f"chatwrap: {error}", file=sys.stderr, flush=True)

    def _answer(self, line: str) -> None:
        if not self._talk.answer(line):
            print("[stopped]")

    def _help(self, _rest: str) -> None:
        for command, (_, told) in self._commands.items():
            print(f"{command:9} {told}")
        print("Ctrl-C    stop the answer")

    def _exit(self, _rest: str) -> None:
        self._left = True

    def _reset(self, _rest: str) -> None:
        self._session.reset()

    def _history(self, _rest: str) -> None:
        shown = visible if self._is_terminal else str
        for item in self._session.history:
            print(f"{item.type}: {shown(str(item.text))}")

    def _show_prompt(self, _rest: str) -> None:
        history = self._session.history
        model = self._session.model
        if history and isinstance(history[-1], ChatModelResponse):
            history = (*history, ChatUserMessage(text="..."))
        state = model.context_state(history)
        print_spans(spans_of(state.context_text, model.vocabulary))

    def _system(self, text: str) -> None:
        self._talk.set_system_message(text)

    def _format(self, name_or_file: str) -> None:
        if not name_or_file:
            raise ChatwrapError("no format named. Write, for example: /format chatml")
        self._talk.set_format(name_or_file)

    def _save(self, file: str) -> None:
        self._session.save(_named(file))

    def _load(self, file: str) -> None:
        self._session.load(_named(file))


def _named(file: str) -> Path:
    if not file:
        raise ChatwrapError("no file named. Write, for example: /save talk.json")
    try:
        return Path(file).expanduser()
    except RuntimeError as error:
        raise FileError(f"{file}: {error}") from None
