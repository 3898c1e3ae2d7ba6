"""Reads function calls, one after another, alone or in a section."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from chatwrap.chat.functions import ChatModelFunctions
from chatwrap.chat.history import SegmentType
from chatwrap.output.arguments import ArgumentsReader
from chatwrap.output.call import Call
from chatwrap.output.envelopes import EnvelopeReader, Outcome
from chatwrap.output.heads import HeadReader
from chatwrap.output.marks import Finder, distinct
from chatwrap.output.shapes import CallShape, SectionShape
from chatwrap.output.source import Alphabet, Reading, Source
from chatwrap.output.writer import EventWriter

_LONGEST_GARBAGE: Final = 2000
_LITTER: Final = ("```", "}", "]", ")", '"')


@dataclass(slots=True)
class CallsReader:
    """Reads calls as `shape` and `section` frame them, and tells them to `writer`.

    White space between calls, and between a call and a text, belongs to neither. `shared` are words that
    open other parts of the answer, too.
    """

    source: Source
    writer: EventWriter
    alphabet: Alphabet
    shape: CallShape
    section: SectionShape
    functions: ChatModelFunctions | None
    shared: frozenset[str] = frozenset()
    n_calls: int = 0
    _in_section: bool = False

    @property
    def openers(self) -> list[str]:
        """The words that open calls or a section of them."""
        doubtful = [] if self.section.lead or self.shape.lead or not self.shape.envelope else ["{"]
        return [*self.section.lead.words[:1], *self.shape.openers, *doubtful]

    @property
    def closers(self) -> list[str]:
        """The words that can mean nothing but the end of a call or of a section."""
        return distinct((*self.shape.tail.words, *self.section.tail.words))

    def read(self, word: str, segment: SegmentType | None, *, is_taken: bool = False) -> Reading[bool]:
        """Reads the calls from `word`, which stands here, on. False if that opened no call.

        Then what was taken is told as text of the `segment`. If the whole lead `is_taken`, `word` is "".
        """
        self._in_section = word in self.section.lead.words[:1]
        if self._in_section:
            yield from self._take(self.section.lead.words, None)
            word = yield from self._next_opener()
        if not (yield from self._call(word, segment, is_taken=is_taken)):
            return False
        while True:
            following = yield from self._next()
            if following is None or not (yield from self._call(following, segment)):
                return True

    def _next_opener(self) -> Reading[str]:
        yield from self.source.space()
        return (yield from self.source.which(list(self.shape.openers)))

    def _next(self) -> Reading[str | None]:
        """The word that opens the next call, "" if it begins without one; None if no call follows."""
        between = self.section.between.words if self.section.between else (",", ";")
        while True:
            char = yield from self.source.past_space()
            tail = self.section.tail.words if self._in_section else ()
            word = yield from self.source.which([*self.openers, *between, *tail, *self.closers])
            if not char:
                self._end_section(is_end=True)
                return None
            if word in self.section.lead.words[:1] and word:
                yield from self._take(self.section.lead.words, None)
                self._in_section = True
            elif word in self.openers and word not in self.shared:
                return "" if word == "{" else word
            elif word in tail:
                yield from self._close_section()
            elif word in self.closers:
                self.source.take(len(word))
                self._stray(word)
            elif word and (self._in_section or self.section.between):
                self.source.take(len(word))
            elif self._in_section and (not self.shape.lead or char == "{"):
                return ""
            else:
                self._end_section(is_end=False)
                return None

    def _stray(self, word: str) -> None:
        spelled = self.alphabet.spell(word)
        self.writer.diagnose("stray_mark", f"{spelled!r} closes nothing that is open.", takes_raw=True)

    def _close_section(self) -> Reading[None]:
        self._in_section = False
        call = Call(self.writer, 0, None)
        yield from self._take(self.section.tail.words, call)
        is_end = not (yield from self.source.peek())
        last = [self.alphabet.spell(word) for word in self.section.tail.words[-1:]] if is_end else []
        self._tell_missing([word for word in call.missing if word not in last])

    def _end_section(self, *, is_end: bool) -> None:
        """A section's end that isn't there. What would end the turn, too, needn't be there at the end."""
        words = (
            [word for word in self.section.tail.words if not self._is_stop(word)] if self._in_section else []
        )
        self._in_section = False
        self._tell_missing([self.alphabet.spell(word) for word in (words[:-1] if is_end else words)])

    def _tell_missing(self, words: Iterable[str]) -> None:
        for word in words:
            self.writer.diagnose("missing_mark", f"{word!r} is missing behind the calls.")

    def _is_stop(self, word: str) -> bool:
        spelled, stop = self.alphabet.spell(word), self.source.stopped_by.strip()
        return bool(stop) and (stop.startswith(spelled) or spelled.startswith(stop))

    def _call(self, word: str, segment: SegmentType | None, *, is_taken: bool = False) -> Reading[bool]:
        """Reads one call; False if there is none here."""
        call = Call(self.writer, self.n_calls, self.functions)
        doubtful = not (word or is_taken or self._in_section)
        if not is_taken:
            yield from self._take(self._lead_from(word), call)
        outcome = yield from self._body(call, doubtful=doubtful)
        if outcome == "no_call" or (outcome == "cut" and not call.name and doubtful):
            yield from self._give_up(word, segment)
            return False
        if outcome == "cut":
            call.cut()
            return True
        yield from self._take_tail(call)
        call.end()
        self.n_calls += 1
        return True

    def _lead_from(self, word: str) -> tuple[str, ...]:
        """The words of the lead from `word` on."""
        for mark in self.shape.leads:
            if word in mark.words:
                return mark.words[mark.words.index(word) :]
        return self.shape.lead.words if not word and self._in_section else ()

    def _body(self, call: Call, *, doubtful: bool) -> Reading[Outcome]:
        """Name and arguments."""
        arguments = ArgumentsReader(self.source, self.alphabet, call, self._ends)
        if self.shape.envelope is None:
            if not (yield from HeadReader(self.source, self.alphabet, call, self.shape, doubtful).read()):
                return "cut" if self.source.ended and self.source.at == len(self.source.ahead) else "no_call"
            is_complete = yield from arguments.read(self.shape.notation, self.shape.tail.words)
            return "read" if is_complete else "cut"
        yield from arguments.fence()
        if (yield from self.source.starts("[")) and not doubtful:
            self.source.take(1)
        char = yield from self.source.past_space()
        if char != "{":
            return "no_call" if char else "cut"
        reader = EnvelopeReader(self.source, call, self.shape.envelope, arguments, self._ends, doubtful)
        return (yield from reader.read())

    def _ends(self) -> Reading[bool]:
        """Whether a call ends here: its end mark, the section's, or the mark of the next call."""
        words = (*self.shape.tail.words, *self.section.tail.words, *distinct(self.openers))
        return bool((yield from self.source.which(words)))

    def _take(self, words: Iterable[str], call: Call | None) -> Reading[None]:
        """Takes words, white space between them; those that aren't there are noted in `call`."""
        for word in words:
            yield from self.source.space()
            if (yield from self.source.starts(word)):
                self.source.take(len(word))
            elif call and not (self.source.at == len(self.source.ahead) and self._is_stop(word)):
                call.missing.append(self.alphabet.spell(word))

    def _take_tail(self, call: Call) -> Reading[None]:
        """Takes the end of a call, and what a model may have put before it by mistake."""
        ending = (*self.shape.tail.words, *self.section.tail.words, *self.section.between.words)
        while True:
            yield from self.source.space()
            if (yield from self.source.which(ending)):
                break
            litter = yield from self.source.which(_LITTER)
            if not litter:
                break
            self.source.take(len(litter))
            if litter != "```":
                call.repairs.append(f"{litter!r} stands behind them")
        yield from self._take(self.shape.tail.words, call)

    def _give_up(self, word: str, segment: SegmentType | None) -> Reading[None]:
        """What was taken is no call: text, unless a mark behind it shows that it was meant as one."""
        closers = self.closers
        finder = Finder([*closers, *distinct(self.openers)])
        n_taken = 0
        found = ""
        while word and n_taken < _LONGEST_GARBAGE:
            n_before, found = finder.scan(self.source)
            n_taken += len(self.source.take(min(n_before, _LONGEST_GARBAGE - n_taken)))
            if found or self.source.ended:
                break
            yield
        if found in closers and found:
            yield from self._take(self._tail_from(found), None)
            self.writer.diagnose("unreadable_call", "A call can't be read: it has no name.", takes_raw=True)
            return
        raw = self.source.raw()
        self.writer.text(raw, segment, raw=raw)
        if word:
            spelled = self.alphabet.spell(word)
            self.writer.diagnose("unreadable_call", f"{spelled!r} opens a call that has no name.")

    def _tail_from(self, word: str) -> tuple[str, ...]:
        words = self.shape.tail.words if word in self.shape.tail.words else self.section.tail.words
        return words[words.index(word) :]
