"""What a format changes in a history before it is written: white space, system messages, old thoughts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from chatwrap.chat.history import (
    ChatHistory,
    ChatHistoryItem,
    ChatModelFunctionCall,
    ChatModelResponse,
    ChatModelSegment,
    ChatSystemMessage,
    ChatUserMessage,
    ResponsePart,
)
from chatwrap.chat.text import LlamaText

KEPT_THOUGHTS: Final = ("all", "after_last_user", "before_calls", "before_open_calls", "none")
EMPTY_THOUGHTS: Final = ("none", "last", "after_last_user", "all")


@dataclass(frozen=True, slots=True)
class Revision:
    """Which changes a format makes: it trims texts, puts system messages first, drops old thoughts.

    `trimmed_roles` are those around whose texts white space goes. `kept_thoughts`: ``all``; those
    ``after_last_user``; of these only those ``before_calls``; those ``before_open_calls``, which no answer
    has followed; or ``none``.
    """

    trimmed_roles: frozenset[str] = frozenset()
    trims_thoughts: bool = False
    hoists_system: bool = False
    kept_thoughts: str = "all"
    writes_thoughts: bool = True

    def of(self, history: ChatHistory) -> tuple[ChatHistory, tuple[int, ...]]:
        """`history` as the format writes it, and the indices of the items that lost thoughts."""
        if self.kept_thoughts == "none" and not self.writes_thoughts:
            history, losers = without_thoughts(history)
        else:
            history, losers = without_old_thoughts(history, self.kept_thoughts)
        history = with_system_first(history) if self.hoists_system else history
        history = with_trimmed_thoughts(history) if self.trims_thoughts else history
        return trimmed(history, self.trimmed_roles) if self.trimmed_roles else history, losers

    def told(self, index: int) -> str:
        """What to tell of an item that lost thoughts."""
        if self.writes_thoughts:
            return f"history[{index}]: thoughts left out, as the format does with earlier turns."
        return f"history[{index}]: thoughts left out, which the format can't write."


def trimmed(history: ChatHistory, roles: frozenset[str]) -> ChatHistory:
    """`history` without white space around the texts of these roles; a model text at the very end may
    still go on, so it keeps what stands behind it.
    """
    return tuple(
        _trimmed_item(item, is_last=item is history[-1]) if item.type in roles else item for item in history
    )


def _trimmed_item(item: ChatHistoryItem, *, is_last: bool) -> ChatHistoryItem:
    match item:
        case ChatSystemMessage():
            return ChatSystemMessage(text=item.text.trim())
        case ChatUserMessage():
            return ChatUserMessage(text=item.text.strip())
        case ChatModelResponse():
            return ChatModelResponse(response=_trimmed_parts(item.response, is_last=is_last))


def with_trimmed_thoughts(history: ChatHistory) -> ChatHistory:
    """`history` without white space around thoughts; one that hasn't ended keeps what stands behind it."""
    return tuple(
        ChatModelResponse(response=tuple(map(_trimmed_thought, item.response)))
        if isinstance(item, ChatModelResponse) and has_thoughts(item)
        else item
        for item in history
    )


def _trimmed_thought(part: ResponsePart) -> ResponsePart:
    if not isinstance(part, ChatModelSegment) or part.segment_type != "thought":
        return part
    return part.model_copy(update={"text": part.text.strip() if part.ended else part.text.lstrip()})


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


def without_old_thoughts(history: ChatHistory, kept: str) -> tuple[ChatHistory, tuple[int, ...]]:
    """`history` with the thoughts that `kept` says, and the indices of the items that lost some.

    The last item keeps its thoughts if it is the model's, since the model may still go on with it.
    """
    if kept == "all" or not any(map(has_thoughts, history)):
        return history, ()
    last_user, last_answer = last_user_index(history), _last_answer_index(history)
    items, losers = list(history), []
    for index, item in enumerate(history[:-1]):
        if not isinstance(item, ChatModelResponse):
            continue
        is_kept = {
            "after_last_user": index > last_user,
            "before_calls": index > last_user,
            "before_open_calls": index > last_answer,
        }.get(kept, False)
        n_kept = _n_until_last_call(item) if kept.endswith("calls") else len(item.response)
        parts = _without_thoughts(item.response, n_kept if is_kept else 0)
        if len(parts) < len(item.response):
            items[index] = ChatModelResponse(response=parts)
            losers.append(index)
    return tuple(items), tuple(losers)


def without_thoughts(history: ChatHistory) -> tuple[ChatHistory, tuple[int, ...]]:
    """`history` without any thoughts, and the indices of the items that lost some."""
    losers = tuple(index for index, item in enumerate(history) if has_thoughts(item))
    items = list(history)
    for index in losers:
        item = items[index]
        assert isinstance(item, ChatModelResponse)
        items[index] = ChatModelResponse(response=_without_thoughts(item.response, 0))
    return tuple(items), losers


def has_thoughts(item: ChatHistoryItem) -> bool:
    """Whether a model item holds a thought."""
    return isinstance(item, ChatModelResponse) and any(map(_is_thought, item.response))


def _without_thoughts(parts: tuple[ResponsePart, ...], n_kept: int) -> tuple[ResponsePart, ...]:
    """`parts` without the thoughts that stand behind the first `n_kept`."""
    return tuple(part for index, part in enumerate(parts) if index < n_kept or not _is_thought(part))


def _n_until_last_call(item: ChatModelResponse) -> int:
    return max(
        (i for i, part in enumerate(item.response, 1) if isinstance(part, ChatModelFunctionCall)), default=0
    )


def _last_answer_index(history: ChatHistory) -> int:
    """The index of the last model item that ends in a text, -1 if there is none."""
    answers = (
        index
        for index, item in enumerate(history)
        if isinstance(item, ChatModelResponse) and item.response and isinstance(item.response[-1], str)
    )
    return max(answers, default=-1)


def last_user_index(history: Sequence[ChatHistoryItem]) -> int:
    """The index of the last user message, -1 if there is none."""
    return max((index for index, item in enumerate(history) if item.type == "user"), default=-1)


def _is_thought(part: object) -> bool:
    return isinstance(part, ChatModelSegment) and part.segment_type == "thought"
