"""What a format's calls look like to the parser: marks, and whether name and arguments stand in JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from chatwrap.chat.notation import ArgumentNotation, JsonNotation
from chatwrap.chat.slotted import Slot
from chatwrap.chat.syntax import FunctionsSyntax, ParallelCallsSyntax
from chatwrap.output.marks import Mark, is_distinct
from chatwrap.output.source import Alphabet

_NAME: Final = "\0name"
_ID: Final = "\0id"
_ARGUMENTS: Final = '{"\\u0000": 0}'
_FILLING: Final = {Slot.FUNCTION_NAME: _NAME, Slot.CALL_ID: _ID, Slot.CALL_INDEX: "7"}
_BRACKET: Final = re.compile(r"(?<=\S)(?=\[\Z)|(?<=\A\])(?=\S)")

NAME_KEYS: Final = ("name", "tool_name", "function_name")
ARGUMENTS_KEYS: Final = ("arguments", "parameters", "args", "params", "input")
ID_KEYS: Final = ("id", "tool_call_id", "call_id")


@dataclass(frozen=True, slots=True)
class Envelope:
    """The JSON object in which a format writes name and arguments: the keys that lead to them."""

    name_key: str
    arguments_key: str
    id_key: str | None

    def role(self, key: str) -> str:
        """What a member is: ``name``, ``arguments``, ``id`` or nothing of these, models' slips included."""
        if key == self.name_key or (key in NAME_KEYS and key != self.arguments_key):
            return "name"
        if key == self.arguments_key or key in ARGUMENTS_KEYS:
            return "arguments"
        return "id" if key == self.id_key or key in ID_KEYS else ""


ANY_ENVELOPE: Final = Envelope(NAME_KEYS[0], ARGUMENTS_KEYS[0], None)


@dataclass(frozen=True, slots=True)
class CallShape:
    """How a call is framed: ``lead``, then name and arguments in an `envelope` or in a row, then ``tail``.

    `alternates` are other leads. Without an envelope `heads` are what may stand between name and
    arguments, the format's own first; the slots in it are the call's id and number.
    """

    lead: Mark
    tail: Mark
    notation: ArgumentNotation
    alternates: tuple[Mark, ...] = ()
    envelope: Envelope | None = None
    heads: tuple[tuple[str | Slot, ...], ...] = ()

    @property
    def leads(self) -> tuple[Mark, ...]:
        return (self.lead, *self.alternates)

    @property
    def openers(self) -> Iterator[str]:
        """The words that open a call: the first of a lead, and any other that tells a call by itself."""
        for mark in self.leads:
            yield from mark.words[:1]
            yield from filter(is_distinct, mark.words[1:])

    @classmethod
    def of(cls, functions: FunctionsSyntax, alphabet: Alphabet) -> Self:
        call = functions.call
        prefix, head, suffix = map(alphabet.of_mark, (call.prefix, call.params_prefix, call.suffix))
        others = tuple(map(alphabet.of_mark, call.prefix_alternate_matches))
        framed = _in_envelope(prefix, head, suffix) if isinstance(call.arguments, JsonNotation) else None
        if framed:
            lead, envelope, tail = framed
            frames = (_in_envelope(other, head, suffix) for other in others)
            leads = tuple(_split(frame[0]) for frame in frames if frame and frame[0])
            return cls(_split(lead), _split(tail), call.arguments, leads, envelope)
        alternates = tuple(Mark.of(_filled(other)) for other in others)
        heads = (head, *map(alphabet.of_mark, call.params_prefix_alternate_matches))
        return cls(Mark.of(_filled(prefix)), Mark.of(_text(suffix)), call.arguments, alternates, None, heads)


@dataclass(frozen=True, slots=True)
class SectionShape:
    """The marks around calls made together; all empty for formats that write each call by itself."""

    lead: Mark
    between: Mark
    tail: Mark

    @classmethod
    def of(cls, parallel: ParallelCallsSyntax | None, alphabet: Alphabet) -> Self:
        given = parallel or ParallelCallsSyntax()
        texts = (given.section_prefix, given.between_calls, given.section_suffix)
        return cls(*(_split(Mark.of(_text(alphabet.of_mark(text)))) for text in texts))


def _split(mark: Mark) -> Mark:
    """The mark with the bracket of a JSON array as a word of its own."""
    words = [part for word in mark.words for part in _BRACKET.split(word)]
    return replace(mark, words=tuple(words))


def _text(parts: Sequence[str | Slot]) -> str:
    return "".join(part for part in parts if not isinstance(part, Slot))


def _filled(parts: Sequence[str | Slot]) -> str:
    """The text before the first slot: what stands behind it differs from call to call."""
    first = next((i for i, part in enumerate(parts) if isinstance(part, Slot)), len(parts))
    return _text(parts[:first])


@dataclass(slots=True)
class _Places:
    """The keys under which name, arguments and id were found in a JSON object."""

    keys: dict[str, str] = field(default_factory=dict)

    def search(self, value: Any, key: str = "") -> None:
        match value:
            case {"\0": 0}:
                self.keys["arguments"] = key
            case dict():
                for name, member in value.items():
                    self.search(member, name)
            case str() if _NAME in value:
                self.keys["name"] = key
            case str() if _ID in value:
                self.keys["id"] = key


def _in_envelope(
    prefix: Sequence[str | Slot], head: Sequence[str | Slot], suffix: Sequence[str | Slot]
) -> tuple[Mark, Envelope, Mark] | None:
    """What stands before the JSON object that holds name and arguments, its keys, and what stands behind."""
    before, between, behind = (_placed(parts) for parts in (prefix, head, suffix))
    whole = json.dumps(_NAME)[1:-1].join((before, between)) + _ARGUMENTS + behind
    for found in re.finditer(r"\{", before):
        try:
            value, end = json.JSONDecoder(strict=False).raw_decode(whole, found.start())
        except ValueError:
            continue
        places = _Places()
        places.search(value)
        if "name" in places.keys and "arguments" in places.keys:
            envelope = Envelope(places.keys["name"], places.keys["arguments"], places.keys.get("id"))
            return Mark.of(before[: found.start()]), envelope, Mark.of(whole[end:])
    return None


def _placed(parts: Sequence[str | Slot]) -> str:
    return "".join(
        json.dumps(_FILLING.get(part, ""))[1:-1] if isinstance(part, Slot) else part for part in parts
    )
