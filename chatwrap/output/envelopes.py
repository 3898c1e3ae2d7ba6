"""Reads a call whose name and arguments are members of a JSON object."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from chatwrap.output.arguments import ArgumentsReader
from chatwrap.output.call import Call
from chatwrap.output.shapes import Envelope
from chatwrap.output.source import Reading, Source
from chatwrap.output.typed import read_json
from chatwrap.output.values import ValueReader

Outcome: TypeAlias = Literal["read", "cut", "no_call"]

_WRAPPERS: Final = ("function", "function_call", "tool_call", "call")


@dataclass(slots=True)
class EnvelopeReader:
    """Reads the object that holds a call, its members in any order.

    If it is `doubtful` whether the object is a call at all (nothing but its members tells), it is one only
    with a name that is known and with arguments; until both are there nothing is told of it.
    """

    source: Source
    call: Call
    envelope: Envelope
    arguments: ArgumentsReader
    ends: Callable[[], Reading[bool]]
    doubtful: bool
    _depth: int = 0
    _has_arguments: bool = False

    def read(self) -> Reading[Outcome]:
        """Reads from the opening brace to behind the closing one."""
        self._open()
        while self._depth:
            char = yield from self.source.past_space()
            if not char and not (self._has_arguments and self.call.name):
                return "cut"
            if not char:
                self.call.repairs.append("the object around them isn't closed")
                break
            if char == "}":
                self.source.take(1)
                self._depth -= 1
            elif char == ",":
                self.source.take(1)
            elif char not in "\"'" and (yield from self.ends()):
                self.call.repairs.append("the object around them isn't closed")
                break
            else:
                outcome = yield from self._member()
                if outcome != "read":
                    return outcome
        is_call = bool(self.call.name) and (
            not self.doubtful or self.call.is_started or self._is_surely_known
        )
        return "read" if is_call else "no_call"

    @property
    def _is_surely_known(self) -> bool:
        return self.call.functions is not None and self.call.is_known

    def _open(self) -> None:
        self.source.take(1)
        self._depth += 1

    def _reader(self, written: list[str]) -> ValueReader:
        return ValueReader(self.source, written.append, self.ends, self.call.repairs.append)

    def _member(self) -> Reading[Outcome]:
        reader = self._reader([])
        key = yield from reader.key()
        char = yield from self.source.past_space()
        if key is None or not char:
            return "cut"
        role = self.envelope.role(key)
        if role == "arguments" and not self._has_arguments:
            return (yield from self._arguments(char))
        if char == "{" and key in _WRAPPERS:
            self._open()
            return "read"
        written: list[str] = []
        if not (yield from self._reader(written).read(",}")):
            return "cut"
        return self._simple(role or ("name" if key in _WRAPPERS else ""), json.loads("".join(written)))

    def _simple(self, role: str, value: object) -> Outcome:
        """Notes the name or the id."""
        if role == "name" and isinstance(value, str) and not self.call.name:
            self.call.set_name(value)
            if self.doubtful and not self.call.is_known:
                return "no_call"
            if self.call.pieces:
                self.call.start()
        elif role == "id" and isinstance(value, str | int):
            self.call.call_id = str(value)
        return "read"

    def _arguments(self, char: str) -> Reading[Outcome]:
        self._has_arguments = True
        if char in "\"'":
            return (yield from self._spelled_arguments())
        yield from self.arguments.fence()
        is_complete = yield from self.arguments.value(followers=",}")
        return "read" if is_complete else "cut"

    def _spelled_arguments(self) -> Reading[Outcome]:
        """Arguments given as a string: if it holds a JSON object, that is meant."""
        written: list[str] = []
        if not (yield from self._reader(written).read(",}")):
            return "cut"
        spelled = "".join(written)
        text = json.loads(spelled)
        inner = read_json(text) if text.lstrip().startswith("{") else None
        if inner is not None:
            self.call.repairs.append("they are a string that holds JSON")
        self.call.put(inner or spelled)
        return "read"
