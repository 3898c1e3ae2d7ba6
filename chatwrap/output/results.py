"""Finds results of calls that a model has made up: only whoever runs the functions can give them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Self

from chatwrap.chat.slotted import Slot
from chatwrap.chat.syntax import FunctionsSyntax, ParallelCallsSyntax
from chatwrap.output.marks import Finder, Mark
from chatwrap.output.source import Alphabet, Reading, Source


@dataclass(frozen=True, slots=True)
class ResultShape:
    """The marks of a result, and those of a section of results.

    `lead` is the mark before it up to the first slot, `lead_end` the last word of it if it has slots, and
    `tail` what stands behind the last slot of the mark after it. `ending` is what ends the result.
    """

    lead: Mark
    lead_end: str
    tail: Mark
    ending: str
    section_lead: Mark
    between: Mark
    section_tail: Mark

    @classmethod
    def of(cls, functions: FunctionsSyntax, alphabet: Alphabet) -> Self:
        parallel = functions.parallelism or ParallelCallsSyntax()
        prefix, suffix = (
            alphabet.of_mark(text) for text in (functions.result.prefix, functions.result.suffix)
        )
        tail = _behind_slots(suffix)
        lead_end = Mark.of(_behind_slots(prefix)).words[-1:] if len(prefix) > 1 else ()
        texts = (parallel.result_section_prefix, parallel.between_results, parallel.result_section_suffix)
        return cls(
            Mark.of(_before_slots(prefix)),
            "".join(lead_end),
            Mark.of(tail),
            tail.strip().split(maxsplit=1)[0] if tail.strip() else tail,
            *(Mark.of(_before_slots(alphabet.of_mark(text))) for text in texts),
        )

    @property
    def leads(self) -> Iterator[tuple[str, ...]]:
        """The words that results may begin with."""
        if self.lead:
            yield self.lead.words
        if self.section_lead:
            yield (*self.section_lead.words, *self.lead.words)


def _before_slots(parts: Sequence[str | Slot]) -> str:
    return "".join(takewhile(lambda part: not isinstance(part, Slot), parts))


def _behind_slots(parts: Sequence[str | Slot]) -> str:
    return "".join([*takewhile(lambda part: not isinstance(part, Slot), reversed(parts))][::-1])


@dataclass(frozen=True, slots=True)
class ResultsReader:
    """Takes results that stand in an answer. Cost: linear.

    `others` are marks that may begin as results do, and are none.
    """

    source: Source
    shape: ResultShape
    others: tuple[Mark, ...]

    def take(self) -> Reading[bool]:
        """Takes the results that stand here, with the marks around them; False if there are none."""
        words = yield from self._lead()
        if not words:
            return False
        while words:
            yield from self._take_words(words)
            if self.shape.lead_end:
                yield from self._take_up_to(self.shape.lead_end)
                yield from self._take_words((self.shape.lead_end,))
            yield from self._take_up_to(self.shape.ending)
            yield from self._take_words(self.shape.tail.words)
            yield from self._take_words(self.shape.between.words)
            words = yield from self._lead()
        yield from self._take_words(self.shape.section_tail.words)
        return True

    def _lead(self) -> Reading[tuple[str, ...]]:
        """The words of the mark that opens a result here, () if none does."""
        for words in self.shape.leads:
            yield from self.source.space()
            if not (yield from self.source.starts(words[0])):
                continue
            marks = [words, *(mark.words for mark in self.others if mark)]
            window = yield from self.source.window(max(sum(map(len, mark)) + 2 * len(mark) for mark in marks))
            is_here, *is_other = (re.match(r"\s*".join(map(re.escape, mark)), window) for mark in marks)
            if is_here and not any(is_other):
                return words
        return ()

    def _take_words(self, words: tuple[str, ...]) -> Reading[None]:
        for word in words:
            yield from self.source.space()
            if (yield from self.source.starts(word)):
                self.source.take(len(word))

    def _take_up_to(self, ending: str) -> Reading[None]:
        """Takes what stands before `ending`."""
        finder = Finder([ending] if ending else [])
        while True:
            n_before, found = finder.scan(self.source)
            self.source.take(n_before)
            if (found and found == ending) or self.source.ended:
                return
            if found:
                self.source.take(len(found))
            else:
                yield
