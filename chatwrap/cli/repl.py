"""The conversation in the terminal: reads lines, answers them, obeys commands."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from chatwrap.chat.history import ChatModelResponse, ChatSystemMessage, as_history
from chatwrap.cli.spans import print_spans, spans_of
from chatwrap.errors import ChatwrapError

if TYPE_CHECKING:
    from chatwrap.cli.chat import Conversation

_PROMPT: Final = "> "


class Repl:
    """Answers lines until /exit, Ctrl-D or the end of the input. Works without a terminal as well."""

    def __init__(self, conversation: Conversation, *, n_ctx: int, title: str) -> None:
        self._talk = conversation
        self._session = conversation.session
        self._n_ctx = n_ctx
        self._title = title
        self._is_terminal = sys.stdin.isatty()
        self._commands: Mapping[str, tuple[Callable[[str], None], str]] = {
            "/help": (self._help, "this list"),
            "/exit": (self._exit, "leave (Ctrl-D does too)"),
            "/reset": (self._reset, "forget the conversation"),
            "/history": (self._history, "show the conversation"),
            "/prompt": (self._show_prompt, "show the prompt that the model would get now"),
            "/system": (self._system, "TEXT: set the system message; without a text, remove it"),
            "/save": (self._save, "FILE: save the conversation"),
            "/load": (self._load, "FILE: go on from a saved conversation"),
        }
        self._left = False

    def run(self) -> None:
        """Reads and answers until the end."""
        if self._is_terminal:
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401 - gives `input` line editing and history
            print(f"{self._title}, {self._n_ctx} tokens. /help lists commands, Ctrl-D leaves.")
        while not self._left and (line := self._read()) is not None:
            if line.strip():
                self._obey(line)

    def _read(self) -> str | None:
        """A line, None at the end of the input. Ctrl-C drops what was typed."""
        while True:
            try:
                return input(_PROMPT if self._is_terminal else "")
            except EOFError:
                if self._is_terminal:
                    print()
                return None
            except KeyboardInterrupt:
                print()

    def _obey(self, line: str) -> None:
        name, _, rest = line.strip().partition(" ")
        try:
            if name in self._commands:
                self._commands[name][0](rest.strip())
            elif name.startswith("/") and "/" not in name[1:]:
                print(f"No command {name}. /help lists all.")
            else:
                self._talk.answer(line)
        except ChatwrapError as error:
            sys.stdout.flush()
            print(f"chatwrap: {error}", file=sys.stderr)

    def _help(self, _rest: str) -> None:
        for command, (_, told) in self._commands.items():
            print(f"{command:9} {told}")
        print("Ctrl-C    stop the answer")

    def _exit(self, _rest: str) -> None:
        self._left = True

    def _reset(self, _rest: str) -> None:
        self._session.reset()

    def _history(self, _rest: str) -> None:
        for item in self._session.history:
            text = item.text if not isinstance(item, ChatSystemMessage) else str(item.text)
            print(f"{item.type}: {text}")

    def _show_prompt(self, _rest: str) -> None:
        history = self._session.history
        model = self._session.model
        if history and isinstance(history[-1], ChatModelResponse):
            history = (*history, *as_history([{"type": "user", "text": "..."}]))
        state = model.context_state(history)
        print_spans(spans_of(state.context_text, model.vocabulary))

    def _system(self, text: str) -> None:
        rest = tuple(item for item in self._session.history if not isinstance(item, ChatSystemMessage))
        first = as_history([{"type": "system", "text": text}]) if text else ()
        self._session.history = (*first, *rest)

    def _save(self, file: str) -> None:
        self._session.save(_named(file))

    def _load(self, file: str) -> None:
        self._session.load(_named(file))


def _named(file: str) -> Path:
    if not file:
        raise ChatwrapError("no file named. Write, for example: /save talk.json")
    return Path(file).expanduser()
