"""Chat completions and their stream chunks in OpenAI's shapes. Spells their keys."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from chatwrap.chat.events import FinishReason, ParserEvent
from chatwrap.chat.openai_answer import DeltaWriter, MessageWriter

_ROLE: Final = {"role": "assistant", "content": ""}


@dataclass(frozen=True, slots=True)
class AnswerPiece:
    """Events of an answer, and OpenAI's entries for the likelihood of its tokens (None: not asked for)."""

    events: tuple[ParserEvent, ...]
    logprobs: tuple[dict[str, Any], ...] | None = None


@dataclass(frozen=True, slots=True)
class AnswerEnd:
    """How an answer ended, and its length in tokens."""

    finish_reason: FinishReason
    n_prompt_tokens: int
    n_completion_tokens: int

    @property
    def usage(self) -> dict[str, int]:
        return {
            "prompt_tokens": self.n_prompt_tokens,
            "completion_tokens": self.n_completion_tokens,
            "total_tokens": self.n_prompt_tokens + self.n_completion_tokens,
        }


@dataclass(frozen=True, slots=True)
class CompletionWriter:
    """Dresses an answer in OpenAI's shapes, under one id.

    A stream's last chunk with a choice has the usage as well, as llama-cpp-python's do, unless
    `includes_usage` says otherwise: True puts it into a chunk of its own without choices, as OpenAI
    does, False leaves it out.
    """

    model: str
    is_legacy: bool = False
    includes_usage: bool | None = None
    answer_id: str = field(default_factory=lambda: f"chatcmpl-{secrets.token_hex(16)}")
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, pieces: Iterable[AnswerPiece | AnswerEnd]) -> dict[str, Any]:
        """The completion that all pieces of an answer make."""
        deltas, message = DeltaWriter(legacy=self.is_legacy), MessageWriter()
        logprobs: list[dict[str, Any]] | None = None
        end: AnswerEnd | None = None
        for piece in pieces:
            if isinstance(piece, AnswerEnd):
                end = piece
                continue
            for delta in deltas.deltas(piece.events):
                message.add(delta)
            if piece.logprobs is not None:
                logprobs = [*(logprobs or ()), *piece.logprobs]
        assert end is not None, "an answer's last piece is its end"
        reason = deltas.finish_reason(end.finish_reason)
        content = {"message": message.message(), "logprobs": _logprobs(logprobs)}
        frame = self._frame("chat.completion", [_choice(content, reason)])
        return {**frame, "usage": end.usage}

    def chunks(self, pieces: Iterable[AnswerPiece | AnswerEnd]) -> Iterator[dict[str, Any]]:
        """The chunks of a stream, one a delta; a token's likelihood comes with the first one behind it.

        The role comes first, with a null content where the answer begins with a call.
        """
        deltas = DeltaWriter(legacy=self.is_legacy)
        waiting: list[dict[str, Any]] | None = None
        has_role = False
        for piece in pieces:
            if isinstance(piece, AnswerEnd):
                if not has_role:
                    yield self._chunk(_ROLE)
                yield from self._last_chunks(piece, deltas.finish_reason(piece.finish_reason), waiting)
                return
            if piece.logprobs is not None:
                waiting = [*(waiting or ()), *piece.logprobs]
            for delta in deltas.deltas(piece.events):
                if not has_role:
                    is_text = "content" in delta or "reasoning_content" in delta
                    yield self._chunk(_ROLE if is_text else {**_ROLE, "content": None})
                    has_role = True
                yield self._chunk(delta, logprobs=waiting)
                waiting = None if waiting is None else []

    def _last_chunks(
        self, end: AnswerEnd, reason: str, logprobs: list[dict[str, Any]] | None
    ) -> Iterator[dict[str, Any]]:
        last = self._chunk({}, logprobs=logprobs or None, finish_reason=reason)
        yield {**last, "usage": end.usage} if self.includes_usage is None else last
        if self.includes_usage:
            yield {**self._frame("chat.completion.chunk", []), "usage": end.usage}

    def _chunk(
        self,
        delta: Mapping[str, Any],
        *,
        logprobs: list[dict[str, Any]] | None = None,
        finish_reason: str | None = None,
    ) -> dict[str, Any]:
        content = {"delta": delta, "logprobs": _logprobs(logprobs)}
        chunk = self._frame("chat.completion.chunk", [_choice(content, finish_reason)])
        return {**chunk, "usage": None} if self.includes_usage else chunk

    def _frame(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self.answer_id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }


def _choice(content: Mapping[str, Any], finish_reason: str | None) -> dict[str, Any]:
    return {"index": 0, **content, "finish_reason": finish_reason}


def _logprobs(entries: list[dict[str, Any]] | None) -> dict[str, Any] | None:
    return None if entries is None else {"content": entries, "refusal": None}


def logprob_entry(piece: bytes, logprob: float, top: Iterable[tuple[bytes, float]]) -> dict[str, Any]:
    """The likelihood of a token and of others in its place. Bytes that aren't UTF-8 read as U+FFFD."""
    return {**_likelihood(piece, logprob), "top_logprobs": [_likelihood(*other) for other in top]}


def _likelihood(piece: bytes, logprob: float) -> dict[str, Any]:
    text = piece.decode("utf-8", "replace")
    return {"token": text, "logprob": max(logprob, -9999.0), "bytes": list(piece)}
