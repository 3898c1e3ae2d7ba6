"""Reads an answer from its beginning to its end: texts, segments within them, calls."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from chatwrap.chat.functions import ChatModelFunctions
from chatwrap.chat.history import SegmentType
from chatwrap.chat.syntax import ChatWrapperSettings
from chatwrap.output.calls import CallsReader
from chatwrap.output.marks import Finder, common_start, distinct
from chatwrap.output.parts import Part, PartShape, PartShapes, alphabet_of, follow, whole_word
from chatwrap.output.results import ResultShape, ResultsReader
from chatwrap.output.shapes import CallShape, SectionShape
from chatwrap.output.source import Reading, Source
from chatwrap.output.writer import EventWriter

_LONGEST_HEADER: Final = 200


class AnswerReader:
    """Reads one answer; see `OutputParser`. `read` is the reading, `writer` has its events.

    White space alone between two marks is no text.
    """

    def __init__(
        self,
        settings: ChatWrapperSettings,
        *,
        functions: ChatModelFunctions | None,
        special_tokens: Collection[str],
        opened: SegmentType | None,
        strict: bool,
    ) -> None:
        alphabet = alphabet_of(settings, list(special_tokens))
        self.source = Source(alphabet)
        self.writer = EventWriter(self.source, strict=strict)
        calls = CallShape.of(settings.functions, alphabet)
        section = SectionShape.of(settings.functions.parallelism, alphabet)
        self._shapes = PartShapes.of(settings.segments, calls.leads, alphabet)
        shared = frozenset(word for shape in self._shapes.shapes for word in shape.lead.words[:1])
        results = ResultsReader(
            self.source, ResultShape.of(settings.functions, alphabet), (section.between, self._shapes.between)
        )
        self._calls = CallsReader(
            self.source, self.writer, alphabet, calls, section, results, functions, shared
        )
        self._open: list[SegmentType] = [opened] if opened else []
        self._finders: dict[Part, Finder] = {}
        self._held = ""
        self._has_text = False
        self._is_behind_mark = opened is not None
        self._is_behind_calls = False
        self._is_doubtful = False

    @property
    def _segment(self) -> SegmentType | None:
        return self._open[-1] if self._open else None

    def read(self) -> Reading[None]:
        """Reads the whole answer."""
        if self._open:
            self.writer.start_segment(self._open[-1])
            yield from self._skip_repeated_lead(self._open[-1])
        elif self._shapes.are_messages:
            yield from self._begin_answer()
        while word := (yield from self._text()):
            yield from self._mark(word)
        self._end()

    def _skip_repeated_lead(self, part: Part) -> Reading[None]:
        """A segment that the prompt has opened may be opened by the model once more."""
        (shape,) = self._shapes.of_part(part)
        held = yield from self.source.space()
        if shape.lead and (yield from self.source.starts(shape.lead.words[0])):
            self._stray(shape.lead.words[0])
            self._begin_behind(shape.lead.after, (yield from self.source.space()))
        else:
            self._held = held

    def _begin_answer(self) -> Reading[None]:
        """The first message, whose mark the prompt may have begun."""
        common = self._shapes.common_lead
        self._held = yield from self.source.space()
        if common and not (yield from self.source.starts(common)):
            self.source.insert(common)
            self._is_doubtful = True
        yield from self._begin_message()
        self._is_doubtful = False

    def _begin_message(self) -> Reading[None]:
        """Reads the mark that a message begins with, if one stands here."""
        self._held += yield from self.source.space()
        if word := (yield from whole_word(self._shapes.leads, self.source)):
            yield from self._mark(word)

    def _text(self) -> Reading[str]:
        """Tells the text before the next word of a mark; "" if the answer ends before one.

        White space is held back, since it may belong to the mark behind it.
        """
        finder, spaces = self._finder(), [self._held]
        while True:
            n_before, word = finder.scan(self.source)
            piece = self.source.ahead[self.source.at : self.source.at + n_before]
            n_kept = len(piece.rstrip())
            if n_kept:
                self._say("".join(spaces) + self.source.take(n_kept))
                spaces.clear()
            if n_before > n_kept:
                spaces.append(self.source.take(n_before - n_kept))
            if word or self.source.ended:
                self._held = "".join(spaces)
                return word
            yield

    def _say(self, text: str) -> None:
        self._held = ""
        self._has_text = True
        self.writer.text(text, self._segment)

    def _finder(self) -> Finder:
        part: Part = self._segment or "text"
        if part not in self._finders:
            self._finders[part] = Finder(self._words(part))
        return self._finders[part]

    def _words(self, part: Part) -> Iterator[str]:
        """The words that mean something within a text or a segment."""
        openers = [*self._calls.openers]
        for shape in self._shapes.shapes:
            if shape.part != part or self._shapes.are_messages:
                openers += shape.lead.words[:1]
            yield from shape.tail.words[:1] if shape.part == part else distinct(shape.tail.words[:1])
        yield from self._shapes.close_all.words[:1]
        yield from distinct(self._shapes.between.words)
        counts_all = part == "text" and not self._shapes.between
        yield from openers if counts_all else distinct(openers)
        yield from self._calls.closers

    def _mark(self, word: str) -> Reading[None]:
        """Reads what `word`, which stands here, opens or closes."""
        leads = self._shapes.with_lead(word)
        closed = self._shapes.closed_by(word, self._open)
        if closed is not None:
            yield from self._close(closed)
        elif word == "{" or word in self._calls.openers:
            yield from self._call(word, leads)
        elif leads:
            yield from self._open_part(leads)
        elif self._open and word in self._shapes.close_all.words[:1]:
            yield from self._close_every()
        elif word in distinct(self._shapes.between.words):
            yield from self._go_between(word)
        else:
            self._stray(word)

    def _call(self, word: str, leads: Sequence[PartShape]) -> Reading[None]:
        """Reads a mark that opens calls, or another part whose mark begins with the same word."""
        calls = [PartShape("call", mark, mark) for mark in self._shapes.calls if mark.words[:1] == (word,)]
        if leads and calls:
            yield from self._open_part([*leads, *calls])
            return
        yield from self._read_calls("" if word == "{" else word, is_taken=False)

    def _read_calls(self, word: str, *, is_taken: bool) -> Reading[None]:
        segment = self._segment
        if segment and self._shapes.are_messages:
            self._end_message()
        self._held = ""
        is_call = yield from self._calls.read(
            word,
            self._segment,
            is_taken=is_taken,
            doubtful=self._is_doubtful or (word == "" and not is_taken),
        )
        self._has_text, self._is_behind_calls = not is_call, is_call
        self._is_behind_mark = self._is_behind_mark or is_call
        if not is_call:
            self._held, self._calls.left_space = self._calls.left_space, ""
        if is_call and self._segment:
            self.writer.diagnose("call_in_segment", f"A call stands in a {segment}.")
        if is_call and self._shapes.are_messages:
            yield from self._begin_message()

    def _open_part(self, leads: Sequence[PartShape]) -> Reading[None]:
        """Reads a mark that opens a text or a segment, or calls whose mark begins alike."""
        if self._open and self._shapes.are_messages:
            self._end_message()
        before = leads[0].lead.before
        keep = self._held.removesuffix(before) if before else self._held
        self._held = ""
        if keep and self._has_text:
            self._say(keep)
        shape, gap = yield from follow(leads, self.source)
        if shape is None:
            yield from self._unknown_header(leads)
        elif shape.part == "call":
            yield from self._read_calls("", is_taken=True)
        else:
            if shape.part != "text":
                self._open.append(shape.part)
                self.writer.start_segment(shape.part)
            self._begin_behind(shape.lead.after, gap)
            self._has_text = shape.part == "text"

    def _unknown_header(self, leads: Sequence[PartShape]) -> Reading[None]:
        """A mark that goes on as none does: what is behind its last word, if that is near, is text."""
        begun = self.source.raw()
        lasts = {shape.lead.words[-1] for shape in leads if shape.part != "call"}
        is_found = len(lasts) == 1 and self._shapes.are_messages and (yield from self._skip_to(*lasts))
        rest = self.source.raw()
        mark, text = (begun + rest, "") if is_found else (begun, rest)
        if mark.strip():
            message = f"{self.source.alphabet.spell(leads[0].lead.words[0])!r} means nothing here."
            self.writer.diagnose("stray_mark", message, raw=mark)
        if text:
            self.writer.text(text, self._segment, raw=text)
        self._has_text = bool(text)

    def _skip_to(self, word: str) -> Reading[bool]:
        """Takes what stands before `word`, and the word; False if it isn't near."""
        finder, n_taken = Finder([word]), 0
        while n_taken < _LONGEST_HEADER:
            n_before, found = finder.scan(self.source)
            n_taken += len(self.source.take(min(n_before, _LONGEST_HEADER - n_taken)))
            if found and n_taken < _LONGEST_HEADER:
                if found == word:
                    self.source.take(len(word))
                return found == word
            if self.source.ended:
                return False
            yield
        return False

    def _begin_behind(self, layout: str, gap: str) -> None:
        """What follows a mark begins: of the white space `gap`, `layout` belongs to the mark."""
        self._held = gap[len(common_start(layout, gap)) :]
        self._is_behind_mark, self._is_behind_calls, self._has_text = True, False, False

    def _close(self, shape: PartShape) -> Reading[None]:
        """Reads the mark that closes a part, and ends whatever is open within it."""
        self._tell_held(shape.tail.before)
        yield from self._take(shape.tail.words)
        if shape.part != "text":
            while self._open[-1] != shape.part:
                self.writer.end_segment(self._open.pop())
            self.writer.end_segment(self._open.pop())
        self._begin_behind(shape.tail.after, (yield from self.source.space()))

    def _close_every(self) -> Reading[None]:
        close_all = self._shapes.close_all
        self._tell_held(close_all.before)
        yield from self._take(close_all.words)
        while self._open:
            self.writer.end_segment(self._open.pop())
        self._begin_behind(close_all.after, (yield from self.source.space()))

    def _go_between(self, word: str) -> Reading[None]:
        """Reads what stands between two messages."""
        self._end_message(self._shapes.between.before)
        words = self._shapes.between.words
        yield from self._take(words[words.index(word) :])
        self._begin_behind("", "")
        yield from self._begin_message()

    def _end_message(self, layout: str = "") -> None:
        """A message ends because another begins; its own end mark is missing then, if it has one."""
        self._tell_held(layout)
        while self._open:
            (shape,) = self._shapes.of_part(self._open[-1])
            if shape.tail:
                spelled = self.source.alphabet.spell(" ".join(shape.tail.words))
                self.writer.diagnose("missing_mark", f"{spelled!r} is missing behind a {shape.part}.")
            self.writer.end_segment(self._open.pop())

    def _take(self, words: Sequence[str]) -> Reading[None]:
        for word in words:
            yield from self.source.space()
            if (yield from self.source.starts(word)):
                self.source.take(len(word))

    def _tell_held(self, layout: str = "") -> None:
        """Tells the white space held back, but for the layout of the mark behind it."""
        keep = self._held.removesuffix(layout) if layout else self._held
        self._held = ""
        if keep and (self._has_text or self._open):
            self.writer.text(keep, self._segment)

    def _stray(self, word: str) -> None:
        """A mark or a special token that means nothing here."""
        self._tell_held()
        self.source.take(len(word))
        self._tell_stray(word)

    def _tell_stray(self, word: str) -> None:
        if self.source.alphabet.is_strange(word):
            self.writer.diagnose("stray_token", "A special token means nothing here.", takes_raw=True)
        else:
            spelled = self.source.alphabet.spell(word)
            self.writer.diagnose("stray_mark", f"{spelled!r} means nothing here.", takes_raw=True)

    def _end(self) -> None:
        """The answer ends; so does what is open."""
        if self._open and self._ends_quietly:
            if not self._is_behind_calls:
                self._tell_held()
            while self._open:
                self.writer.end_segment(self._open.pop())
        elif self._open:
            self._tell_held()
            for part in reversed(self._open):
                self.writer.diagnose("unended_segment", f"The answer ends in a {part}.")
        elif self._held and (self._has_text or not self._is_behind_mark):
            self.writer.text(self._held)
        raw = self.source.raw()
        if raw:
            self.writer.text("", self._segment, raw=raw)

    @property
    def _ends_quietly(self) -> bool:
        """Whether what is open has no end mark of its own, or ended in calls already."""
        if self._is_behind_calls and not self._has_text:
            return True
        shapes = [shape for part in self._open for shape in self._shapes.of_part(part)]
        return self._shapes.are_messages and not any(shape.tail for shape in shapes)
