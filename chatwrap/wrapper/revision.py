"""What a format changes in a history before it is written: white space, system messages, old thoughts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Final

from chatwrap.chat.history import (
    ChatHistory,
    ChatHistoryItem,
    ChatModelResponse,
    ChatModelSegment,
    ChatSystemMessage,
    ChatUserMessage,
    ResponsePart,
)
from chatwrap.chat.text import LlamaText

KEPT_THOUGHTS: Final = ("all", "after_last_user", "none")


@dataclass(frozen=True, slots=True)
class Revision:
    """Which changes a format makes: it trims texts, puts system messages first, drops old thoughts."""

    trims: bool = False
    hoists_system: bool = False
    kept_thoughts: str = "all"

    def of(self, history: ChatHistory) -> tuple[ChatHistory, tuple[str, ...]]:
        """`history` as the format writes it, and a line on each item that lost thoughts."""
        history, changes = without_old_thoughts(history, self.kept_thoughts)
        history = with_system_first(history) if self.hoists_system else history
        return trimmed(history) if self.trims else history, changes


def trimmed(history: ChatHistory) -> ChatHistory:
    """`history` without white space around its texts; a model text at the very end may still go on, so
    it keeps what stands behind it.
    """
    return tuple(_trimmed_item(item, is_last=item is history[-1]) for item in history)


def _trimmed_item(item: ChatHistoryItem, *, is_last: bool) -> ChatHistoryItem:
    match item:
        case ChatSystemMessage():
            return ChatSystemMessage(text=item.text.trim())
        case ChatUserMessage():
            return ChatUserMessage(text=item.text.strip())
        case ChatModelResponse():
            return ChatModelResponse(response=_trimmed_parts(item.response, is_last=is_last))


def _trimmed_parts(parts: tuple[ResponsePart, ...], *, is_last: bool) -> tuple[ResponsePart, ...]:
    """`parts` with neighbouring texts joined and each trimmed."""
    written: list[ResponsePart] = []
    runs = [(are_texts, list(run)) for are_texts, run in groupby(parts, key=_is_text)]
    for index, (are_texts, run) in enumerate(runs):
        if are_texts:
            text = "".join(map(str, run)).lstrip()
            written.append(text if is_last and index == len(runs) - 1 else text.rstrip())
        else:
            written += run
    return tuple(written)


def _is_text(part: ResponsePart) -> bool:
    return isinstance(part, str)


def with_system_first(history: ChatHistory) -> ChatHistory:
    """`history` with all its system texts in one item at the front, a blank line between them."""
    texts = [item.text for item in history if isinstance(item, ChatSystemMessage)]
    others = [item for item in history if not isinstance(item, ChatSystemMessage)]
    return (ChatSystemMessage(text=LlamaText.join_values("\n\n", texts)), *others) if texts else history


def without_old_thoughts(history: ChatHistory, kept: str) -> tuple[ChatHistory, tuple[str, ...]]:
    """`history` with the thoughts that `kept` says, and a line on each item that lost some.

    The last item keeps its thoughts if it is the model's, since the model may still go on with it.
    """
    if kept == "all":
        return history, ()
    last_user = max((i for i, item in enumerate(history) if item.type == "user"), default=-1)
    n_old = last_user if kept == "after_last_user" else len(history) - 1
    items, changes = list(history), []
    for index, item in enumerate(history[: max(n_old, 0)]):
        if isinstance(item, ChatModelResponse) and any(map(_is_thought, item.response)):
            parts = tuple(part for part in item.response if not _is_thought(part))
            items[index] = ChatModelResponse(response=parts)
            changes.append(f"history[{index}]: thoughts left out, as the format does with earlier turns.")
    return tuple(items), tuple(changes)


def _is_thought(part: object) -> bool:
    return isinstance(part, ChatModelSegment) and part.segment_type == "thought"
