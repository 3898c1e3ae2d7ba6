"""Reads the head of a call whose name and arguments stand in a row: the name, an id, a number."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
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
    """Reads a head, whatever of its marks is missing.

    If it is `doubtful` whether there is a call at all, it is one only with a name that is known or, where any
    may be called, with an object behind its head.
    """

    source: Source
    alphabet: Alphabet
    call: Call
    shape: CallShape
    doubtful: bool
    openers: Sequence[str]

    def read(self) -> Reading[bool]:
        """Takes the head of the call. False if there is no name, or the output ended in it."""
        heads = [_pieces(head) for head in self.shape.heads]
        words = [word for head in self.shape.heads for word in _ends_of_name(head)]
        name = yield from self._until(*words, *self.shape.tail.words[:1], *self.openers, *_ENDS_OF_NAMES)
        if name is None:
            return False
        self.call.set_name(name)
        is_named = _NAME.match(self.call.name) or (self.call.functions and self.call.is_known)
        if not is_named or (self.doubtful and not self.call.is_known):
            return False
        head = (yield from self._head(heads)) if len(heads) > 1 else heads[0]
        if not (yield from self._pieces_of(head)):
            return False
        return (
            not self.doubtful
            or self.call.functions is not None
            or (yield from self.source.past_space()) == "{"
        )

    def _head(self, heads: Sequence[Sequence[str | Slot]]) -> Reading[Sequence[str | Slot]]:
        """That of the heads which begins as the output does: the format's own if none does."""
        yield from self.source.space()
        firsts = {head[0]: head for head in reversed(heads) if head and not isinstance(head[0], Slot)}
        word = yield from self.source.which(list(firsts))
        return firsts.get(word, heads[0])

    def _pieces_of(self, head: Sequence[str | Slot]) -> Reading[bool]:
        pending = list(head)
        while pending:
            piece = pending.pop(0)
            if not isinstance(piece, Slot):
                yield from self._word(piece, is_last=not pending)
                continue
            text = yield from self._until(
                *(word for word in pending if not isinstance(word, Slot)), "\n", "{"
            )
            if text is None:
                return False
            if piece is Slot.CALL_ID:
                self.call.call_id = text.strip() or None
        return True

    def _word(self, word: str, *, is_last: bool) -> Reading[None]:
        """Takes a word; before the last one of a head with alternates, anything else may stand."""
        yield from self.source.space()
        if is_last and len(self.shape.heads) > 1 and not (yield from self.source.starts(word)):
            yield from self._until(word, "{")
        if (yield from self.source.starts(word)):
            self.source.take(len(word))
        elif is_last or len(self.shape.heads) == 1:
            self.call.missing.append(self.alphabet.spell(word))

    def _until(self, *words: str) -> Reading[str | None]:
        """The text before the first of `words`; None if there is none near, or the output ends before."""
        finder, text = Finder(words), ""
        while len(text) <= _LONGEST:
            n_before, word = finder.scan(self.source)
            text += self.source.take(min(n_before, _LONGEST + 1 - len(text)))
            if word and len(text) <= _LONGEST:
                return text
            if self.source.ended:
                return None
            yield
        return None


def _pieces(head: Sequence[str | Slot]) -> list[str | Slot]:
    """The words and slots between name and arguments."""
    pieces: list[str | Slot] = []
    for part in head:
        pieces += [part] if isinstance(part, Slot) else Mark.of(part).words
    return pieces


def _ends_of_name(head: Sequence[str | Slot]) -> Iterator[str]:
    """The words of a head that can end the name before them: a mere word does behind a space alone."""
    for part in head:
        mark = Mark.of("" if isinstance(part, Slot) else part)
        for index, word in enumerate(mark.words):
            if not word[0].isalnum():
                yield word
            elif index or mark.before:
                yield f" {word}"
