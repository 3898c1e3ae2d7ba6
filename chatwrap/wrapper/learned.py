"""How a chat template writes function calls, results and thoughts, learned by rendering probes.

What stands between the marks of a call, of two calls and of their results is compared; where the texts
part inside a tag or a word, the border is moved to its edge. What was learned is tried on other calls
and kept only if it writes what the template writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import JsonValue

from chatwrap.chat.history import ChatHistory, ChatModelFunctionCall
from chatwrap.chat.json_text import dump_json
from chatwrap.chat.notation import ArgumentNotation, JsonNotation, KeywordNotation
from chatwrap.chat.openai import result_text
from chatwrap.chat.slotted import as_slotted
from chatwrap.chat.syntax import (
    ChatWrapperSettings,
    FunctionCallSyntax,
    FunctionResultSyntax,
    FunctionsSyntax,
    ParallelCallsSyntax,
    SegmentsSyntax,
    SegmentSyntax,
)
from chatwrap.chat.text import LlamaText, control
from chatwrap.wrapper import probe
from chatwrap.wrapper.arguments import written_arguments
from chatwrap.wrapper.base import ChatWrapper
from chatwrap.wrapper.definition import builtin_definitions
from chatwrap.wrapper.edges import UNIT, snapped_prefix, snapped_suffix
from chatwrap.wrapper.jinja_messages import MessageShape, messages_of
from chatwrap.wrapper.probe import ANSWER, NAMES, NEXT_USER, RESULTS, THOUGHT, USER, VALUES, Prober
from chatwrap.wrapper.tagged import KEYS, NUMBER, tagged_notations
from chatwrap.wrapper.template import TemplateChatWrapper

_TAGGED_CALL: Final = ChatModelFunctionCall(
    name=NAMES[0], arguments={KEYS[0]: VALUES[0], KEYS[1]: VALUES[1], KEYS[2]: NUMBER}, result=RESULTS[0]
)
_CALL_ID: Final = re.compile(r"call\d{5}")


@dataclass(frozen=True, slots=True)
class LearnedSyntax:
    """A template's own syntax, None where it can't be said in these terms.

    `quotes_results` tells whether results are written as JSON strings; else as they are. `parts` are the
    marks of a template whose model writes each part of its turn as a message of its own. `reopening` opens
    the model's turn again behind results, where the results' own syntax doesn't.
    """

    functions: FunctionsSyntax | None
    thought: SegmentSyntax | None
    quotes_results: bool = False
    parts: SegmentsSyntax | None = None
    reopening: LlamaText | None = None

    @property
    def segments(self) -> SegmentsSyntax:
        """How the template marks thoughts and other parts."""
        return self.parts or SegmentsSyntax(thought=self.thought)


class _Speaker(ChatWrapper):
    """Writes calls and results in a syntax."""

    def __init__(self, functions: FunctionsSyntax, *, quotes_results: bool) -> None:
        self.settings = ChatWrapperSettings(functions=functions)
        self._quotes_results = quotes_results

    def _written_result(self, function_name: str, result: Any) -> str:
        return written_result(result, quoted=self._quotes_results)


def written_result(result: Any, *, quoted: bool) -> str:
    """A result as a template writes the content of its message: as it is, or as a JSON string."""
    text = result_text(result)
    return dump_json(text) if quoted else text


def learn_syntax(prober: Prober) -> LearnedSyntax:
    """What a template writes around calls and thoughts. Costs about 40 renders of short histories.

    Calls with JSON arguments are learned; if a template's can't be, the syntax of a built-in format that
    writes the same calls is taken; if there is none, other notations of arguments are learned.
    """
    thought = _thought(prober)
    for shape in prober.shapes_with_calls()[:1]:
        learner = _CallLearner(prober, shape)
        if functions := learner.functions():
            return LearnedSyntax(functions, thought, learner.quotes_results)
        if known := learner.known():
            return replace(known, thought=thought)
        for notation in learner.notations():
            if functions := learner.functions(notation):
                return LearnedSyntax(functions, thought, learner.quotes_results)
    return LearnedSyntax(None, thought)


def _thought(prober: Prober) -> SegmentSyntax | None:
    shape = prober.shape
    asked, plain_answer = probe.user(), probe.answer(ANSWER)
    text = _text(prober, shape, (asked, probe.answer(probe.thought(), ANSWER)), generation_prompt=False)
    if text is None or not 0 <= text.find(THOUGHT) < text.find(ANSWER):
        return None
    others = (
        _text(prober, shape, (asked,)),
        _text(prober, shape, (asked, plain_answer), generation_prompt=False),
        _text(prober, shape, (asked, plain_answer, probe.user(NEXT_USER))),
    )
    before, _, behind = text.partition(THOUGHT)
    start = _answer_start(before, others)
    if not before[start:].strip():  # every answer begins with the mark, so that no prompt parts from it
        start = max((unit.start() for unit in UNIT.finditer(before) if unit.end() == start), default=start)
    prefix = before[start:]
    return SegmentSyntax(control(prefix), control(behind.partition(ANSWER)[0])) if prefix.strip() else None


def _text(
    prober: Prober,
    shape: MessageShape,
    history: ChatHistory,
    *,
    tools: Any = None,
    generation_prompt: bool = True,
) -> str | None:
    return prober.text_or_none(messages_of(history, shape), tools, add_generation_prompt=generation_prompt)


def _answer_start(text: str, others: Sequence[str | None]) -> int:
    """Where the model's turn begins in `text`: at the earliest place where another prompt parts from it."""
    lengths = [snapped_prefix(text, other) for other in others if other is not None]
    return max(min(lengths, default=0), text.find(USER) + len(USER))


@dataclass(slots=True)
class _CallLearner:
    """Learns the syntax of calls that are spelled in one way."""

    prober: Prober
    shape: MessageShape
    quotes_results: bool = False

    def functions(self, notation: ArgumentNotation | None = None) -> FunctionsSyntax | None:
        """The syntax of calls whose arguments are written so (by default as JSON)."""
        notation = notation or JsonNotation()
        one = self._pieces(notation, probe.call(0))
        if one is None:
            return None
        two = self._pieces(notation, probe.call(0), probe.call(1))
        learned = _single(one) if two is None else _parallel(one, two)
        learned = replace(learned, call=_without_arguments(learned.call, notation))
        learned, self.quotes_results = _without_quotes(learned)
        return learned if _is_marked(learned) and self._writes_the_same(learned) else None

    def known(self) -> LearnedSyntax | None:
        """The syntax of the first built-in format that writes calls as the template does."""
        groups = [*_other_calls(parallel=False), *_other_calls(parallel=True)]
        texts = [
            self._text(probe.user(), probe.answer(*calls, ANSWER), probe.user(NEXT_USER)) for calls in groups
        ]
        for definition in builtin_definitions():
            wrapper = definition.wrapper
            n_groups = len(groups) if wrapper.settings.functions.parallelism else 2
            written = [str(wrapper.generate_function_calls_and_results(calls)) for calls in groups[:n_groups]]
            if all(text is not None and one in text for text, one in zip(texts, written, strict=False)):
                return _known(wrapper, f"{texts[0]}".partition(written[0])[2].partition(ANSWER)[0])
        return None

    def notations(self) -> Iterator[ArgumentNotation]:
        """The ways to write arguments, besides JSON, that a call of the template may be in."""
        text = self._text(probe.user(), probe.answer(_TAGGED_CALL, ANSWER), probe.user(NEXT_USER))
        if text is not None:
            yield from tagged_notations(text, _TAGGED_CALL)
        yield KeywordNotation()
        yield KeywordNotation(mappings="json")

    def _pieces(self, notation: ArgumentNotation, *calls: ChatModelFunctionCall) -> _Pieces | None:
        """The texts between the marks of calls made together, None if anything else is between them."""
        text = self._text(probe.user(), probe.answer(*calls, ANSWER), probe.user(NEXT_USER))
        if text is None:
            return None
        start = _answer_start(text, self._others())
        arguments = [str(written_arguments(notation, {"key": value}, where="probe")) for value in VALUES]
        marks = [mark for pair in zip(NAMES, arguments, strict=True) for mark in pair][: 2 * len(calls)]
        between = _between(text, start, [*marks, *RESULTS[: len(calls)], ANSWER])
        ending = self._call_ending(calls[0], arguments[0])
        if between is None or ending is None or not between[2 * len(calls)].startswith(ending):
            return None
        return _Pieces(tuple(between), ending)

    def _others(self) -> tuple[str | None, ...]:
        asked = probe.user()
        return self._text(asked), self._text(asked, probe.answer(ANSWER), probe.user(NEXT_USER))

    def _call_ending(self, call: ChatModelFunctionCall, arguments: str) -> str | None:
        """What stands behind a call that has no result yet."""
        unanswered = ChatModelFunctionCall(name=call.name, arguments=call.arguments)
        text = self._text(probe.user(), probe.answer(unanswered), generation_prompt=False)
        return text.rpartition(arguments)[2] if text is not None and arguments in text else None

    def _text(self, *history: Any, generation_prompt: bool = True) -> str | None:
        tools = probe.tools_named("other")
        return _text(self.prober, self.shape, history, tools=tools, generation_prompt=generation_prompt)

    def _writes_the_same(self, learned: FunctionsSyntax) -> bool:
        """Whether other calls than those learned from come out as the template writes them."""
        groups = [
            *_other_calls(parallel=False),
            *(_other_calls(parallel=True) if learned.parallelism else ()),
        ]
        return all(self._writes(learned, group) for group in groups)

    def _writes(self, learned: FunctionsSyntax, calls: tuple[ChatModelFunctionCall, ...]) -> bool:
        text = self._text(probe.user(), probe.answer(*calls, ANSWER), probe.user(NEXT_USER))
        written = _Speaker(learned, quotes_results=self.quotes_results).generate_function_calls_and_results(
            calls
        )
        return text is not None and f"{written}{ANSWER}" in text


def _known(wrapper: TemplateChatWrapper, before_answer: str) -> LearnedSyntax:
    """The syntax of a format, in a template that writes this between results and the answer."""
    settings = wrapper.settings
    text = settings.segments.text
    mark = str(as_slotted(text.prefix).fill({})) if text else ""
    return LearnedSyntax(
        settings.functions,
        thought=None,
        quotes_results=wrapper.quotes_results,
        parts=settings.segments if text or settings.segments.between_parts else None,
        reopening=control(before_answer.removesuffix(mark)),
    )


def _other_calls(*, parallel: bool) -> tuple[tuple[ChatModelFunctionCall, ...], ...]:
    """Groups of calls that nothing was learned from: one at a time, or three made together, since two
    could be told apart by their numbers.
    """
    arguments: dict[str, JsonValue] = {"a": 1, "b": ["é y", None, {"k": True}], "c": "é <y>", "d": True}
    arguments |= {"e": 1.5, "g": {"h": None}}
    first = ChatModelFunctionCall(name="look_up", arguments=arguments, result={"c": "é"})
    second = ChatModelFunctionCall(name="go", arguments={}, result="on")
    return ((first, second, first),) if parallel else ((first,), (second,))


def _without_arguments(call: FunctionCallSyntax, notation: ArgumentNotation) -> FunctionCallSyntax:
    """`call` in this notation; JSON is never absent where templates get their arguments as an object."""
    absent: JsonValue = {} if isinstance(notation, JsonNotation) else ""
    return replace(call, arguments=notation, empty_call_params_placeholder=absent)


@dataclass(frozen=True, slots=True)
class _Pieces:
    """The texts before each name, arguments, result and the answer, and what ends a call by itself."""

    between: tuple[str, ...]
    call_ending: str


def _between(text: str, start: int, marks: Sequence[str]) -> list[str] | None:
    """What stands before each mark, from `start` on; None if one is missing or a call's id is printed."""
    pieces = []
    for mark in marks:
        at = text.find(mark, start)
        if at < 0 or _CALL_ID.search(text, start, at):
            return None
        pieces.append(text[start:at])
        start = at + len(mark)
    return pieces


def _is_marked(learned: FunctionsSyntax) -> bool:
    """Whether anything tells a call from other text before its name."""
    section = learned.parallelism.section_prefix if learned.parallelism else ""
    return bool(f"{section}{learned.call.prefix}".strip())


def _single(one: _Pieces) -> FunctionsSyntax:
    before, params_prefix, ending, behind = one.between
    return FunctionsSyntax(
        FunctionCallSyntax(control(before), control(params_prefix), control(one.call_ending)),
        FunctionResultSyntax(control(ending[len(one.call_ending) :]), control(behind)),
    )


def _parallel(one: _Pieces, two: _Pieces) -> FunctionsSyntax:
    before, params_prefix, ending, behind = one.between
    calls = _Framed.of(before, two.between[2], one.call_ending)
    results = _Framed.of(ending[len(one.call_ending) :], two.between[5], behind)
    return FunctionsSyntax(
        FunctionCallSyntax(control(calls.prefix), control(params_prefix), control(calls.suffix)),
        FunctionResultSyntax(control(results.prefix), control(results.suffix)),
        ParallelCallsSyntax(
            section_prefix=control(calls.opening),
            between_calls=control(calls.separator),
            section_suffix=control(calls.closing),
            result_section_prefix=control(results.opening),
            between_results=control(results.separator),
            result_section_suffix=control(results.closing),
        ),
    )


@dataclass(frozen=True, slots=True)
class _Framed:
    """Entries in a section: ``opening prefix entry suffix separator prefix entry suffix closing``."""

    opening: str
    prefix: str
    suffix: str
    separator: str
    closing: str

    @classmethod
    def of(cls, before: str, between: str, behind: str) -> _Framed:
        """Cuts the texts before the first entry, between two, and behind the last."""
        n_suffix = snapped_prefix(between, behind)
        rest = between[n_suffix:]
        n_prefix = snapped_suffix(before, rest)
        return cls(
            opening=before[: len(before) - n_prefix],
            prefix=rest[len(rest) - n_prefix :],
            suffix=between[:n_suffix],
            separator=rest[: len(rest) - n_prefix],
            closing=behind[n_suffix:],
        )


def _without_quotes(learned: FunctionsSyntax) -> tuple[FunctionsSyntax, bool]:
    """The syntax without the quotes of a JSON string around results, and whether there were any."""
    prefix, suffix = str(learned.result.prefix), str(learned.result.suffix)
    if not (prefix.endswith('"') and suffix.startswith('"')):
        return learned, False
    result = FunctionResultSyntax(control(prefix[:-1]), control(suffix[1:]))
    return FunctionsSyntax(learned.call, result, learned.parallelism), True
