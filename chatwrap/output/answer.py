"""Reads an answer from its beginning to its end: texts, segments within them, calls."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Final, Literal, TypeAlias

from chatwrap.chat.functions import ChatModelFunctions
from chatwrap.chat.history import SegmentType
from chatwrap.chat.slotted import SlottedText
from chatwrap.chat.syntax import ChatWrapperSettings, SegmentSyntax
from chatwrap.chat.text import LlamaText, SpecialTokensText
from chatwrap.output.calls import CallsReader
from chatwrap.output.marks import Finder, Mark, common_start, is_distinct
from chatwrap.output.shapes import CallShape, SectionShape
from chatwrap.output.source import Alphabet, Reading, Source
from chatwrap.output.writer import EventWriter

Part: TypeAlias = Literal["text", "thought", "comment"]

_SEGMENTS: Final[tuple[SegmentType, ...]] = ("thought", "comment")


@dataclass(frozen=True, slots=True)
class PartShape:
    """The marks around texts, thoughts or comments; `tail` is empty where only another mark ends them."""

    part: Part
    lead: Mark
    tail: Mark


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
        alphabet = Alphabet(special_tokens, list(_special_texts(settings)))
        self.source = Source(alphabet)
        self.writer = EventWriter(self.source, strict=strict)
        self.calls = CallsReader(
            self.source,
            self.writer,
            alphabet,
            CallShape.of(settings.functions, alphabet),
            SectionShape.of(settings.functions.parallelism, alphabet),
            functions,
        )
        self._parts = list(_part_shapes(settings, alphabet))
        self._close_all = _mark(settings.segments.close_all_segments, alphabet)
        self._between = _mark(settings.segments.between_parts, alphabet)
        self._open: list[SegmentType] = [opened] if opened else []
        self._finders: dict[Part, Finder] = {}
        self._held = ""
        self._has_text = False
        self._is_behind_mark = opened is not None

    @property
    def _part(self) -> Part:
        return self._open[-1] if self._open else "text"

    @property
    def _segment(self) -> SegmentType | None:
        return self._open[-1] if self._open else None

    def read(self) -> Reading[None]:
        """Reads the whole answer."""
        if self._open:
            self.writer.start_segment(self._open[-1])
            yield from self._skip_repeated_lead()
        while word := (yield from self._text()):
            yield from self._mark(word)
        self._end()

    def _skip_repeated_lead(self) -> Reading[None]:
        """A segment that the prompt has opened may be opened by the model once more."""
        lead = self._shape(self._part).lead
        held = yield from self.source.space()
        if lead and (yield from self.source.starts(lead.words[0])):
            self.source.take(len(lead.words[0]))
            spelled = self.source.alphabet.spell(lead.words[0])
            self.writer.diagnose("stray_mark", f"{spelled!r} opens what is open already.", takes_raw=True)
        else:
            self._held = held

    def _text(self) -> Reading[str]:
        """Tells the text before the next word of a mark; "" if the answer ends before one.

        White space is held back, since it may belong to the mark behind it.
        """
        finder = self._finder()
        while True:
            n_before, word = finder.scan(self.source)
            piece = self.source.ahead[self.source.at : self.source.at + n_before]
            n_kept = len(piece.rstrip())
            if n_kept:
                self._say(self._held + self.source.take(n_kept))
            self._held += self.source.take(n_before - n_kept)
            if word or self.source.ended:
                return word
            yield

    def _say(self, text: str) -> None:
        self._held = ""
        self._has_text = True
        self.writer.text(text, self._segment)

    def _finder(self) -> Finder:
        part = self._part
        if part not in self._finders:
            self._finders[part] = Finder(self._words(part))
        return self._finders[part]

    def _words(self, part: Part) -> Iterator[str]:
        """The words that mean something within a text or a segment."""
        for shape in self._parts:
            if shape.part != part or part == "text":
                yield from shape.lead.words[:1]
            if shape.part == part or is_distinct(shape.tail.words[0] if shape.tail else ""):
                yield from shape.tail.words[:1]
        yield from self._close_all.words[:1]
        yield from (word for word in self._between.words if is_distinct(word))
        openers = self.calls.openers
        yield from openers if part == "text" else [word for word in openers if word != "{"]
        yield from self.calls.closers

    def _mark(self, word: str) -> Reading[None]:
        """Reads what `word`, which stands here, opens or closes."""
        leads = [shape for shape in self._parts if shape.lead.words[:1] == (word,)]
        tail = self._tail(word)
        if tail is not None:
            yield from self._close(tail)
        elif word == "{" or word in self.calls.openers:
            yield from self._call(word, leads)
        elif leads:
            yield from self._open_part(leads)
        elif self._open and word in self._close_all.words[:1]:
            yield from self._close_every()
        else:
            self._stray(word)

    def _tail(self, word: str) -> PartShape | None:
        """The open part that `word` closes."""
        for part in (*reversed(self._open), *([] if self._open else ["text"])):
            for shape in self._parts:
                if shape.part == part and word in shape.tail.words[:1]:
                    return shape
        return None

    def _call(self, word: str, leads: list[PartShape]) -> Reading[None]:
        segment = self._segment
        if segment:
            self._tell_held()
            self.writer.diagnose("call_in_segment", f"A call stands in a {segment}.")
        self._held = ""
        if (yield from self.calls.read("" if word == "{" else word, segment)):
            self._is_behind_mark, self._has_text = True, False
        else:
            self._has_text = True

    def _open_part(self, leads: list[PartShape]) -> Reading[None]:
        """Reads a mark that opens a text or a segment."""
        before = leads[0].lead.before
        keep = self._held.removesuffix(before) if before else self._held
        self._held = ""
        if keep and self._has_text:
            self._say(keep)
        shape, gap = yield from self._follow(leads)
        if shape is None:
            self._stray_taken(leads[0].lead.words[0], gap)
            return
        if shape.part != "text":
            self._open.append(shape.part)
            self.writer.start_segment(shape.part)
        yield from self._begin_behind(shape.lead.after, gap)

    def _follow(self, shapes: list[PartShape]) -> Reading[tuple[PartShape | None, str]]:
        """Takes the words of the one lead among `shapes` that stands here, and the white space behind."""
        depth, gap = 0, ""
        word = shapes[0].lead.words[0]
        while word:
            self.source.take(len(word))
            depth += 1
            shapes = [shape for shape in shapes if shape.lead.words[depth - 1 : depth] == (word,)]
            gap = yield from self.source.space()
            following = [w for shape in shapes for w in shape.lead.words[depth : depth + 1]]
            word = (yield from self.source.which(following)) if following else ""
        return next((shape for shape in shapes if len(shape.lead.words) == depth), None), gap

    def _begin_behind(self, layout: str, gap: str) -> Reading[None]:
        """What follows a mark begins: of the white space, `layout` belongs to the mark."""
        self._held = gap[len(common_start(layout, gap)) :]
        self._is_behind_mark, self._has_text = True, False
        return
        yield

    def _close(self, shape: PartShape) -> Reading[None]:
        """Reads the mark that closes a part, and whatever is open within it."""
        self._tell_held(shape.tail.before)
        yield from self._take(shape.tail.words)
        if shape.part != "text":
            while self._open[-1] != shape.part:
                self.writer.end_segment(self._open.pop())
            self.writer.end_segment(self._open.pop())
        gap = yield from self.source.space()
        yield from self._begin_behind(shape.tail.after, gap)

    def _close_every(self) -> Reading[None]:
        self._tell_held(self._close_all.before)
        yield from self._take(self._close_all.words)
        while self._open:
            self.writer.end_segment(self._open.pop())
        gap = yield from self.source.space()
        yield from self._begin_behind(self._close_all.after, gap)

    def _take(self, words: tuple[str, ...]) -> Reading[None]:
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
        self._stray_taken(word, "")

    def _stray_taken(self, word: str, gap: str) -> None:
        spelled = self.source.alphabet.spell(word)
        if word in self.source.alphabet.texts or not _is_token(word):
            message = f"{spelled!r} means nothing here."
            self.writer.diagnose("stray_mark", message, takes_raw=True)
        else:
            self.writer.diagnose("stray_token", "A special token means nothing here.", takes_raw=True)
        self._held = gap

    def _end(self) -> None:
        """The answer ends; so does what is open."""
        if self._open:
            self._tell_held()
            for part in reversed(self._open):
                self.writer.diagnose("unended_segment", f"The answer ends in a {part}.")
        elif self._held and (self._has_text or not self._is_behind_mark):
            self.writer.text(self._held)
        raw = self.source.raw()
        if raw:
            self.writer.text("", self._segment, raw=raw)

    def _shape(self, part: Part) -> PartShape:
        return next(shape for shape in self._parts if shape.part == part)


def _is_token(word: str) -> bool:
    return "\ud800" <= word <= "\udfff"


def _mark(text: object, alphabet: Alphabet) -> Mark:
    parts = alphabet.of_mark(text) if isinstance(text, str | LlamaText | SlottedText) else ()
    return Mark.of("".join(part for part in parts if isinstance(part, str)))


def _part_shapes(settings: ChatWrapperSettings, alphabet: Alphabet) -> Iterator[PartShape]:
    segments = settings.segments
    given: tuple[tuple[Part, SegmentSyntax | None], ...] = (
        ("thought", segments.thought),
        ("comment", segments.comment),
        ("text", segments.text),
    )
    for part, syntax in given:
        if syntax:
            yield PartShape(part, _mark(syntax.prefix, alphabet), _mark(syntax.suffix, alphabet))


def _special_texts(value: object) -> Iterator[str]:
    """All control text in a settings value."""
    match value:
        case SpecialTokensText():
            yield value.value
        case LlamaText():
            yield from _special_texts(value.values)
        case SlottedText():
            yield from _special_texts(value.parts)
        case tuple():
            for member in value:
                yield from _special_texts(member)
        case _ if is_dataclass(value):
            for entry in fields(value):
                yield from _special_texts(getattr(value, entry.name))
