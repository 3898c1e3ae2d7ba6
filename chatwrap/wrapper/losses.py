"""What a history holds, and whether all of it stands in a prompt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chatwrap.chat.history import ChatHistory, ChatModelFunctionCall, ChatModelResponse, ChatSystemMessage
from chatwrap.chat.json_text import dump_json
from chatwrap.errors import Fault, HistoryError


@dataclass(frozen=True, slots=True)
class Outline:
    """What kinds of things a history holds. `has_text_before_calls`: a call right behind a text.
    `has_parallel_calls`: one right behind another, not in a chunk of its own.
    """

    has_system: bool
    has_calls: bool
    has_text_before_calls: bool
    has_parallel_calls: bool

    @classmethod
    def of(cls, history: ChatHistory) -> Outline:
        """The outline of a history; one pass."""
        has_system = has_calls = before_calls = parallel = False
        for item in history:
            if isinstance(item, ChatSystemMessage):
                has_system = True
            elif isinstance(item, ChatModelResponse):
                for index, part in enumerate(item.response):
                    if isinstance(part, ChatModelFunctionCall):
                        has_calls = True
                        before = item.response[index - 1] if index else ""
                        before_calls = before_calls or (isinstance(before, str) and bool(before))
                        beside = isinstance(before, ChatModelFunctionCall)
                        parallel = parallel or (beside and not part.starts_new_chunk)
        return cls(has_system, has_calls, before_calls, parallel)


def check_losses(history: ChatHistory, tools: Any, prompt: str) -> None:
    """Raises `HistoryError` unless each text, call, result and function is in the prompt.

    Thoughts may be left out. A text that occurs twice must stand there twice. Linear where the prompt
    keeps the history's order.
    """
    lost = [
        f"functions.{tool['function']['name']}"
        for tool in tools or ()
        if tool["function"]["name"] not in prompt
    ]
    lost += _lost_texts(history, prompt)
    if lost:
        raise HistoryError(
            Fault(where, "the template drops or edits it.", "Use another format, or leave it out.")
            for where in lost
        )


def _lost_texts(history: ChatHistory, prompt: str) -> Iterator[str]:
    position = 0
    n_seen: dict[str, int] = {}
    for where, text, is_model_text in _texts(history):
        stripped = text.strip()
        n_seen[stripped] = n_seen.get(stripped, 0) + 1
        at = prompt.find(stripped, position)
        if at >= 0:
            position = at + len(stripped)
        elif not _stands_in(prompt, text, n_seen[stripped], is_model_text=is_model_text):
            yield where


def _stands_in(prompt: str, text: str, count: int, *, is_model_text: bool) -> bool:
    """Whether the prompt has `text` `count` times: trimmed, as JSON, or a model's without its thought."""
    if prompt.count(text.strip()) >= count or prompt.count(dump_json(text)[1:-1].strip()) >= count:
        return True
    return is_model_text and text.rpartition("</think>")[2].strip() in prompt


def _texts(history: ChatHistory) -> Iterator[tuple[str, str, bool]]:
    """Where each text of a history stands, the text, and whether the model said it."""
    for index, item in enumerate(history):
        where = f"history[{index}]"
        if not isinstance(item, ChatModelResponse):
            yield where, str(item.text), False
            continue
        for number, part in enumerate(item.response):
            if isinstance(part, str):
                yield f"{where}.response[{number}]", part, True
            elif isinstance(part, ChatModelFunctionCall):
                yield f"{where}.response[{number}].name", part.name, False
                if isinstance(part.result, str):
                    yield f"{where}.response[{number}].result", part.result, False
