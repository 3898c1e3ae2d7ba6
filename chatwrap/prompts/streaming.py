"""Output parsers on output that is still coming."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from chatwrap.errors import PromptError
from chatwrap.prompts.messages import Message

if TYPE_CHECKING:
    from chatwrap.prompts.parser import OutputParser

OutputChunk: TypeAlias = "str | Message"
"""A piece of raw output: text, or a message with text."""


class PartialReader:
    """Parsers at work on output that grows. `feed` and `flush` do no I/O.

    Each parser reads the whole output so far again, so the cost is quadratic in it at worst; reading
    10 kB of JSON takes some 20 microseconds.
    """

    def __init__(self, parsers: Sequence[OutputParser]) -> None:
        self._parsers = parsers
        self._last: Message | None = None

    def feed(self, message: Message) -> Message | None:
        """What can be said of the output, `message` so far, if that has changed."""
        read: Message | None = message
        for parser in self._parsers:
            read = None if read is None else parser.parse_partial(read)
        if read is None or read == self._last:
            return None
        self._last = read
        return read

    def flush(self, message: Message) -> Message:
        """What the whole output is."""
        for parser in self._parsers:
            message = parser.parse_output(message)
        return message


class OutputStream:
    """Messages as they become certain, for ``for``, ``async for`` and ``await``; to be used once."""

    def __init__(
        self,
        parsers: Sequence[OutputParser],
        content: OutputChunk | Iterable[OutputChunk] | AsyncIterable[OutputChunk],
    ) -> None:
        self._reader = PartialReader(parsers)
        self._content = [content] if isinstance(content, str | Message) else content
        self._text: list[str] = []
        self._first: Message | None = None

    def __iter__(self) -> Iterator[Message]:
        if not isinstance(self._content, Iterable):
            raise PromptError.of("stream", "its pieces come asynchronously.", "Use async for, or await.")
        for chunk in self._content:
            if (message := self._take(chunk)) is not None:
                yield message
        yield self._reader.flush(self._message())

    async def __aiter__(self) -> AsyncIterator[Message]:
        if isinstance(self._content, AsyncIterable):
            async for chunk in self._content:
                if (message := self._take(chunk)) is not None:
                    yield message
        else:
            for chunk in self._content:
                if (message := self._take(chunk)) is not None:
                    yield message
        yield self._reader.flush(self._message())

    def __await__(self) -> Generator[Any, None, Message]:
        return self._whole().__await__()

    async def _whole(self) -> Message:
        if isinstance(self._content, AsyncIterable):
            async for chunk in self._content:
                self._add(chunk)
        else:
            for chunk in self._content:
                self._add(chunk)
        return self._reader.flush(self._message())

    def _take(self, chunk: OutputChunk) -> Message | None:
        self._add(chunk)
        return self._reader.feed(self._message())

    def _add(self, chunk: OutputChunk) -> None:
        if isinstance(chunk, Message):
            self._first = self._first or chunk
        self._text.append(chunk if isinstance(chunk, str) else chunk.content)

    def _message(self) -> Message:
        text = "".join(self._text)
        if self._first is None:
            return Message(text, role="assistant")
        return self._first.copy(content=text)
