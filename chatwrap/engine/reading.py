"""Reads an answer's pieces as events: through a format's output parser, or as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, Self

from chatwrap.chat.events import ParserEvent, TextEvent
from chatwrap.chat.text import LlamaText, SpecialToken, SpecialTokensText
from chatwrap.output.pieces import Piece


class OutputReader(Protocol):
    """Makes events of an answer's text and special tokens, as they arrive."""

    def feed(self, chunk: Sequence[Piece]) -> list[ParserEvent]:
        """The events that are certain after one more chunk."""
        ...

    def flush(self, *, stopped_by: str = "") -> list[ParserEvent]:
        """The events that were held back, for when nothing follows but the stop `stopped_by`."""
        ...


class PlainReader:
    """Takes all text for the answer's; special tokens say nothing in it."""

    def feed(self, chunk: Sequence[Piece]) -> list[ParserEvent]:
        raw = "".join(map(str, chunk))
        shown = "".join(piece for piece in chunk if isinstance(piece, str))
        return [TextEvent(shown, raw)] if raw else []

    def flush(self, *, stopped_by: str = "") -> list[ParserEvent]:
        return []


class StartFilter:
    """Drops a text from the start of an answer, if the answer starts with it."""

    def __init__(self, ignored: str) -> None:
        self._ignored = ignored
        self._held = ""
        self.n_dropped = 0

    def feed(self, pieces: Iterable[Piece]) -> list[Piece]:
        released: list[Piece] = []
        for piece in pieces:
            if isinstance(piece, SpecialTokensText):
                released += [*self.flush(), piece]
            elif text := self._feed_text(piece):
                released.append(text)
        return released

    def _feed_text(self, text: str) -> str:
        if not self._ignored:
            return text
        self._held += text
        if self._ignored.startswith(self._held) and self._held != self._ignored:
            return ""
        released = self._held.removeprefix(self._ignored)
        self.n_dropped = len(self._held) - len(released)
        self._held = self._ignored = ""
        return released

    def flush(self) -> list[Piece]:
        """What is still held, for when no text follows."""
        held, self._held, self._ignored = self._held, "", ""
        return [held] if held else []


class RawText:
    """The pieces of an answer, to be cut off again by numbers of characters. Cost: linear in all."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._first = 0
        self._offset = 0

    @classmethod
    def of(cls, text: LlamaText) -> Self:
        """The pieces that a text without roles is made of."""
        raw = cls()
        raw.write(value for value in text.values if not isinstance(value, SpecialToken))
        return raw

    def write(self, pieces: Iterable[Piece]) -> None:
        self._pieces += pieces

    def cut(self, start: int, end: int) -> LlamaText:
        """What stands from character `start` up to `end`, counted from here."""
        self.take(start)
        return self.take(end - start)

    def take(self, n_characters: int) -> LlamaText:
        """The next `n_characters`, control text as such; fewer if there aren't so many."""
        taken: list[Piece] = []
        while n_characters > 0 and self._first < len(self._pieces):
            piece = self._pieces[self._first]
            text = str(piece)[self._offset : self._offset + n_characters]
            taken.append(text if isinstance(piece, str) else SpecialTokensText(text))
            n_characters -= len(text)
            self._offset += len(text)
            if self._offset == len(str(piece)):
                self._first, self._offset = self._first + 1, 0
        return LlamaText(*taken)
