"""Reads function calls, one after another, alone or in a section."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from chatwrap.chat.functions import ChatModelFunctions
from chatwrap.chat.history import SegmentType
from chatwrap.output.arguments import ArgumentsReader
from chatwrap.output.call import Call
from chatwrap.output.envelopes import EnvelopeReader, Outcome
from chatwrap.output.heads import HeadReader
from chatwrap.output.marks import TOKEN, Finder, distinct
from chatwrap.output.parts import whole_word
from chatwrap.output.results import ResultsReader
from chatwrap.output.shapes import ANY_ENVELOPE, CallShape, Envelope, SectionShape
from chatwrap.output.source import Alphabet, Reading, Source
from chatwrap.output.writer import EventWriter

_LONGEST_GARBAGE: Final = 2000
_OBJECT: Final = re.compile(r"\[?\s*[{]\s*[\"']")
_LONGEST_OBJECT_START: Final = 24
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
    results: ResultsReader
    functions: ChatModelFunctions | None
    shared: frozenset[str] = frozenset()
    n_calls: int = 0
    _in_section: bool = False
    left_space: str = ""
    _goes_on: bool = False
    _in_array: bool = False

    @property
    def openers(self) -> list[str]:
        """The words that open calls or a section of them."""
        doubtful = [] if self.section.lead or self.shape.lead or not self.shape.envelope else ["{"]
        return [*self.section.lead.words[:1], *self.shape.openers, *doubtful]

    @property
    def closers(self) -> list[str]:
        """The words that can mean nothing but the end of a call or of a section."""
        return distinct((*self.shape.tail.words, *self.section.tail.words))

    def read(
        self, word: str, segment: SegmentType | None, *, is_taken: bool, doubtful: bool
    ) -> Reading[bool]:
        """Reads the calls from `word`, which stands here, on. False if that opened no call.

        Then what was taken is told as text of the `segment`. If the whole lead `is_taken`, `word` is "".
        If it is `doubtful` that a call is meant, its name and arguments have to tell.
        """
        if word in self.section.lead.words[:1]:
            yield from self._open_section()
            word = yield from self._next_opener()
        doubtful = doubtful and not self._in_section
        if not (yield from self._call(word, segment, is_taken=is_taken, doubtful=doubtful)):
            return False
        while True:
            following = yield from self._next()
            if following is None:
                return True
            doubtful = not following and not self._in_section
            if not (yield from self._call(following, segment, doubtful=doubtful)):
                return True

    def _next_opener(self) -> Reading[str]:
        yield from self.source.space()
        return (yield from self.source.which(list(self.shape.openers)))

    def _next(self) -> Reading[str | None]:
        """The word that opens the next call, "" if it begins without one; None if no call follows."""
        between = self.section.between.words if self.section.between else (",", ";")
        while True:
            char = yield from self.source.past_space()
            tail = self.section.tail.words if self._in_section or not self.section.lead else ()
            word = yield from whole_word(
                [*self.openers, *self.shared, *between, *tail, *self.closers], self.source
            )
            if not char:
                return None
            if (yield from self.results.take()):
                self._in_section = False
                message = "A result stands in the answer, but only the caller can give one."
                self.writer.diagnose("stray_result", message, takes_raw=True)
                continue
            if word in self.shared:
                self._end_section()
                return None
            if self._goes_on:
                self._goes_on = False
                return "{"
            if word in self.section.lead.words[:1]:
                yield from self._open_section()
            elif word in self.openers:
                return "" if word == "{" else word
            elif word in tail:
                yield from self._close_section()
            elif word in self.closers:
                self.source.take(len(word))
                self._stray(word)
            elif word and (
                self._in_section
                or (self.section.between and not self.section.lead)
                or (yield from self._is_before_object(word))
            ):
                self.source.take(len(word))
            elif self._in_section and (char == "{" if self.shape.envelope else not self.shape.lead):
                return ""
            else:
                self._end_section()
                return None

    def _is_before_object(self, word: str) -> Reading[bool]:
        """Whether an object that may be a call stands behind `word`, in a format whose calls are objects."""
        behind = (yield from self.source.window(len(word) + 2))[len(word) :]
        return "{" in self.openers and behind.lstrip().startswith("{")

    def _stray(self, word: str) -> None:
        spelled = self.alphabet.spell(word)
        self.writer.diagnose("stray_mark", f"{spelled!r} closes nothing that is open.", takes_raw=True)

    def _open_section(self) -> Reading[None]:
        self._in_section = True
        yield from self._take_frame(self.section.lead.words)

    def _close_section(self) -> Reading[None]:
        """Takes the end of a section. Its last word often ends the turn, too, and needn't be there."""
        self._in_section = False
        yield from self._take_frame(self.section.tail.words, self.section.tail.words[-1])

    def _end_section(self) -> None:
        """A section ends without its mark, though more follows."""
        words = self.section.tail.words if self._in_section else ()
        self._in_section = False
        self._tell_missing([word for word in words[:1] if not self._is_stop(word)])

    def _take_frame(self, words: Sequence[str], optional: str = "") -> Reading[None]:
        """Takes the words of a section's mark and tells which are missing."""
        call = Call(self.writer, self.n_calls, None)
        yield from self._take(words, call)
        if (yield from self.source.peek()):
            self._tell_missing(word for word in call.missing if word != self.alphabet.spell(optional))

    def _tell_missing(self, words: Iterable[str]) -> None:
        for word in words:
            spelled = self.alphabet.spell(word)
            self.writer.diagnose("missing_mark", f"{spelled!r} is missing around the calls.")

    def _is_stop(self, word: str) -> bool:
        spelled, stop = self.alphabet.spell(word), self.source.stopped_by.strip()
        return bool(stop) and (stop.startswith(spelled) or spelled.startswith(stop))

    def _call(
        self, word: str, segment: SegmentType | None, *, doubtful: bool, is_taken: bool = False
    ) -> Reading[bool]:
        """Reads one call; False if there is none here."""
        call = Call(self.writer, self.n_calls, self.functions)
        if not is_taken:
            yield from self._take(self._lead_from(word), call)
        outcome = yield from self._body(call, doubtful=doubtful)
        if outcome == "no_call" or (outcome == "cut" and not call.name and doubtful):
            yield from self._give_up("" if doubtful else word, segment)
            return False
        if outcome == "cut":
            call.cut()
            return True
        if call.is_object and (yield from self._is_another_object()):
            self._goes_on = True
        else:
            yield from self._take_tail(call)
        call.end()
        self.n_calls += 1
        return True

    def _is_another_object(self) -> Reading[bool]:
        """Whether another call stands in the same frame. The comma between is taken."""
        yield from self.source.space()
        if not self.shape.lead:
            return False
        if (yield from self.source.starts(",")):
            self.source.take(1)
            yield from self.source.space()
        return (yield from self.source.starts("{"))

    def _lead_from(self, word: str) -> tuple[str, ...]:
        """The words of the lead from `word` on."""
        for mark in self.shape.leads:
            if word in mark.words:
                return mark.words[mark.words.index(word) :]
        return self.shape.lead.words if not word and self._in_section else ()

    def _body(self, call: Call, *, doubtful: bool) -> Reading[Outcome]:
        """Name and arguments."""
        arguments = ArgumentsReader(self.source, self.alphabet, call, self._ends)
        if self.shape.envelope:
            return (yield from self._object(call, self.shape.envelope, arguments, doubtful=doubtful))
        if not doubtful and (yield from self._is_object()):
            call.repairs.append("they stand in an object with the name")
            call.missing.clear()
            return (yield from self._object(call, ANY_ENVELOPE, arguments, doubtful=False))
        head = HeadReader(self.source, self.alphabet, call, self.shape, doubtful, distinct(self.openers))
        if not (yield from head.read()):
            return "cut" if self.source.ended and self.source.at == len(self.source.ahead) else "no_call"
        is_complete = yield from arguments.read(self.shape.notation, self.shape.tail.words)
        return "read" if is_complete else "cut"

    def _is_object(self) -> Reading[bool]:
        """Whether a JSON object, or an array of them, stands where a name is due."""
        char = yield from self.source.past_space()
        window = (yield from self.source.window(_LONGEST_OBJECT_START)) if char in "[{" else ""
        return _OBJECT.match(window) is not None

    def _object(
        self, call: Call, envelope: Envelope, arguments: ArgumentsReader, *, doubtful: bool
    ) -> Reading[Outcome]:
        """Name and arguments in a JSON object."""
        yield from arguments.fence()
        if (yield from self.source.starts("[")) and not doubtful:
            self.source.take(1)
            self._in_array = True
        char = yield from self.source.past_space()
        if char != "{":
            return "no_call" if char else "cut"
        call.is_object = True
        return (
            yield from EnvelopeReader(self.source, call, envelope, arguments, self._ends, doubtful).read()
        )

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
            if litter == "]" and self._in_array:
                self._in_array = False
            elif litter != "```":
                call.repairs.append(f"{litter!r} stands behind them")
        is_misplaced = call.is_object and not self.shape.envelope
        yield from self._take(self.shape.tail.words, None if is_misplaced else call)

    def _give_up(self, word: str, segment: SegmentType | None) -> Reading[None]:
        """What was taken is no call: text, unless a mark behind it shows that it was meant as one.

        A mark that can't be text is told in a diagnostic. White space at the end of the text is given back.
        """
        lead = self.source.raw()
        found = (yield from self._garbage()) if word else ""
        if found and found in self.closers:
            yield from self._take(self._tail_from(found), None)
            raw = lead + self.source.raw()
            self.writer.diagnose("unreadable_call", "A call can't be read: it has no name.", raw=raw)
            return
        is_mark = (word and self._in_section) or re.match(TOKEN, word) is not None
        text = ("" if is_mark else lead) + self.source.raw()
        if not word:
            self._end_section()
        problem = f"{self.alphabet.spell(word)!r} opens a call that has no name."
        if is_mark:
            self.writer.diagnose("unreadable_call", problem, raw=lead)
        kept = text.rstrip()
        self.writer.text(kept, segment, raw=kept)
        self.source.give_back(text[len(kept) :])
        self.left_space = text[len(kept) :]
        if word and not is_mark:
            self.writer.diagnose("unreadable_call", problem)

    def _garbage(self) -> Reading[str]:
        """Takes what is no call, up to a mark, which is given, or to where none is near."""
        finder, n_taken = Finder([*self.closers, *distinct(self.openers)]), 0
        while n_taken < _LONGEST_GARBAGE:
            n_before, found = finder.scan(self.source)
            n_taken += len(self.source.take(min(n_before, _LONGEST_GARBAGE - n_taken)))
            if found or self.source.ended:
                return found if n_taken < _LONGEST_GARBAGE else ""
            yield
        return ""

    def _tail_from(self, word: str) -> tuple[str, ...]:
        words = self.shape.tail.words if word in self.shape.tail.words else self.section.tail.words
        return words[words.index(word) :]
