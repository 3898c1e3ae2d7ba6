"""Texts of a chat format with places in them that values fill. Data only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from chatwrap.chat.text import LlamaText, LlamaTextInput, LlamaTextValue


class Slot(StrEnum):
    """A place in a format's text that a value fills, under the name it has in template strings."""

    SYSTEM_PROMPT = "systemPrompt"
    HISTORY = "history"
    COMPLETION = "completion"
    MESSAGE = "message"
    FUNCTION_NAME = "functionName"
    FUNCTION_PARAMS = "functionParams"
    FUNCTION_CALL_RESULT = "functionCallResult"
    CONTENT = "content"
    FUNCTIONS = "functions"
    RECIPIENTS = "recipients"
    DATE = "date"
    PARAMETER_NAME = "parameterName"
    IS_STRING = "isString"
    CALL_ID = "callId"
    CALL_INDEX = "callIndex"


@dataclass(frozen=True, slots=True)
class SlottedText:
    """A text of the format with slots in it, kept as values and never searched for.

    >>> from chatwrap.chat.text import SpecialTokensText
    >>> text = SlottedText((SpecialTokensText("<fn="), Slot.FUNCTION_NAME, SpecialTokensText(">")))
    >>> text.fill({Slot.FUNCTION_NAME: "now"})
    LlamaText(SpecialTokensText('<fn='), 'now', SpecialTokensText('>'))
    """

    parts: tuple[LlamaTextValue | Slot, ...]

    @property
    def is_empty(self) -> bool:
        return not self.parts

    @property
    def leading_text(self) -> LlamaText:
        """The text before the first slot."""
        return LlamaText(*self._until_slot(self.parts))

    def fill(self, values: Mapping[Slot, LlamaTextInput]) -> LlamaText:
        """The text with its slots filled; a slot that `values` lacks becomes nothing."""
        return LlamaText(*(values.get(part, "") if isinstance(part, Slot) else part for part in self.parts))

    @staticmethod
    def _until_slot(parts: Iterable[LlamaTextValue | Slot]) -> Iterable[LlamaTextValue]:
        for part in parts:
            if isinstance(part, Slot):
                return
            yield part


SyntaxText: TypeAlias = "str | LlamaText | SlottedText"


def as_slotted(text: SyntaxText) -> SlottedText:
    """`text` as a `SlottedText`; plain strings and `LlamaText` hold no slots."""
    return text if isinstance(text, SlottedText) else SlottedText(LlamaText(text).values)
