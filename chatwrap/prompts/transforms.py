"""Message transforms: a list of messages in, a new list out; neither list nor messages are changed."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from chatwrap.errors import PromptError
from chatwrap.prompts.contents import ImageContent, TextContent
from chatwrap.prompts.messages import Message, text_of

_T = TypeVar("_T")
DEFAULT_MARKER: Final = "\n---"


class MessageTransform:
    """Makes another list of messages of a list.

    Subclasses write `__call__`, or `call_async` for what waits.
    """

    def __call__(self, messages: list[Message]) -> list[Message]:
        """The transformed messages."""
        if type(self).call_async is MessageTransform.call_async:
            name = type(self).__name__
            raise PromptError.of(name, "it has neither __call__ nor call_async.", "Write one of them.")
        return run_coroutine(self.call_async(messages))

    async def call_async(self, messages: list[Message]) -> list[Message]:
        """The transformed messages; unless a subclass says otherwise `__call__` makes them, in a thread."""
        return await asyncio.to_thread(self, messages)


def run_coroutine(work: Coroutine[Any, Any, _T]) -> _T:
    """What a coroutine gives, also where this thread runs an event loop: it then runs in another one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    results: list[_T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(work))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


TransformFunction: TypeAlias = Callable[[list[Message]], Sequence[Message] | Awaitable[Sequence[Message]]]
TransformLike: TypeAlias = MessageTransform | TransformFunction


@dataclass(frozen=True)
class CallableMessageTransform(MessageTransform):
    """A plain function as a transform; it may be a coroutine function."""

    function: TransformFunction

    def __call__(self, messages: list[Message]) -> list[Message]:
        made = self.function(messages)
        return self._checked(run_coroutine(_awaited(made)) if inspect.isawaitable(made) else made)

    async def call_async(self, messages: list[Message]) -> list[Message]:
        if inspect.iscoroutinefunction(self.function):
            return self._checked(await self.function(messages))
        made = await asyncio.to_thread(self.function, messages)
        return self._checked(await made if inspect.isawaitable(made) else made)

    def _checked(self, made: Any) -> list[Message]:
        if isinstance(made, Iterable) and not isinstance(made, str):
            messages = list(made)
            if all(isinstance(message, Message) for message in messages):
                return messages
        name = getattr(self.function, "__name__", type(self.function).__name__)
        raise PromptError.of(f"transform {name}", f"it gave {made!r:.60}.", "Return a list of messages.")


async def _awaited(work: Awaitable[Any]) -> Any:
    return await work


def as_transforms(transforms: Iterable[TransformLike] | None, where: str) -> tuple[MessageTransform, ...]:
    """`transforms` with plain functions wrapped. Raises `PromptError` for what is no transform."""
    found: list[MessageTransform] = []
    for index, transform in enumerate(transforms or ()):
        if isinstance(transform, MessageTransform):
            found.append(transform)
        elif callable(transform) and not isinstance(transform, type):
            found.append(CallableMessageTransform(transform))
        else:
            problem = f"{transform!r:.60} isn't a transform."
            raise PromptError.of(f"{where}[{index}]", problem, "Give a function or an object.")
    return tuple(found)


class _PureTransform(MessageTransform):
    """A transform that neither waits nor takes long."""

    async def call_async(self, messages: list[Message]) -> list[Message]:
        return self(messages)


class CoalesceSystemMessagesTransform(_PureTransform):
    """The system messages at the start as one: stripped of newlines, an empty line between."""

    def __call__(self, messages: list[Message]) -> list[Message]:
        n_leading = next((i for i, each in enumerate(messages) if each.role != "system"), len(messages))
        if n_leading == 0:
            return list(messages)
        return [_coalesced(messages[:n_leading]), *messages[n_leading:]]


def _coalesced(messages: Sequence[Message]) -> Message:
    if all(len(each.contents) == 1 and isinstance(each.contents[0], TextContent) for each in messages):
        return Message("\n\n".join(each.content.strip("\n") for each in messages), role="system")
    if len(messages) == 1:
        return messages[0]
    parts: list[Any] = []
    for message in messages:
        parts += [TextContent("")] if parts else []  # parts are shown a line each: an empty one between
        parts += message.contents
    return Message(role="system", contents=parts)


class RemoveEmptyNonUserMessageTransform(_PureTransform):
    """Without the messages that say nothing: not the user's, no text, no image, no tool data, no thoughts."""

    def __call__(self, messages: list[Message]) -> list[Message]:
        return [message for message in messages if message.role == "user" or _says_something(message)]


def _says_something(message: Message) -> bool:
    if message.content or message.has_tool_data or message.segments:
        return True
    return any(isinstance(part, ImageContent) for part in message.contents)


class AppendTrailingSystemMessageToUserMessageTransform(_PureTransform):
    """A system message at the end as part of the user message before it."""

    def __call__(self, messages: list[Message]) -> list[Message]:
        match messages:
            case [*before, Message(role="user", tool_result=None) as user, Message(role="system") as last]:
                return [*before, user.copy(contents=(*user.contents, *last.contents))]
            case _:
                return list(messages)


@dataclass(frozen=True)
class SplitPromptOnMarkerMessageTransform(_PureTransform):
    """Messages cut at a marker into several of one role, stripped, the empty ones left out.

    The marker is a line that begins with ``---`` unless given. Messages with tool data stay whole, and so
    do messages that don't have it. An image goes with the text before it.
    """

    marker: str | None = None

    def __post_init__(self) -> None:
        if self.marker == "":
            raise PromptError.of("marker", "empty.", "Give the text to cut at.")

    def __call__(self, messages: list[Message]) -> list[Message]:
        return [piece for message in messages for piece in self._pieces(message)]

    def _pieces(self, message: Message) -> list[Message]:
        marker = self.marker or DEFAULT_MARKER
        if message.has_tool_data or not any(marker in text for text in _texts(message)):
            return [message]
        pieces: list[list[Any]] = [[]]
        for part in message.contents:
            if not isinstance(part, TextContent):
                pieces[-1].append(part)
                continue
            first, *others = part.content.split(marker)
            pieces[-1].append(TextContent(first.strip()))
            pieces += [[TextContent(other.strip())] for other in others]
        kept = [[part for part in piece if part != TextContent("")] for piece in pieces]
        return [message.copy(contents=piece) for piece in kept if piece]


def _texts(message: Message) -> Iterable[str]:
    return (text_of(part) for part in message.contents if isinstance(part, TextContent))
