"""Changes that may make a template take a history: folding, merging, splitting, and saying in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from chatwrap.chat.history import ChatHistory, ChatModelResponse
from chatwrap.wrapper.base import ChatWrapper
from chatwrap.wrapper.jinja_messages import fold_system, merge_neighbours, set_text_apart, split_calls


@dataclass(frozen=True, slots=True)
class Step:
    """A change that may make a template take a history, and what to tell of it."""

    told: str
    change: Callable[[ChatHistory], ChatHistory]


# What a template can't express is said in words that are content in any format.
IN_WORDS: Final = ChatWrapper()


def _calls_as_text(history: ChatHistory) -> ChatHistory:
    return tuple(
        ChatModelResponse(response=(str(IN_WORDS.generate_model_response_text(item.response)),))
        if isinstance(item, ChatModelResponse)
        else item
        for item in history
    )


FOLD: Final = Step("system: folded into the user message behind it.", fold_system)
MERGE: Final = Step("neighbours of one role: merged.", merge_neighbours)
_APART: Final = Step("text before function calls: a message of its own.", set_text_apart)
_ONE_BY_ONE: Final = Step("parallel function calls: made one after the other.", split_calls)
_AS_TEXT: Final = Step("function calls: written in the default syntax as the model's text.", _calls_as_text)
CALL_ADAPTATIONS: Final = ((), (_APART,), (_ONE_BY_ONE,), (_APART, _ONE_BY_ONE), (_AS_TEXT,))


def applied(steps: Iterable[Step], history: ChatHistory) -> ChatHistory:
    """`history` changed by all steps."""
    for step in steps:
        history = step.change(history)
    return history
