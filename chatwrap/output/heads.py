"""Reads the head of a call whose name and arguments stand in a row: the name, an id, a number."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from chatwrap.chat.slotted import Slot
from chatwrap.output.call import Call
from chatwrap.output.marks import Finder, Mark
from chatwrap.output.shapes import CallShape
from chatwrap.output.source import Alphabet, Reading, Source

_LONGEST: Final = 256
_NAME: Final = re.compile(r"[^\s<>{}()\[\]\"',;]+\Z")
_ENDS_OF_NAMES: Final = ("\n", "{", "<")


@dataclass(slots=True)
class HeadReader:
    """Reads a head, whatever of its marks is missing."""

    source: Source
    alphabet: Alphabet
    call: Call
    shape: CallShape

    def read(self) -> Reading[bool]:
        """Takes the head of the call. False if there is no name, or the output ended in it."""
        pending = list(self._parts())
        words = [part for part in pending if isinstance(part, str)]
        name = yield from self._until(*words, *self.shape.tail.words[:1], *_ENDS_OF_NAMES)
        if name is None:
            return False
        self.call.set_name(name)
        if not _NAME.match(self.call.name) and not (self.call.functions and self.call.is_known):
            return False
        while pending:
            part = pending.pop(0)
            if isinstance(part, str):
                yield from self._word(part)
                continue
            text = yield from self._until(*(word for word in pending if isinstance(word, str)), "\n", "{")
            if text is None:
                return False
            if part is Slot.CALL_ID:
                self.call.call_id = text.strip()
        return True

    def _parts(self) -> list[str | Slot]:
        """The words and slots between name and arguments."""
        parts: list[str | Slot] = []
        for part in self.shape.head:
            parts += [part] if isinstance(part, Slot) else Mark.of(part).words
        return parts

    def _word(self, word: str) -> Reading[None]:
        yield from self.source.space()
        if (yield from self.source.starts(word)):
            self.source.take(len(word))
        else:
            self.call.missing.append(self.alphabet.spell(word))

    def _until(self, *words: str) -> Reading[str | None]:
        """The text before the first of `words`; None if there is none near, or the output ends before."""
        finder, text = Finder(words), ""
        while len(text) <= _LONGEST:
            n_before, word = finder.scan(self.source)
            text += self.source.take(min(n_before, _LONGEST + 1 - len(text)))
            if word and n_before <= _LONGEST:
                return text
            if self.source.ended:
                return None
            yield
        return None
