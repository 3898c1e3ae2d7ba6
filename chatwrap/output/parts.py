"""What the parts of an answer look like to the parser: the marks around texts and segments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from chatwrap.chat.history import SegmentType
from chatwrap.chat.slotted import Slot, SyntaxText
from chatwrap.chat.syntax import ChatWrapperSettings, SegmentsSyntax, SegmentSyntax, texts_of
from chatwrap.chat.text import SpecialTokensText
from chatwrap.output.marks import Mark, common_start
from chatwrap.output.source import Alphabet, Reading, Source

Part: TypeAlias = Literal["text", "thought", "comment", "call"]


@dataclass(frozen=True, slots=True)
class PartShape:
    """The marks around one kind of part; `tail` is empty where only another mark ends it."""

    part: Part
    lead: Mark
    tail: Mark


@dataclass(frozen=True, slots=True)
class PartShapes:
    """The shapes of all parts, what stands between two, and what closes all that is open.

    `are_messages` tells that each part is a message of its own, so that the next one ends it. `calls` are
    the marks that open calls.
    """

    shapes: tuple[PartShape, ...]
    between: Mark
    close_all: Mark
    are_messages: bool
    calls: tuple[Mark, ...]

    @classmethod
    def of(cls, segments: SegmentsSyntax, calls: tuple[Mark, ...], alphabet: Alphabet) -> PartShapes:
        given: tuple[tuple[Part, SegmentSyntax | None], ...] = (
            ("thought", segments.thought),
            ("comment", segments.comment),
            ("text", segments.text),
        )
        shapes = tuple(
            PartShape(part, _mark(syntax.prefix, alphabet), _mark(syntax.suffix or "", alphabet))
            for part, syntax in given
            if syntax
        )
        between, close_all = (
            _mark(text or "", alphabet) for text in (segments.between_parts, segments.close_all_segments)
        )
        return cls(shapes, between, close_all, segments.text is not None, calls)

    @property
    def leads(self) -> tuple[str, ...]:
        """The first words of all parts and calls."""
        marks = (*(shape.lead for shape in self.shapes), *self.calls)
        return tuple(mark.words[0] for mark in marks if mark)

    @property
    def common_lead(self) -> str:
        """What all messages begin with: the prompt may end with it."""
        if not self.are_messages or not self.leads:
            return ""
        common = common_start(min(self.leads), max(self.leads))
        is_whole = common in self.leads and _IN_A_WORD.match(common[-1:])
        return common[: len(common) - len(common.lstrip(_SIGNS))] if is_whole else common

    def with_lead(self, word: str) -> list[PartShape]:
        """The shapes whose lead begins with `word`."""
        return [shape for shape in self.shapes if shape.lead.words[:1] == (word,)]

    def of_part(self, part: Part) -> Iterator[PartShape]:
        return (shape for shape in self.shapes if shape.part == part)

    def closed_by(self, word: str, open_segments: Sequence[SegmentType]) -> PartShape | None:
        """The shape of the innermost open part that `word` closes."""
        open_parts: list[Part] = [*reversed(open_segments)] if open_segments else ["text"]
        for part in open_parts:
            for shape in self.of_part(part):
                if word in shape.tail.words[:1]:
                    return shape
        return None


_IN_A_WORD: Final = re.compile(r"[\w.-]")
_SIGNS: Final = "<>|#=:*~@"


def follow(shapes: Sequence[PartShape], source: Source) -> Reading[tuple[PartShape | None, str]]:
    """Takes the words of that lead among `shapes` which stands here, and the white space behind it.

    All leads begin with the same word, which stands here. None if no lead goes on as the output does.
    """
    word, depth, gap = shapes[0].lead.words[0], 0, ""
    while word:
        source.take(len(word))
        shapes = [shape for shape in shapes if shape.lead.words[depth : depth + 1] == (word,)]
        depth += 1
        gap = yield from source.space()
        word = yield from whole_word(
            [w for shape in shapes for w in shape.lead.words[depth : depth + 1]], source
        )
    return next((shape for shape in shapes if len(shape.lead.words) == depth), None), gap


def whole_word(words: Sequence[str], source: Source) -> Reading[str]:
    """The longest of `words` that stands here and isn't the beginning of a longer word; "" if none does."""
    while word := (yield from source.which(words)):
        behind = (yield from source.window(len(word) + 1))[len(word) :]
        if not (word[-1].isalnum() and _IN_A_WORD.match(behind)):
            return word
        words = [other for other in words if len(other) < len(word)]
    return ""


def _mark(text: SyntaxText, alphabet: Alphabet) -> Mark:
    return Mark.of("".join(part for part in alphabet.of_mark(text) if not isinstance(part, Slot)))


def control_texts(settings: ChatWrapperSettings) -> list[str]:
    """All texts in `settings` that special tokens may stand in."""
    return [text.value for text in texts_of(settings) if isinstance(text, SpecialTokensText)]


def alphabet_of(settings: ChatWrapperSettings, special_tokens: Sequence[str]) -> Alphabet:
    """The alphabet of the marks in `settings`."""
    return Alphabet(
        special_tokens, [text.value for text in texts_of(settings) if isinstance(text, SpecialTokensText)]
    )
