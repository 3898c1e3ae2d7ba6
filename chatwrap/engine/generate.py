"""The token loop: prompt ids in, text out. Sessions, models and the chat handler all run this one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, TypeAlias

import llama_cpp

from chatwrap.engine.evaluate import Evaluator, context_size
from chatwrap.engine.response_format import ResponseFormat
from chatwrap.engine.sampling import SamplingOptions
from chatwrap.engine.turns import turns_of
from chatwrap.errors import ContextOverflowError, HistoryError, ModelError
from chatwrap.output.stop import Stop, StopDetector
from chatwrap.output.utf8 import Utf8Decoder

FinishReason: TypeAlias = Literal["stop", "length", "abort"]
Abort: TypeAlias = Callable[[], bool] | threading.Event


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of an answer: text that is certain, and the token ids sampled since the last chunk.

    A token's text may come in a later chunk than its id: what could begin a stop is held back.
    """

    text: str
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """A whole answer. `stop` says what ended it, None unless `finish_reason` is ``"stop"``.

    `token_ids` are all sampled ids, that of the stop included. Law: the chunks' texts joined are
    `text`, their ids joined are `token_ids`. `value` is what the text says in the response format
    asked for, validated; None without one.
    """

    text: str
    finish_reason: FinishReason
    stop: Stop | None
    n_prompt_tokens: int
    token_ids: tuple[int, ...]
    value: Any = None

    @property
    def n_completion_tokens(self) -> int:
        return len(self.token_ids)


class Generation(Iterator[Chunk]):
    """An answer being generated: iterate over it for its chunks, then read `result`.

    Nothing is evaluated before the first chunk is asked for. `close` (or leaving its ``with`` block)
    ends it with the finish reason ``"abort"``; so does `abort`, looked at before every batch of the
    prompt and every token. Whatever ends it, the model can be used again.

    Raises `ContextOverflowError` if the prompt leaves no room for an answer, `HistoryError` if it is
    empty, `OptionError` and `GrammarError` for options the model can't follow, and while iterating
    `ModelError` if llama.cpp fails. With `wait`, an answer to another thread is waited for.
    `ignore_start_text` is dropped from the start of the answer's text if it stands there.

    With a `response_format` the last step raises `AnswerError` where the answer was cut short (by
    `max_tokens`, a stop or `abort`) or isn't valid.
    """

    def __init__(
        self,
        llama: llama_cpp.Llama,
        prompt_ids: Sequence[int],
        detector: StopDetector,
        options: SamplingOptions,
        *,
        ignore_start_text: str = "",
        response_format: ResponseFormat | None = None,
        abort: Abort | None = None,
        wait: bool = True,
    ) -> None:
        self._turn = turns_of(llama).turn(wait=wait)
        self._format = response_format
        if response_format is not None:
            options = response_format.applied_to(options)
        self._evaluator = Evaluator(llama, options, self._turn)
        self.prompt_ids = tuple(prompt_ids)
        self._n_most = _room(self.prompt_ids, llama, options)
        self._detector = detector
        self._decoder = Utf8Decoder()
        self._start = _StartFilter(ignore_start_text)
        self._aborted = _AbortCheck(abort)
        self._texts: list[str] = []
        self._token_ids: list[int] = []
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
        return self._format and self._format.partial_value("".join(self._texts))

    def _run(self) -> Generator[Chunk, None, None]:
        try:
            with self._turn.taken(self._aborted):
                yield from self._chunks_until_end()
            tail = self._start.feed(self._decoder.feed(self._detector.flush()) + self._decoder.flush())
            tail += self._start.flush()
            if tail or self._n_given_ids < len(self._token_ids):
                yield self._chunk(tail)
            self._finish(self._reason())
            if self._format is not None:
                self._result = replace(self.result, value=self._format.value_of(self.result))
        finally:
            self._finish("abort")

    def _chunks_until_end(self) -> Iterator[Chunk]:
        for token_id in self._evaluator.ids(self.prompt_ids, self._aborted):
            self._token_ids.append(token_id)
            text = self._start.feed(self._decoder.feed(self._detector.feed(token_id)))
            if text:
                yield self._chunk(text)
            if self._detector.stop or len(self._token_ids) >= self._n_most:
                return

    def _chunk(self, text: str) -> Chunk:
        token_ids = tuple(self._token_ids[self._n_given_ids :])
        self._n_given_ids = len(self._token_ids)
        self._texts.append(text)
        return Chunk(text, token_ids)

    def _reason(self) -> FinishReason:
        if self._detector.stop:
            return "stop"
        return "length" if len(self._token_ids) >= self._n_most else "abort"

    def _finish(self, reason: FinishReason) -> None:
        if self._result is None:
            self._result = GenerationResult(
                text="".join(self._texts),
                finish_reason=reason,
                stop=self._detector.stop if reason == "stop" else None,
                n_prompt_tokens=len(self.prompt_ids),
                token_ids=tuple(self._token_ids),
            )


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


class _StartFilter:
    """Drops a text from the start of an answer, if the answer starts with it."""

    def __init__(self, ignored: str) -> None:
        self._ignored = ignored
        self._held = ""

    def feed(self, text: str) -> str:
        if not self._ignored:
            return text
        self._held += text
        if self._ignored.startswith(self._held) and self._held != self._ignored:
            return ""
        released = self._held.removeprefix(self._ignored)
        self._held = self._ignored = ""
        return released

    def flush(self) -> str:
        """What is still held, for when no text follows."""
        held, self._held = self._held, ""
        return held


class _AbortCheck:
    """Whether an answer is to be aborted; once it is, it stays so."""

    def __init__(self, abort: Abort | None) -> None:
        self._abort = abort
        self._aborted = False

    def __call__(self) -> bool:
        self._aborted = self._aborted or is_aborted(self._abort)
        return self._aborted
