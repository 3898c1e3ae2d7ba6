"""From a request and its prompt to how the answer is constrained and read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import Final

from chatwrap.chat.history import SegmentType
from chatwrap.chat.slotted import as_slotted
from chatwrap.chat.syntax import (
    ChatWrapperSettings,
    FunctionCallSyntax,
    FunctionResultSyntax,
    FunctionsSyntax,
)
from chatwrap.chat.text import LlamaText, SpecialToken, SpecialTokensText
from chatwrap.engine.calls import CallConstraint, TokenConstraint
from chatwrap.engine.formats import RequestFormat
from chatwrap.engine.generate import AnswerPlan
from chatwrap.engine.prompt import Prompt
from chatwrap.engine.reading import OutputReader, PlainReader
from chatwrap.engine.record import CallEdges
from chatwrap.engine.replay import continuation_ids
from chatwrap.engine.request import AnswerRequest
from chatwrap.engine.vocabulary import Vocabulary
from chatwrap.errors import OptionError
from chatwrap.output.opened import opened_segment
from chatwrap.output.parser import OutputParser
from chatwrap.tokens.special import special_tokens_of
from chatwrap.wrapper.base import ContextState

_NO_CALLS: Final = FunctionsSyntax(
    call=FunctionCallSyntax(prefix="", params_prefix="", suffix="", optional_prefix_space=False),
    result=FunctionResultSyntax(prefix="", suffix=""),
)


def answer_plan(
    request: AnswerRequest,
    prompt: Prompt,
    form: RequestFormat,
) -> AnswerPlan:
    """How the answer to a prompt is constrained and read.

    Raises `OptionError` for a grammar beside functions and for thoughts that can't be closed, and what
    `CallConstraint.compiled` does.
    """
    settings, vocabulary = form.settings, form.vocabulary
    markers = special_tokens_of(vocabulary).markers_in(form.wrapper.control_texts)
    opened = opened_segment(prompt.state.context_text, settings)
    syntax = settings.segments.of(opened) if opened else None
    budget = request.thought_budget if settings.segments.thought else None
    return AnswerPlan(
        reader=_reader(request, settings, vocabulary, markers, opened),
        markers=markers,
        constraint=_constraint(request, settings, vocabulary, opened, prompt.state),
        ignore_start_text=prompt.state.ignore_start_text,
        opened=opened,
        opening=as_slotted(syntax.prefix).fill({}) if syntax else None,
        call_edges=CallEdges.of(settings.functions),
        max_calls=request.max_parallel_function_calls,
        thought_budget=budget,
        thought_end_ids=() if budget is None else _thought_end_ids(settings, form.encode),
        response_format=request.response_format if request.validates else None,
        shortening=prompt.shortening,
    )


def _reader(
    request: AnswerRequest,
    settings: ChatWrapperSettings,
    vocabulary: Vocabulary,
    markers: Collection[str],
    opened: SegmentType | None,
) -> OutputReader:
    """What makes events of the answer: where no function may be called, none of it is a call."""
    segments = settings.segments
    has_segments = segments.thought or segments.comment or segments.text
    if not request.offered and not has_segments:
        return PlainReader()
    control_tokens = (entry.text for entry in vocabulary.special_tokens.values() if not entry.user_defined)
    return OutputParser(
        settings if request.offered else replace(settings, functions=_NO_CALLS),
        functions=request.offered,
        special_tokens=[*filter(None, control_tokens), *markers],
        opened=opened,
    )


def _constraint(
    request: AnswerRequest,
    settings: ChatWrapperSettings,
    vocabulary: Vocabulary,
    opened: SegmentType | None,
    state: ContextState,
) -> TokenConstraint | None:
    """What the answer may be, where functions or thoughts make it more than one grammar's text."""
    if request.options.grammar is not None:
        if request.tool_choice not in ("auto", "none"):
            remedy = "Give one of them, or the tool choice 'none'."
            raise OptionError.of("grammar", "given together with a call that is demanded.", remedy)
        return None
    is_shaped = request.response_format is not None
    if not request.offered and not (is_shaped and (opened or settings.segments.thought)):
        return None
    constraint = CallConstraint(
        request.offered,
        request.tool_choice,
        request.max_parallel_function_calls,
        request.response_format,
        unsupported="error" if request.strict_functions else "relax",
    )
    return constraint.compiled(
        settings,
        vocabulary,
        opened=opened,
        stops=_stop_texts(state.stop_generation_triggers),
        prompt_end=_control_end(state.context_text),
    )


def _control_end(text: LlamaText) -> str:
    """The control text that a prompt ends in: where the format may have begun the answer's first mark."""
    last = text.values[-1] if text.values else ""
    return last.value if isinstance(last, SpecialTokensText) else ""


def _stop_texts(triggers: Iterable[LlamaText]) -> Iterator[str]:
    """The stop triggers that have a text of their own, which roles don't."""
    for trigger in triggers:
        if not any(isinstance(value, SpecialToken) for value in trigger.values):
            yield str(trigger)


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
