"""Reads one value, in JSON or a notation near it, and writes it as JSON piece by piece."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from chatwrap.output.literals import escaped, is_json_literal, literal
from chatwrap.output.marks import TOKEN
from chatwrap.output.source import Reading, Source
from chatwrap.output.strings import StringReader

_WORD: Final = re.compile(rf"(?:(?!{TOKEN})[^\s,:=(){{}}\[\]\"'`<])+")
_CLOSERS: Final = {"{": "}", "[": "]", "(": ")"}
_DEEPEST: Final = 100
_BRACKETS: Final = '{}[]()"'
_NO_BRACKET: Final = re.compile(rf"(?:(?!{TOKEN})[^{{}}\[\]()\"<|])+")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a notation differs from JSON.

    With `python`, escapes, tuples and True, False and None are Python's own. `raw_quote` is the mark around
    strings that have no escapes. `null` is another word for null.
    """

    python: bool = False
    raw_quote: str = ""
    null: str = "null"


@dataclass(slots=True)
class _Frame:
    """An open object or array: what closes it, its members so far, and whether a comma came last."""

    opener: str
    n_members: int = 0
    has_comma: bool = False

    @property
    def closer(self) -> str:
        return _CLOSERS[self.opener]


@dataclass(slots=True)
class ValueReader:
    """Reads values, whatever is wrong with them, up to where they end.

    `write` gets JSON, only what can't change any more. `ends` tells whether the call ends where the source
    stands: a value that isn't closed there is closed. `repaired` is told what isn't in the notation.
    Law: what is written for a value is valid JSON, unless the output ended in the middle of it; for valid
    JSON, it is the JSON of the same value, U+FFFD for half a surrogate pair. Cost: linear; nesting beyond
    100 levels reads as null.
    """

    source: Source
    write: Callable[[str], None]
    ends: Callable[[], Reading[bool]]
    repaired: Callable[[str], None]
    dialect: Dialect = Dialect()
    _frames: list[_Frame] = None  # type: ignore[assignment]
    _is_cut: bool = False

    def __post_init__(self) -> None:
        self._frames = []

    def read(self, followers: str | None = None) -> Reading[bool]:
        """Reads one value. False if the output ended before it was complete.

        `followers` are the characters that can stand behind the value if it is a string; None allows all.
        """
        self._is_cut = False
        yield from self._begin(followers)
        while self._frames and not self._is_cut:
            yield from self._go_on()
        return not self._is_cut

    def key(self) -> Reading[str | None]:
        """Reads the key of a member, and writes nothing; None if the output ended in it."""
        written: list[str] = []
        reader = ValueReader(self.source, written.append, self.ends, self.repaired, self.dialect)
        yield from reader._key()
        return None if reader._is_cut else str(json.loads("".join(written).removesuffix(": ")))

    def keyword(self) -> Reading[bool]:
        """Reads ``name=`` and writes it as a key. False if the output ended in it."""
        self._is_cut = False
        yield from self._key()
        return not self._is_cut

    def _go_on(self) -> Reading[None]:
        """A member of the innermost container, a comma, or its end."""
        frame = self._frames[-1]
        char = yield from self.source.past_space()
        if not char:
            self._is_cut = True
        elif char == frame.closer:
            self._close()
        elif char == ",":
            self._comma(frame)
        elif char not in "\"'{[" and (yield from self.ends()):
            self._close_all()
        elif char in "}])":
            self._close_other(char)
        else:
            yield from self._member(frame)

    def _member(self, frame: _Frame) -> Reading[None]:
        if frame.n_members:
            self.write(", ")
            if not frame.has_comma:
                self.repaired("a comma is missing")
        frame.n_members, frame.has_comma = frame.n_members + 1, False
        if frame.opener == "{":
            yield from self._key()
        if not self._is_cut:
            yield from self._begin(self._followers)

    @property
    def _followers(self) -> str:
        return ",}])" if self.dialect.python else ",}]"

    def _comma(self, frame: _Frame) -> None:
        self.source.take(1)
        if frame.has_comma or not frame.n_members:
            self.repaired("a comma stands before no value")
        frame.has_comma = True

    def _close(self) -> None:
        self.source.take(1)
        self._end_frame()

    def _end_frame(self) -> None:
        frame = self._frames[-1]
        is_tuple = frame.opener == "(" and self.dialect.python
        if frame.has_comma and not is_tuple:
            self.repaired("a comma stands before no value")
        self.write("}" if frame.opener == "{" else "]")
        self._frames.pop()

    def _close_other(self, closer: str) -> None:
        """Another container's end: closes up to that container, or is left out if none is open."""
        self.repaired(f"{closer!r} closes nothing that is open")
        if any(frame.closer == closer for frame in self._frames):
            while self._frames[-1].closer != closer:
                self._end_frame()
            self._close()
        else:
            self.source.take(1)

    def _close_all(self) -> None:
        self.repaired("the value isn't closed")
        while self._frames:
            self._end_frame()

    def _begin(self, followers: str | None) -> Reading[None]:
        """Reads a scalar, or the beginning of a container."""
        char = yield from self.source.past_space()
        if not char:
            self._is_cut = True
        elif char in "{[" or (char == "(" and self.dialect.python):
            yield from self._open(char)
        elif quote := (yield from self._quote(char)):
            yield from self._string(quote, followers)
        elif char in ",}])" or (yield from self.ends()):
            self.repaired("a value is missing")
            self.write("null")
        else:
            yield from self._bare()

    def _open(self, char: str) -> Reading[None]:
        self.source.take(1)
        if len(self._frames) == _DEEPEST:
            self.repaired(f"they are nested deeper than {_DEEPEST} levels")
            self.write("null")
            yield from self._skip()
            return
        self.write("{" if char == "{" else "[")
        self._frames.append(_Frame(char))

    def _skip(self) -> Reading[None]:
        """Takes the rest of a container that is nested too deep, and writes nothing."""
        depth = 1
        while depth:
            found = _NO_BRACKET.match(self.source.ahead, self.source.at)
            if found:
                self.source.take(len(found[0]))
            char = yield from self.source.peek()
            if not char or (char not in _BRACKETS and (yield from self.ends())):
                self._is_cut = not char
                return
            if char == '"':
                reader = StringReader(self.source, _ignore, self.ends, _ignore)
                yield from reader.read(char, self._followers, python=self.dialect.python)
            else:
                depth += (char in "{[(") - (char in "}])")
                self.source.take(1)

    def _quote(self, char: str) -> Reading[str]:
        """The quote that opens a string here."""
        raw = self.dialect.raw_quote
        if raw and (yield from self.source.starts(raw)):
            return raw
        return char if char in "\"'`" else ""

    def _string(self, quote: str, followers: str | None) -> Reading[None]:
        if quote != '"' and quote != self.dialect.raw_quote and not (quote == "'" and self.dialect.python):
            self.repaired(f"a string stands between {quote} marks")
        reader = StringReader(self.source, self.write, self.ends, self.repaired)
        if quote == self.dialect.raw_quote:
            self._is_cut = not (yield from reader.read_raw(quote))
        else:
            self._is_cut = not (yield from reader.read(quote, followers, python=self.dialect.python))

    def _key(self) -> Reading[None]:
        char = yield from self.source.past_space()
        if quote := (yield from self._quote(char)):
            yield from self._string(quote, ":")
        else:
            yield from self._bare_key()
        if self._is_cut:
            return
        self.write(": ")
        char = yield from self.source.past_space()
        if char == ":" or (char == "=" and self.dialect.python):
            self.source.take(1)
        elif char:
            self.repaired("a colon is missing")
            if char == "=":
                self.source.take(1)

    def _bare_key(self) -> Reading[None]:
        text = yield from self._until(":" if self.dialect.raw_quote else ":=,{}[]\n")
        if not text.strip():
            self.source.take(1)
        if not self.dialect.raw_quote and not self.dialect.python:
            self.repaired(f"the key {text.strip()!r} has no quotes")
        self.write(f'"{escaped(text.strip())}"')

    def _bare(self) -> Reading[None]:
        """A number or a word; any other text up to the end of the value is a string without quotes."""
        word = ""
        while True:
            found = _WORD.match(self.source.ahead, self.source.at)
            if found:
                word += self.source.take(len(found[0]))
            if not (yield from self.source.peek()) or not found:
                break
        if not (yield from self.source.peek()):
            self._is_cut = True
        value = "null" if word == self.dialect.null else literal(word)
        if value is None:
            text = word + (yield from self._until(",}])\n" if self._frames else ",}\n"))
            self.repaired(f"the string {text.strip()!r} has no quotes")
            value = f'"{escaped(text.strip())}"'
        elif not self.dialect.python and not is_json_literal(word) and word != self.dialect.null:
            self.repaired(f"{word} is no JSON")
        self.write(value)

    def _until(self, stops: str) -> Reading[str]:
        """The text up to one of the characters `stops`, or to the end of the call."""
        text = ""
        stop = re.compile(f"[{re.escape(stops)}<|]|{TOKEN}")
        while True:
            found = stop.search(self.source.ahead, self.source.at)
            end = found.start() if found else len(self.source.ahead)
            text += self.source.take(end - self.source.at)
            char = yield from self.source.peek()
            if not char or char in stops or (found and (yield from self.ends())):
                self._is_cut = not char
                return text
            if found:
                text += self.source.take(1)


def _ignore(_: str) -> None:
    pass
