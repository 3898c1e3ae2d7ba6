"""The token loop: prompt ids in, text out. Sessions, models and the chat handler all run this one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias

import llama_cpp

from chatwrap.chat.events import Diagnostic, FinishReason, ParserEvent, TextEvent
from chatwrap.chat.history import ChatModelFunctionCall, ChatModelResponse, SegmentType
from chatwrap.chat.text import LlamaText
from chatwrap.engine.calls import TokenConstraint
from chatwrap.engine.context import Shortening
from chatwrap.engine.evaluate import Evaluator, context_size
from chatwrap.engine.logprobs import LogprobRecorder, TokenLogprob
from chatwrap.engine.reading import OutputReader, RawText, StartFilter
from chatwrap.engine.record import AnswerRecord, CallEdges
from chatwrap.engine.response_format import ResponseFormat
from chatwrap.engine.sampling import SamplingOptions
from chatwrap.engine.turns import turns_of
from chatwrap.engine.vocabulary import vocabulary_of
from chatwrap.errors import ContextOverflowError, HistoryError, ModelError
from chatwrap.output.pieces import AnswerPieces, Piece
from chatwrap.output.stop import Stop, StopDetector

Abort: TypeAlias = Callable[[], bool] | threading.Event


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of an answer: text that is certain, and the token ids sampled since the last chunk.

    A token's text may come in a later chunk than its id: what could begin a stop or a mark is held
    back. `events` tell what the chunk's text is: answer, thought, function call; `text` is that of the
    answer alone. `logprobs` has one entry a token where they were asked for, and not for the stop's.
    """

    text: str
    token_ids: tuple[int, ...]
    events: tuple[ParserEvent, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """A whole answer. `stop` says what ended it, None unless `finish_reason` is ``"stop"``.

    `response` are its parts: texts, thoughts, function calls; `text` is the answer's text alone, and
    `output` all that the model wrote of these, marks included. `token_ids` are all sampled ids, that of
    the stop included. Law: the chunks' texts joined are `text`, their ids joined are `token_ids`.
    `value` is what the text says in the response format asked for, validated; None without one.
    `diagnostics` tell what of the output couldn't be read as the format means it, `shortening` what was
    left out of the prompt.
    """

    text: str
    finish_reason: FinishReason
    stop: Stop | None
    n_prompt_tokens: int
    token_ids: tuple[int, ...]
    value: Any = None
    response: ChatModelResponse = field(default_factory=ChatModelResponse)
    output: LlamaText = field(default_factory=LlamaText)
    diagnostics: tuple[Diagnostic, ...] = ()
    shortening: Shortening | None = None

    @property
    def n_completion_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def function_calls(self) -> tuple[ChatModelFunctionCall, ...]:
        """The calls that the answer makes, in order."""
        return tuple(part for part in self.response.response if isinstance(part, ChatModelFunctionCall))


@dataclass(frozen=True, slots=True)
class AnswerPlan:
    """What an answer may be, how it is read, and what ends it besides its stops.

    `constraint` is a grammar of all of it. `reader` makes events of the output, in which the user-defined
    tokens `markers` are special; `ignore_start_text` is dropped from its start if it stands there.
    `opened` is the segment that the prompt has opened, `opening` its mark. An answer has at most
    `max_calls` function calls, and `call_edges` tell where the text of each begins and ends. After
    `thought_budget` tokens of thoughts the open one is closed by `thought_end_ids`.
    """

    reader: OutputReader
    markers: Collection[str] = ()
    constraint: TokenConstraint | None = None
    ignore_start_text: str = ""
    opened: SegmentType | None = None
    opening: LlamaText | None = None
    call_edges: CallEdges = field(default_factory=CallEdges)
    max_calls: int | None = None
    thought_budget: int | None = None
    thought_end_ids: tuple[int, ...] = ()
    response_format: ResponseFormat | None = None
    shortening: Shortening | None = None


class Generation(Iterator[Chunk]):
    """An answer being generated: iterate over it for its chunks, then read `result`.

    Nothing is evaluated before the first chunk is asked for. `close` (or leaving its ``with`` block)
    ends it with the finish reason ``"abort"``; so does `abort`, looked at before every batch of the
    prompt and every token. Whatever ends it, the model can be used again.

    Raises `ContextOverflowError` if the prompt leaves no room for an answer, `HistoryError` if it is
    empty, `OptionError` and `GrammarError` for options the model can't follow, and while iterating
    `ModelError` if llama.cpp fails. With `wait`, an answer to another thread is waited for.

    With a response format the last step raises `AnswerError` where the answer was cut short (by
    `max_tokens`, a stop or `abort`) or isn't valid.
    """

    def __init__(
        self,
        llama: llama_cpp.Llama,
        prompt_ids: Sequence[int],
        detector: StopDetector,
        options: SamplingOptions,
        plan: AnswerPlan,
        *,
        n_top_logprobs: int | None = None,
        abort: Abort | None = None,
        wait: bool = True,
    ) -> None:
        self._turn = turns_of(llama).turn(wait=wait)
        self._plan = plan
        vocabulary = vocabulary_of(llama)
        self._logprobs = None if n_top_logprobs is None else LogprobRecorder(vocabulary, n_top_logprobs)
        if self._logprobs is not None:
            options = replace(options, logits_processor=(*options.logits_processors, self._logprobs))
        self._evaluator = Evaluator(llama, options, self._turn, constraint=plan.constraint)
        self.prompt_ids = tuple(prompt_ids)
        self._n_most = _room(self.prompt_ids, llama, options)
        self._pieces = AnswerPieces(detector, vocabulary, plan.markers)
        self._start = StartFilter(plan.ignore_start_text)
        self._record = AnswerRecord(plan.call_edges, opening=plan.opening, max_calls=plan.max_calls)
        self._budget = plan.thought_budget
        self._aborted = _AbortCheck(abort)
        self._texts: list[str] = []
        self._output: list[Piece] = []
        self._token_ids: list[int] = []
        self._token_logprobs: list[TokenLogprob] = []
        self._n_given_ids = 0
        self._result: GenerationResult | None = None
        self._chunks = self._run()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Chunk:
        return next(self._chunks)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the answer here; what was generated is in `result`. Does nothing after the end."""
        self._chunks.close()
        self._finish("abort")

    @property
    def result(self) -> GenerationResult:
        """The whole answer, once it has ended. Raises `ModelError` before that."""
        if self._result is None:
            raise ModelError("result: the answer hasn't ended. Iterate over it to its end, or close it.")
        return self._result

    @property
    def partial_value(self) -> Any:
        """What the answer says so far in the response format; see `ResponseFormat.partial_value`.

        None without one. The validated value is `result.value`.
        """
        form = self._plan.response_format
        return form and form.partial_value("".join(self._texts))

    def _run(self) -> Generator[Chunk, None, None]:
        try:
            with self._turn.taken(self._aborted):
                yield from self._chunks_until_end()
            if (tail := self._tail()) is not None:
                yield tail
            self._finish(self._reason())
            if self._plan.response_format is not None and not self.result.function_calls:
                value = self._plan.response_format.value_of(self.result)
                self._result = replace(self.result, value=value)
        finally:
            self._finish("abort")

    def _chunks_until_end(self) -> Iterator[Chunk]:
        """Chunks until the answer ends. A thought's end is put in by evaluating on from there."""
        while True:
            if self._exceeds_budget():
                for token_id in self._evaluator.admitted(self._plan.thought_end_ids):
                    if not self._is_over() and (chunk := self._taken(token_id, sampled=False)):
                        yield chunk
            if self._is_over():
                return
            with closing(self._evaluator.ids([*self.prompt_ids, *self._token_ids], self._aborted)) as ids:
                for token_id in ids:
                    if (chunk := self._taken(token_id)) is not None:
                        yield chunk
                    if self._is_over() or self._exceeds_budget():
                        break
                else:
                    return

    def _taken(self, token_id: int, *, sampled: bool = True) -> Chunk | None:
        """The chunk that is certain after one more token."""
        self._token_ids.append(token_id)
        if self._budget is not None and self._is_thinking:
            self._budget -= 1
        pieces = self._pieces.feed(token_id)
        if self._logprobs is not None and sampled and self._pieces.stop is None:
            self._token_logprobs.append(self._logprobs.entry(token_id))
        self._output += pieces
        return self._read(self._start.feed(pieces))

    def _read(self, pieces: Sequence[Piece]) -> Chunk | None:
        if not pieces:
            return None
        self._record.write(pieces)
        events = tuple(self._record.admit(self._plan.reader.feed(pieces)))
        return self._chunk(events) if events else None

    def _tail(self) -> Chunk | None:
        """What was held back until the end, with the ids that no chunk has yet."""
        rest = self._pieces.flush()
        self._output += rest
        pieces = [*self._start.feed(rest), *self._start.flush()]
        self._record.write(pieces)
        stop = self._pieces.stop
        stopped_by = stop.text if stop and stop.reason != "stop_string" else ""
        reader = self._plan.reader
        held = [*reader.feed(pieces), *reader.flush(stopped_by=stopped_by)]
        events = tuple(self._record.admit(held))
        return self._chunk(events) if events or self._n_given_ids < len(self._token_ids) else None

    def _is_over(self) -> bool:
        n_ids = len(self._token_ids)
        return self._pieces.stop is not None or self._record.is_over or n_ids >= self._n_most

    def _exceeds_budget(self) -> bool:
        """Whether the open thought is to be closed now, where a character has just ended."""
        return self._budget is not None and self._budget <= 0 and self._is_thinking and self._pieces.is_whole

    @property
    def _is_thinking(self) -> bool:
        opened = None if self._token_ids else self._plan.opened
        return (self._record.open_segment or opened) == "thought"

    def _chunk(self, events: tuple[ParserEvent, ...]) -> Chunk:
        token_ids = tuple(self._token_ids[self._n_given_ids :])
        self._n_given_ids = len(self._token_ids)
        text = "".join(event.text for event in events if isinstance(event, TextEvent))
        self._texts.append(text)
        logprobs, self._token_logprobs = tuple(self._token_logprobs), []
        return Chunk(text, token_ids, events, logprobs)

    def _reason(self) -> FinishReason:
        if self._pieces.stop or self._record.is_over:
            return "stop"
        return "length" if len(self._token_ids) >= self._n_most else "abort"

    def _finish(self, reason: FinishReason) -> None:
        if self._result is None:
            self._result = GenerationResult(
                text="".join(self._texts),
                finish_reason=reason,
                stop=self._stop() if reason == "stop" else None,
                n_prompt_tokens=len(self.prompt_ids),
                token_ids=tuple(self._token_ids),
                response=self._record.response(),
                output=self._read_output(),
                diagnostics=tuple(self._record.diagnostics),
                shortening=self._plan.shortening,
            )

    def _stop(self) -> Stop | None:
        return Stop("function_call", "") if self._record.is_over else self._pieces.stop

    def _read_output(self) -> LlamaText:
        """The output as far as it counts: nothing behind the last call, and no call that was cut off."""
        raw = RawText()
        raw.write(self._output)
        return raw.take(self._start.n_dropped + self._record.n_kept)


def _room(prompt_ids: Sequence[int], llama: llama_cpp.Llama, options: SamplingOptions) -> int:
    """How many tokens an answer may have: what was asked for, or all that the context has room for."""
    if not prompt_ids:
        raise HistoryError.of("history", "renders as an empty prompt.", "Add a message.")
    room = context_size(llama) - len(prompt_ids)
    if room < 1:
        raise ContextOverflowError(len(prompt_ids), context_size(llama))
    return min(room, options.max_tokens or room)


def is_aborted(abort: Abort | None) -> bool:
    """Whether `abort` says so now."""
    if abort is None:
        return False
    return abort.is_set() if isinstance(abort, threading.Event) else bool(abort())


class _AbortCheck:
    """Whether an answer is to be aborted; once it is, it stays so."""

    def __init__(self, abort: Abort | None) -> None:
        self._abort = abort
        self._aborted = False

    def __call__(self) -> bool:
        self._aborted = self._aborted or is_aborted(self._abort)
        return self._aborted
