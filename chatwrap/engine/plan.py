"""From a request and its prompt to how the answer is read."""

from __future__ import annotations

from collections.abc import Callable

from chatwrap.chat.slotted import as_slotted
from chatwrap.chat.syntax import ChatWrapperSettings
from chatwrap.chat.text import LlamaText
from chatwrap.engine.generate import AnswerPlan
from chatwrap.engine.prompt import Prompt
from chatwrap.engine.reading import PlainReader
from chatwrap.engine.replay import continuation_ids
from chatwrap.engine.request import AnswerRequest
from chatwrap.engine.vocabulary import Vocabulary
from chatwrap.errors import OptionError


def answer_plan(
    request: AnswerRequest,
    prompt: Prompt,
    settings: ChatWrapperSettings,
    vocabulary: Vocabulary,
    encode: Callable[[LlamaText], list[int]],
) -> AnswerPlan:
    """How the answer to a prompt is read. Raises `OptionError` for thoughts that can't be closed."""
    thought = settings.segments.thought
    budget = request.thought_budget if thought else None
    return AnswerPlan(
        reader=PlainReader(vocabulary),
        ignore_start_text=prompt.state.ignore_start_text,
        max_calls=request.max_parallel_function_calls,
        thought_budget=budget,
        thought_end_ids=() if budget is None else _thought_end_ids(settings, encode),
        response_format=request.response_format,
        shortening=prompt.shortening,
    )


def _thought_end_ids(
    settings: ChatWrapperSettings, encode: Callable[[LlamaText], list[int]]
) -> tuple[int, ...]:
    """The ids of the text by which the format ends a thought."""
    segments = settings.segments
    end = segments.thought.suffix if segments.thought else None
    if not (text := as_slotted(end or segments.close_all_segments or "").fill({})):
        problem = "the format has no text that ends a thought."
        raise OptionError.of("thought_budget", problem, "Leave it out.")
    return tuple(continuation_ids(text, encode))
