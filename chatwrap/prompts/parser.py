"""`OutputParser`: what becomes of a model's raw output, whole or while it is still coming."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from chatwrap.errors import PromptError
from chatwrap.prompts.answer_grammar import AnswerRules
from chatwrap.prompts.contents import ImageContent
from chatwrap.prompts.messages import Message
from chatwrap.prompts.streaming import OutputChunk, OutputStream


@dataclass(frozen=True)
class OutputParser(ABC):
    """Reads a model's raw output, a message, into the message that is wanted. Never changes its input.

    Subclasses write `parse_output`, and `parse_partial` if something is certain before the end.
    """

    id: str = field(default_factory=lambda: str(uuid4()), kw_only=True, compare=False, repr=False)
    __metadata_info__: Mapping[str, Any] = field(
        default_factory=dict, kw_only=True, compare=False, repr=False
    )

    @abstractmethod
    def parse_output(self, content: Message) -> Message:
        """The message that the whole raw output is."""

    def parse_partial(self, content: Message) -> Message | None:
        """The message so far, of raw output that may go on; None while nothing can be said."""
        return None

    def answer_grammar(self, rules: AnswerRules) -> str | None:
        """GBNF of the output that this parser reads, for models that can be held to it; None for any text."""
        return None

    def parse_output_streaming(
        self, content: OutputChunk | Iterable[OutputChunk] | AsyncIterable[OutputChunk]
    ) -> OutputStream:
        """The messages that the output is, each time that more of it can be said; the last is the whole.

        `content` are the pieces as they come, texts or messages. Iterate over it with ``for`` or
        ``async for``, or ``await`` it for the last message alone.
        """
        return OutputStream([self], content)


def parse_with(parsers: Sequence[OutputParser], message: Message) -> Message:
    """The message that `parsers`, one after the other, make of a raw output."""
    for parser in parsers:
        message = parser.parse_output(message)
    return message


def raw_text(message: Message) -> str:
    """The text of a raw output. Raises `PromptError` for an image, which no parser reads."""
    if any(isinstance(part, ImageContent) for part in message.contents):
        raise PromptError.of("output", "an image can't be parsed.", "Parse the texts alone.")
    return message.content
