"""The segment in which a prompt ends: what the model writes goes on in it."""

from __future__ import annotations

import re
from typing import Final

from chatwrap.chat.history import SegmentType
from chatwrap.chat.slotted import as_slotted
from chatwrap.chat.syntax import ChatWrapperSettings
from chatwrap.chat.text import LlamaText
from chatwrap.output.marks import Mark

_SEGMENTS: Final[tuple[SegmentType, ...]] = ("thought", "comment")


def opened_segment(context_text: LlamaText, settings: ChatWrapperSettings) -> SegmentType | None:
    """The segment whose mark the prompt has opened and not closed, None if there is none.

    Only control text counts, so no content opens one; behind the mark nothing but content may stand.

    >>> from chatwrap.chat.syntax import SegmentsSyntax, SegmentSyntax
    >>> from chatwrap.chat.text import control
    >>> settings = ChatWrapperSettings(segments=SegmentsSyntax(thought=SegmentSyntax("<think>", "</think>")))
    >>> opened_segment(LlamaText(control("model: <think>"), "Well, "), settings)
    'thought'
    >>> opened_segment(LlamaText(control("model: "), "<think>"), settings) is None
    True
    """
    control_text = "".join("" if isinstance(value, str) else str(value) for value in context_text.values)
    for segment in _SEGMENTS:
        syntax = settings.segments.of(segment)
        mark = Mark.of(str(as_slotted(syntax.prefix).fill({}))) if syntax else None
        if mark and re.search(r"\s*".join(map(re.escape, mark.words)) + r"\s*\Z", control_text):
            return segment
    return None
