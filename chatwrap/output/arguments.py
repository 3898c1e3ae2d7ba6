"""Reads the arguments of a call in the notation of its format, as JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, assert_never

from chatwrap.chat.notation import (
    ArgumentNotation,
    BareKeyNotation,
    JsonNotation,
    KeywordNotation,
    TaggedNotation,
)
from chatwrap.chat.slotted import Slot
from chatwrap.output.call import Call
from chatwrap.output.source import Alphabet, Reading, Source
from chatwrap.output.tagged import TaggedReader
from chatwrap.output.values import Dialect, ValueReader

_FENCE: Final = "```"
_JSON: Final = Dialect()
_JSON_STARTS: Final = "{[\"'-0123456789tfn"


@dataclass(slots=True)
class ArgumentsReader:
    """Reads the arguments of `call`, up to where `ends` tells that the call ends.

    Each reading returns False if the output ended before the arguments were complete.
    """

    source: Source
    alphabet: Alphabet
    call: Call
    ends: Callable[[], Reading[bool]]

    def read(self, notation: ArgumentNotation, tail: tuple[str, ...]) -> Reading[bool]:
        """The arguments of a call whose head has been read; `tail` are the words that end it."""
        match notation:
            case JsonNotation():
                return (yield from self._json(may_be_absent=not tail))
            case KeywordNotation():
                return (yield from self._keywords())
            case BareKeyNotation():
                (quote,) = (
                    part for part in self.alphabet.of_mark(notation.quote) if not isinstance(part, Slot)
                )
                return (yield from self.value(Dialect(raw_quote=quote, null=notation.null)))
            case TaggedNotation():
                return (
                    yield from TaggedReader(self.source, self.alphabet, self.call, self.ends, notation).read(
                        tail
                    )
                )
            case _:
                assert_never(notation)

    def value(self, dialect: Dialect = _JSON, followers: str | None = None) -> Reading[bool]:
        """Arguments that are one value."""
        reader = ValueReader(self.source, self.call.put, self.ends, self.call.repairs.append, dialect)
        return (yield from reader.read(followers))

    def fence(self) -> Reading[None]:
        """Takes the beginning of a code fence, if there is one."""
        yield from self.source.space()
        if (yield from self.source.starts(_FENCE)):
            self.source.take(len(_FENCE))
            self.call.repairs.append("they stand in a code fence")
            if (yield from self.source.starts("json")):
                self.source.take(len("json"))

    def _json(self, *, may_be_absent: bool) -> Reading[bool]:
        yield from self.fence()
        char = yield from self.source.past_space()
        if not char:
            return may_be_absent
        if (yield from self.ends()):
            return True
        if char in _JSON_STARTS:
            return (yield from self.value())
        self.call.repairs.append("they are no JSON")
        return (yield from self._keywords())

    def _keywords(self) -> Reading[bool]:
        """``key=value`` after ``key=value``, whatever stands between them."""
        n_members = 0
        while True:
            char = yield from self.source.past_space()
            if not char:
                return False
            if (yield from self.ends()):
                break
            if char == ",":
                self.source.take(1)
                continue
            self.call.put(", " if n_members else "{")
            n_members += 1
            reader = ValueReader(
                self.source, self.call.put, self.ends, self.call.repairs.append, Dialect(python=True)
            )
            if not ((yield from reader.keyword()) and (yield from reader.read(",)"))):
                return False
        self.call.put("}" if n_members else "{}")
        return True
