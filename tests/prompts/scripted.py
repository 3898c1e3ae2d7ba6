"""A model that says what a test wants it to, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from chatwrap.chat.events import FinishReason, ResponseEnd, ResponseEvent, TextEvent
from chatwrap.chat.model import ChatRequest


class ScriptedModel:
    """Answers requests with `answers` in turn, each a text or events; then with ``summary 1``, ..."""

    def __init__(
        self, *answers: str | Sequence[ResponseEvent], piece: int = 5, finish: FinishReason = "stop"
    ):
        self.answers = list(answers)
        self.requests: list[ChatRequest] = []
        self.n_closed = 0
        self.piece, self.finish = piece, finish

    @property
    def n_requests(self) -> int:
        return len(self.requests)

    def respond(self, request: ChatRequest) -> Generator[ResponseEvent, None, None]:
        self.requests.append(request)
        answer = self.answers.pop(0) if self.answers else f"summary {self.n_requests}"
        return self._events(answer)

    def _events(self, answer: str | Sequence[ResponseEvent]) -> Generator[ResponseEvent, None, None]:
        try:
            if isinstance(answer, str):
                for start in range(0, len(answer), self.piece):
                    piece = answer[start : start + self.piece]
                    yield TextEvent(piece, piece)
            else:
                yield from answer
            yield ResponseEnd(self.finish, 3, 4)
        finally:
            self.n_closed += 1
