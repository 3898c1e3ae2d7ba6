"""Reads arguments that stand each between marks of its own, strings without quotes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from chatwrap.chat.notation import TaggedNotation
from chatwrap.chat.slotted import Slot
from chatwrap.output.call import Call
from chatwrap.output.literals import escaped
from chatwrap.output.marks import Finder, Mark, common_start, is_distinct
from chatwrap.output.source import Alphabet, Reading, Source
from chatwrap.output.typed import read_value, types_of
from chatwrap.output.values import ValueReader

_LONGEST_NAME: Final = 256


@dataclass(slots=True)
class TaggedReader:
    """Reads the tagged arguments of one call. A string is handed on as it comes, other values whole."""

    source: Source
    alphabet: Alphabet
    call: Call
    ends: Callable[[], Reading[bool]]
    notation: TaggedNotation
    tail: tuple[str, ...] = ()
    _names: set[str] = field(default_factory=set)

    def read(self, tail: tuple[str, ...]) -> Reading[bool]:
        self.tail = tail
        prefix = self.alphabet.of_mark(self.notation.prefix)
        opener = Mark.of(prefix[0]).words if not isinstance(prefix[0], Slot) else ()
        while True:
            char = yield from self.source.past_space()
            if not char:
                return False
            if (yield from self.source.starts(opener[0])):
                if not (yield from self._argument(prefix)):
                    return False
            elif (yield from self.ends()):
                break
            elif char == "{" and not self._names:
                self.call.repairs.append("they are JSON")
                return (yield from self._value_reader().read())
            else:
                self._skip()
        self.call.put("}" if self._names else "{}")
        return True

    def _skip(self) -> None:
        self.source.take(1)
        self.call.repairs.append("text stands between two of them")

    def _value_reader(self) -> ValueReader:
        return ValueReader(self.source, self.call.put, self.ends, self.call.repairs.append)

    def _argument(self, prefix: Sequence[str | Slot]) -> Reading[bool]:
        """One argument, marks and all."""
        filled = yield from self._opening(prefix)
        if filled is None:
            return False
        name = filled.get(Slot.PARAMETER_NAME, "").strip().strip("\"'")
        layout = Mark.of(prefix[-1]).after if not isinstance(prefix[-1], Slot) else ""
        gap = yield from self.source.window(len(layout))
        self.source.take(len(common_start(gap, layout)))
        self.call.put(f'{", " if self._names else "{"}"{escaped(name)}": ')
        types = self._types(name, filled.get(Slot.IS_STRING))
        self._names.add(name)
        return (yield from self._value(name, types))

    def _opening(self, prefix: Sequence[str | Slot]) -> Reading[dict[Slot, str] | None]:
        """Takes the mark before a value and gives what its slots hold; None if the output ends in it."""
        filled: dict[Slot, str] = {}
        for index, part in enumerate(prefix):
            if not isinstance(part, Slot):
                yield from self._words(Mark.of(part).words)
                continue
            following = prefix[index + 1] if index + 1 < len(prefix) else ">"
            assert not isinstance(following, Slot)
            finder = Finder([*Mark.of(following).words[:1], "\n"])
            text = yield from self._until(finder)
            if text is None:
                return None
            filled[part] = text
        return filled

    def _words(self, words: Sequence[str]) -> Reading[None]:
        for word in words:
            yield from self.source.space()
            if (yield from self.source.starts(word)):
                self.source.take(len(word))
            else:
                self.call.missing.append(self.alphabet.spell(word))

    def _until(self, finder: Finder) -> Reading[str | None]:
        text = ""
        while len(text) <= _LONGEST_NAME:
            n_before, word = finder.scan(self.source)
            text += self.source.take(n_before)
            if word:
                return text
            if self.source.ended:
                return None
            yield
        return text

    def _types(self, name: str, is_string: str | None) -> frozenset[str] | None:
        parameters = self.call.parameters or {}
        properties = parameters.get("properties")
        schema = properties.get(name) if isinstance(properties, dict) else None
        if is_string is not None and is_string.strip() in ("true", "false", "string"):
            told = types_of(schema, parameters) or frozenset(_OTHERS)
            return frozenset(["string"]) if is_string.strip() != "false" else told - {"string"}
        return types_of(schema, parameters)

    def _value(self, name: str, types: frozenset[str] | None) -> Reading[bool]:
        """The value up to its end mark, typed by what its schema allows."""
        suffix = self._suffix(name)
        streams = types == frozenset(["string"])
        held: list[str] = []
        write = (lambda text: self.call.put(escaped(text))) if streams else held.append
        if streams:
            self.call.put('"')
        is_complete = yield from self._text(suffix, write)
        if streams and is_complete:
            self.call.put('"')
        elif not streams:
            written, fits = read_value("".join(held), types)
            if not fits:
                self.call.repairs.append(f"{name!r} isn't {' or '.join(sorted(types or ()))}")
            if is_complete:
                self.call.put(written)
        return is_complete

    def _suffix(self, name: str) -> str:
        parts = self.alphabet.of_mark(self.notation.suffix)
        return "".join(name if isinstance(part, Slot) else part for part in parts)

    def _text(self, suffix: str, write: Callable[[str], None]) -> Reading[bool]:
        """Hands the text before `suffix` on, white space held back until it is known to belong to it."""
        body = suffix.strip()
        layout = suffix[: suffix.find(body)]
        finder = Finder([body, *self.tail[:1], *self._opener])
        space = ""
        while True:
            n_before, word = finder.scan(self.source)
            text = self.source.take(n_before)
            kept = text.rstrip()
            if kept:
                write(space + kept)
                space = ""
            space += text[len(kept) :]
            if word and (yield from self._ends_value(word, body)):
                write(space.removesuffix(layout) if space.endswith(layout) else space.rstrip(" \t\n"))
                return True
            if word:
                write(space + self.source.take(len(word)))
                space = ""
            elif self.source.ended:
                return False
            else:
                yield

    @property
    def _opener(self) -> tuple[str, ...]:
        first = self.alphabet.of_mark(self.notation.prefix)[0]
        return Mark.of(first).words[:1] if not isinstance(first, Slot) else ()

    def _ends_value(self, word: str, body: str) -> Reading[bool]:
        """Whether the value ends at `word`: its own end mark, or the call's, or another argument's mark."""
        if word == body:
            self.source.take(len(word))
            return True
        if word in self.tail[:1] and is_distinct(word):
            follows = yield from self._follows(
                re.escape(word) + "".join(rf"\s*{re.escape(w)}" for w in self.tail[1:2])
            )
        else:
            follows = word in self._opener and (yield from self._follows(self._next_argument()))
        if follows:
            self.call.missing.append(self.alphabet.spell(body))
        return follows

    def _next_argument(self) -> str:
        """A pattern of the mark before an argument of the schema that hasn't come yet."""
        properties = (self.call.parameters or {}).get("properties")
        names = (
            [name for name in properties if name not in self._names] if isinstance(properties, dict) else []
        )
        prefix = self.alphabet.of_mark(self.notation.prefix)
        texts = [re.escape(part.strip()) if not isinstance(part, Slot) else None for part in prefix]
        options = "|".join(map(re.escape, names)) or "(?!)"
        return "".join(rf"\s*{text}" if text is not None else f"(?:{options})" for text in texts[:3])

    def _follows(self, pattern: str) -> Reading[bool]:
        window = yield from self.source.window(2 * _LONGEST_NAME)
        return re.match(pattern, window) is not None


_OTHERS: Final = ("array", "boolean", "integer", "null", "number", "object", "string")
