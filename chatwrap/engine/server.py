"""An HTTP server in OpenAI's shapes: chat completions, whole and streamed, over one model.

llama_cpp.server reads requests into a type of its own, which drops what it doesn't know (template
variables, parallel_tool_calls, max_completion_tokens, stream_options) before a handler sees it. This one
hands everything to the handler, which follows it or refuses it.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from anyio import CancelScope, create_task_group, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from chatwrap.engine.handler import LlamaCppHandler, Reply
from chatwrap.engine.model import Model
from chatwrap.errors import ChatwrapError, ContextOverflowError, FaultsError, ModelError


def create_app(
    model: Model,
    *,
    name: str | None = None,
    api_key: str | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
) -> Starlette:
    """An ASGI application that answers with a model.

    Any model name in a request stands for the one there is, which answers call `name`. With an
    `api_key`, requests have to bear it. `chat_template_kwargs` are variables for the chat template, where
    a request gives none of the same name. Requests are answered one after another.
    """
    service = _Service(model, name or model.name, api_key, dict(chat_template_kwargs or {}))
    return Starlette(
        routes=[
            Route("/v1/chat/completions", service.chat, methods=["POST"]),
            Route("/v1/models", service.models),
            Route("/v1/models/{model_id:path}", service.model_card),
            Route("/health", service.health),
        ],
        exception_handlers={HTTPException: _http_error, Exception: _unforeseen},
    )


@dataclass(slots=True)
class _Service:
    """The answers to requests."""

    model: Model
    name: str
    api_key: str | None
    template_kwargs: Mapping[str, Any]
    created: int = field(default_factory=lambda: int(time.time()))
    handler: LlamaCppHandler = field(init=False)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.handler = LlamaCppHandler("auto", self.template_kwargs)
        self.handler.use(self.model.llama, self.model.wrappers)

    async def health(self, request: Request) -> Response:
        return _json({"status": "ok"})

    async def models(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        return _json({"object": "list", "data": [self._card()]})

    async def model_card(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        asked = request.path_params["model_id"]
        if asked != self.name:
            return _error(404, f"no model {asked!r}. There is {self.name!r}.", code="model_not_found")
        return _json(self._card())

    async def chat(self, request: Request) -> Response:
        """A chat completion. The lock is held until the answer has ended, however it is read."""
        if refused := self._refused(request):
            return refused
        try:
            arguments = json.loads(await request.body())
        except (ValueError, RecursionError) as error:
            return _error(400, f"body: not JSON: {error}.")
        if not isinstance(arguments, dict):
            return _error(400, f"body: must be an object, not {arguments!r:.60}.")
        arguments["model"] = self.name
        messages, stream = arguments.pop("messages", None), arguments.pop("stream", None)
        if not isinstance(stream, bool | None):
            return _error(400, f"stream: must be true or false, not {stream!r}.", param="stream")
        abort = threading.Event()
        try:
            reply = await to_thread.run_sync(
                partial(self.handler.reply, self.model.llama, messages, arguments, abort=abort)
            )
            if stream:
                return StreamingResponse(self._events(reply, abort), media_type="text/event-stream")
            async with self.lock:
                return _json(await _unless_disconnected(request, reply.whole, abort))
        except ChatwrapError as error:
            return _refusal(error)

    async def _events(self, reply: Reply, abort: threading.Event) -> AsyncGenerator[bytes, None]:
        """The server-sent events of a stream. A client that leaves ends the answer."""
        async with self.lock:
            worker = _Worker(reply.chunks(), abort)
            try:
                while (chunk := await worker.next()) is not None:
                    yield _event(chunk)
                yield b"data: [DONE]\n\n"
            except ChatwrapError as error:
                yield _event(_error_body(error)[1])
            finally:
                with CancelScope(shield=True):
                    await worker.close()

    def _refused(self, request: Request) -> Response | None:
        """What a request without the key gets."""
        if self.api_key is None:
            return None
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if hmac.compare_digest(given.encode(), self.api_key.encode()):
            return None
        return _error(401, "no valid API key. Send it as a bearer token.", code="invalid_api_key")

    def _card(self) -> dict[str, Any]:
        return {"id": self.name, "object": "model", "created": self.created, "owned_by": "chatwrap"}


class _Worker:
    """Takes chunks on worker threads, one at a time. Cancelling a step aborts the answer."""

    def __init__(self, chunks: Generator[dict[str, Any], None, None], abort: threading.Event) -> None:
        self._chunks = chunks
        self._abort = abort
        self._busy = threading.Lock()

    async def next(self) -> dict[str, Any] | None:
        """The next chunk; None after the last."""
        return await to_thread.run_sync(self._step, abandon_on_cancel=True)

    def _step(self) -> dict[str, Any] | None:
        with self._busy:
            return next(self._chunks, None)

    async def close(self) -> None:
        """Ends the answer, once a step that is under way has noticed that it is aborted."""
        self._abort.set()
        await to_thread.run_sync(self._close)

    def _close(self) -> None:
        with self._busy:
            self._chunks.close()


async def _unless_disconnected(
    request: Request, work: Callable[[], dict[str, Any]], abort: threading.Event
) -> dict[str, Any]:
    """What `work` gives on a thread; `abort` is set if the client leaves before that."""
    outcome: list[dict[str, Any] | ChatwrapError] = []

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        abort.set()

    async with create_task_group() as group:
        group.start_soon(watch)
        try:
            outcome.append(await to_thread.run_sync(work))
        except ChatwrapError as error:  # raised again outside of the group, which would wrap it
            outcome.append(error)
        group.cancel_scope.cancel()
    if isinstance(outcome[0], ChatwrapError):
        raise outcome[0]
    return outcome[0]


def _json(content: Mapping[str, Any], status: int = 200) -> Response:
    return Response(json.dumps(content), status, media_type="application/json")


def _event(content: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(content)}\n\n".encode()


def _error(status: int, message: str, *, param: str | None = None, code: str | None = None) -> Response:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return _json({"error": {"message": message, "type": kind, "param": param, "code": code}}, status)


def _refusal(error: ChatwrapError) -> Response:
    status, body = _error_body(error)
    return _json(body, status)


def _error_body(error: ChatwrapError) -> tuple[int, dict[str, Any]]:
    """The status and the body by which an error is told: 500 for what isn't the request's fault."""
    is_servers = isinstance(error, ModelError)
    code = "context_length_exceeded" if isinstance(error, ContextOverflowError) else None
    param = error.faults[0].where if isinstance(error, FaultsError) and error.faults else None
    kind = "server_error" if is_servers else "invalid_request_error"
    body = {"error": {"message": str(error), "type": kind, "param": param, "code": code}}
    return 500 if is_servers else 400, body


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(error.status_code, f"{request.method} {request.url.path}: {error.detail}.")


async def _unforeseen(request: Request, error: Exception) -> Response:
    return _error(500, f"{type(error).__name__}: {error}")
