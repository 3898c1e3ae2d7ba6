"""What becomes of a history that outgrows the context."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias

from chatwrap.chat.history import (
    ChatHistory,
    ChatHistoryItem,
    ChatModelFunctionCall,
    ChatModelResponse,
    ChatSystemMessage,
    HistoryLike,
    as_history,
)
from chatwrap.errors import ContextOverflowError, OptionError

CUT_MARK: Final = "\n[...]\n"
_TARGET: Final = 0.75
_ROOM: Final = 8


@dataclass(frozen=True, slots=True)
class ContextOverflow:
    """A history whose prompt is too long: `n_tokens`, where `n_most` of a context of `n_ctx` may be used.

    `count` gives the length of another history's prompt in tokens, exactly, with all that the chat
    format and the functions add. It costs a rendering and an encoding.
    """

    history: ChatHistory
    n_tokens: int
    n_most: int
    n_ctx: int
    count: Callable[[ChatHistory], int]


class ContextStrategy(Protocol):
    """Makes a history shorter: any function of a `ContextOverflow` that gives a history."""

    def __call__(self, overflow: ContextOverflow, /) -> HistoryLike: ...


ContextStrategyLike: TypeAlias = ContextStrategy | Literal["drop_oldest", "error"]


@dataclass(frozen=True, slots=True)
class Shortening:
    """By how much a history was shortened for a prompt: items, characters of all texts, and tokens."""

    n_items_dropped: int
    n_characters_dropped: int
    n_tokens_before: int
    n_tokens_after: int


@dataclass(frozen=True, slots=True)
class DropOldest:
    """Drops the oldest exchanges, and if that isn't enough, cuts texts.

    The first system item and everything from the last user item on are kept. Once something has to
    go, exchanges are dropped until the prompt takes up at most `target` of the context, so that the
    next turns find their beginning in the cache. Only where nothing whole is left to drop, texts lose
    their middle, marked by ``[...]``: results of function calls first, then the user's text, then the
    system's.
    """

    target: float = _TARGET

    def __post_init__(self) -> None:
        if not 0 < self.target <= 1:
            raise OptionError.of("target", f"must be above 0 and at most 1, not {self.target!r}.")

    def __call__(self, overflow: ContextOverflow) -> ChatHistory:
        """The longest history that fits, by tokens. Raises `ContextOverflowError` if none does."""
        head, exchanges, tail = _parts(overflow.history)
        target = min(overflow.n_most, int(overflow.n_ctx * self.target))

        def without(n_dropped: int) -> ChatHistory:
            return (*head, *(item for exchange in exchanges[n_dropped:] for item in exchange), *tail)

        n_least = overflow.count(without(len(exchanges)))
        wanted = target if n_least <= target else overflow.n_most
        n_dropped = bisect_left(
            range(len(exchanges)), True, key=lambda n: overflow.count(without(n)) <= wanted
        )
        kept = without(n_dropped)
        return kept if overflow.count(kept) <= overflow.n_most else _cut_texts(kept, overflow)


def refuse(overflow: ContextOverflow) -> ChatHistory:
    """The strategy ``"error"``: raises `ContextOverflowError`."""
    raise ContextOverflowError(overflow.n_tokens, overflow.n_ctx)


_STRATEGIES: Final[dict[Any, ContextStrategy]] = {"drop_oldest": DropOldest(), "error": refuse}


def as_strategy(strategy: ContextStrategyLike) -> ContextStrategy:
    """A strategy by its name, or a function as it is. Raises `OptionError`."""
    if isinstance(strategy, str):
        if strategy in _STRATEGIES:
            return _STRATEGIES[strategy]
    elif callable(strategy):
        return strategy
    remedy = "Give 'drop_oldest', 'error', or a function of a ContextOverflow."
    raise OptionError.of("context_strategy", f"{strategy!r} is none.", remedy)


def fitted(
    history: ChatHistory,
    count: Callable[[ChatHistory], int],
    *,
    n_ctx: int,
    max_tokens: int | None,
    strategy: ContextStrategy,
) -> tuple[ChatHistory, Shortening | None]:
    """`history` if its prompt leaves room for an answer, else what the strategy makes of it.

    The room is an eighth of the context, or `max_tokens` if that is less. With the strategy
    ``"error"`` one token is enough. Raises `ContextOverflowError` if it doesn't fit after that.
    """
    n_tokens = count(history)
    room = 1 if strategy is refuse else max(1, min(max_tokens or n_ctx, n_ctx // _ROOM))
    if n_tokens <= n_ctx - room:
        return history, None
    overflow = ContextOverflow(history, n_tokens, n_ctx - room, n_ctx, count)
    shorter = as_history(strategy(overflow))
    n_after = count(shorter)
    if n_after >= n_ctx:
        raise ContextOverflowError(n_after, n_ctx)
    n_characters = [sum(map(len, _texts(items))) for items in (history, shorter)]
    n_items = [len(history), len(shorter)]
    return shorter, Shortening(_less(*n_items), _less(*n_characters), n_tokens, n_after)


def _less(before: int, after: int) -> int:
    return max(0, before - after)


def _texts(history: ChatHistory) -> Iterator[str]:
    """The texts that may be cut, and those of the model's answers."""
    for item in history:
        if not isinstance(item, ChatModelResponse):
            yield str(item.text)
            continue
        for part in item.response:
            match part:
                case str():
                    yield part
                case ChatModelFunctionCall(result=str(result)):
                    yield result


def _parts(
    history: ChatHistory,
) -> tuple[Sequence[ChatHistoryItem], list[list[ChatHistoryItem]], Sequence[ChatHistoryItem]]:
    """The first system item, the exchanges that may be dropped, and what follows the last user item."""
    n_head = 1 if history and isinstance(history[0], ChatSystemMessage) else 0
    users = [index for index, item in enumerate(history) if item.type == "user" and index >= n_head]
    n_before_tail = users[-1] if users else max(n_head, len(history) - 1)
    exchanges: list[list[ChatHistoryItem]] = []
    for item in history[n_head:n_before_tail]:
        if item.type == "user" or not exchanges:
            exchanges.append([])
        exchanges[-1].append(item)
    return history[:n_head], exchanges, history[n_before_tail:]


_Change: TypeAlias = Callable[[ChatHistory, int], ChatHistory]


def _cut_texts(history: ChatHistory, overflow: ContextOverflow) -> ChatHistory:
    """`history` with the middle of texts left out, as little as possible."""
    for change in (_with_shorter_results, _with_shorter_users, _with_shorter_system):
        shortest = change(history, 0)
        if overflow.count(shortest) <= overflow.n_most:
            return _least_cut(history, change, overflow)
        history = shortest
    raise ContextOverflowError(min(overflow.count(history), overflow.n_tokens), overflow.n_ctx)


def _least_cut(history: ChatHistory, change: _Change, overflow: ContextOverflow) -> ChatHistory:
    longest = max(map(len, _texts(history)))
    n_cut = bisect_left(
        range(longest), True, key=lambda n: overflow.count(change(history, longest - n)) <= overflow.n_most
    )
    return change(history, longest - n_cut)


def _with_shorter_users(history: ChatHistory, n_characters: int) -> ChatHistory:
    return tuple(
        item.model_copy(update={"text": _cut(item.text, n_characters)}) if item.type == "user" else item
        for item in history
    )


def _with_shorter_system(history: ChatHistory, n_characters: int) -> ChatHistory:
    """Control text in a system item stays whole: half a mark would be another text."""
    return tuple(
        item.model_copy(
            update={
                "text": item.text.map_values(lambda v: _cut(v, n_characters) if isinstance(v, str) else v)
            }
        )
        if isinstance(item, ChatSystemMessage)
        else item
        for item in history
    )


def _with_shorter_results(history: ChatHistory, n_characters: int) -> ChatHistory:
    return tuple(
        item.model_copy(
            update={"response": tuple(_shorter_result(part, n_characters) for part in item.response)}
        )
        if isinstance(item, ChatModelResponse)
        else item
        for item in history
    )


def _shorter_result(part: Any, n_characters: int) -> Any:
    match part:
        case ChatModelFunctionCall(result=str(result)) if len(result) > n_characters:
            return part.with_result(_cut(result, n_characters))
    return part


def _cut(text: str, n_characters: int) -> str:
    """`text` without its middle, `n_characters` of it left."""
    if len(text) <= n_characters:
        return text
    n_first = n_characters // 2
    n_last = n_characters - n_first
    return text[:n_first] + CUT_MARK + (text[-n_last:] if n_last else "")
