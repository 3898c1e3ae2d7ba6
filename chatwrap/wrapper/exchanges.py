"""A conversation cut into exchanges, and the opening that stands before or in one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from chatwrap.chat.slotted import Slot
from chatwrap.chat.text import LlamaText, LlamaTextInput
from chatwrap.wrapper.opening import fill
from chatwrap.wrapper.reader import ROLES
from chatwrap.wrapper.slots import SlotString


@dataclass(frozen=True, slots=True)
class Opened:
    """An opening and what fills it, but for the user's message."""

    text: SlotString
    values: Mapping[Slot, LlamaTextInput]

    @property
    def holds_message(self) -> bool:
        return Slot.MESSAGE in self.text.slots

    def filled(self, message: LlamaTextInput = "") -> LlamaText:
        return fill(self.text, {**self.values, Slot.MESSAGE: message})


_NOTHING: Final = LlamaText()


@dataclass(slots=True)
class Exchange:
    """A system, a user and a model text in this order, each joined of several messages or empty.

    `ended_turn` tells that the model text ends in results whose turn has ended, `open_end` what stands
    behind the model text if the model is to go on. `first_item` is the index of its first item, `n_calls`
    how many calls were made before it.
    """

    first_item: int = 0
    n_calls: int = 0

    texts: dict[str, list[LlamaText]] = field(default_factory=lambda: {role: [] for role in ROLES})
    ended_turn: bool = False
    open_end: LlamaText = field(default_factory=LlamaText)

    def text(self, role: str) -> LlamaText:
        texts = self.texts[role]
        if len(texts) == 1:
            return texts[0]
        return LlamaText.join_values("\n\n", texts) if texts else _NOTHING
