"""How a chat template writes function calls, results and thoughts, learned by rendering probes.

What stands between the marks of a call, of two calls and of their results is compared; where the texts
part inside a tag or a word, the border is moved to its edge. What was learned is tried on other calls
and kept only if it writes what the template writes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from chatwrap.chat.history import ChatHistory, ChatModelFunctionCall
from chatwrap.chat.json_text import dump_json
from chatwrap.chat.openai import result_text
from chatwrap.chat.syntax import (
    ChatWrapperSettings,
    FunctionCallSyntax,
    FunctionResultSyntax,
    FunctionsSyntax,
    ParallelCallsSyntax,
    SegmentSyntax,
)
from chatwrap.chat.text import control
from chatwrap.wrapper import probe
from chatwrap.wrapper.base import ChatWrapper
from chatwrap.wrapper.jinja_messages import MessageShape, messages_of
from chatwrap.wrapper.likeness import first_difference
from chatwrap.wrapper.probe import ANSWER, NAMES, NEXT_USER, RESULTS, THOUGHT, USER, VALUES, Prober

_UNIT: Final = re.compile(r"<[^<>\s]*>|\[[A-Z_/]+\]|\w+")
_CALL_ID: Final = re.compile(r"call\d{5}")


@dataclass(frozen=True, slots=True)
class LearnedSyntax:
    """A template's own syntax, None where it can't be said in these terms.

    `quotes_results` tells whether results are written as JSON strings; else as they are.
    """

    functions: FunctionsSyntax | None
    thought: SegmentSyntax | None
    quotes_results: bool = False


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
    """What a template writes around calls and thoughts. Costs about 20 renders of short histories."""
    learner = next((_CallLearner(prober, shape) for shape in prober.shapes_with_calls()), None)
    functions = learner.functions() if learner else None
    quotes_results = learner is not None and functions is not None and learner.quotes_results
    return LearnedSyntax(functions, _thought(prober), quotes_results)


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
        start = max((unit.start() for unit in _UNIT.finditer(before) if unit.end() == start), default=start)
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
    lengths = [_snapped_prefix(text, other) for other in others if other is not None]
    return max(min(lengths, default=0), text.find(USER) + len(USER))


def _snapped_prefix(first: str, second: str) -> int:
    """The length of the common prefix, moved back to the edge of a tag or word."""
    length = first_difference(first, second)
    return min(_edge(text, length, backwards=True) for text in (first, second))


def _snapped_suffix(first: str, second: str) -> int:
    """The length of the common suffix, moved on to the edge of a tag or word."""
    length = first_difference(first[::-1], second[::-1])
    starts = (_edge(text, len(text) - length, backwards=False) for text in (first, second))
    return min(len(text) - start for text, start in zip((first, second), starts, strict=True))


def _edge(text: str, index: int, *, backwards: bool) -> int:
    for unit in _UNIT.finditer(text):
        if unit.start() < index < unit.end():
            return unit.start() if backwards else unit.end()
    return index


@dataclass(slots=True)
class _CallLearner:
    """Learns the syntax of calls that are spelled in one way."""

    prober: Prober
    shape: MessageShape
    quotes_results: bool = False

    def functions(self) -> FunctionsSyntax | None:
        one = self._pieces(probe.call(0))
        if one is None:
            return None
        two = self._pieces(probe.call(0), probe.call(1))
        learned = _single(one) if two is None else _parallel(one, two)
        learned, self.quotes_results = _without_quotes(learned)
        return learned if _is_marked(learned) and self._writes_the_same(learned) else None

    def _pieces(self, *calls: ChatModelFunctionCall) -> _Pieces | None:
        """The texts between the marks of calls made together, None if anything else is between them."""
        text = self._text(probe.user(), probe.answer(*calls, ANSWER), probe.user(NEXT_USER))
        if text is None:
            return None
        start = _answer_start(text, self._others())
        arguments = [dump_json({"key": value}) for value in VALUES]
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
        calls = (
            ChatModelFunctionCall(name="look_up", arguments={"a": 1, "b": ["é y", None]}, result={"c": "é"}),
            ChatModelFunctionCall(name="go", arguments={}, result="on"),
        )
        together = (*calls, calls[0])  # three, since two could be told apart by their numbers
        groups = [calls[:1], calls[1:], *([together] if learned.parallelism else [])]
        return all(self._writes(learned, group) for group in groups)

    def _writes(self, learned: FunctionsSyntax, calls: tuple[ChatModelFunctionCall, ...]) -> bool:
        text = self._text(probe.user(), probe.answer(*calls, ANSWER), probe.user(NEXT_USER))
        written = _Speaker(learned, quotes_results=self.quotes_results).generate_function_calls_and_results(
            calls
        )
        return text is not None and f"{written}{ANSWER}" in text


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
        n_suffix = _snapped_prefix(between, behind)
        rest = between[n_suffix:]
        n_prefix = _snapped_suffix(before, rest)
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
