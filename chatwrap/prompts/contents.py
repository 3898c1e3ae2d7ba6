"""What a message holds: texts, images, requests to call a tool, and a tool's result."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeAlias
from uuid import uuid4

from chatwrap.chat.history import ChatModelFunctionCall
from chatwrap.chat.text import LlamaText
from chatwrap.errors import HistoryError

_PATCH_SIDE: Final = 16
_UNKNOWN_SIDE: Final = 2048
_MEASURABLE: Final = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8", b"\x00\x00\x00\x0cjP  ")


@dataclass(frozen=True, slots=True)
class TextContent:
    """A text; in a template's message, one to be rendered."""

    content: str = ""


@dataclass(frozen=True, slots=True)
class ImageContent:
    """An image, base64-encoded. Text models refuse it by name when they get the prompt."""

    base64_content: str

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return cls(base64.b64encode(data).decode("ascii"))

    @property
    def n_tokens(self) -> int:
        """An estimate: one token for 16 x 16 pixels; 2048 x 2048 pixels unless PNG or JPEG says otherwise."""
        width, height = self._size()
        return -(-width // _PATCH_SIDE) * -(-height // _PATCH_SIDE)

    def _size(self) -> tuple[int, int]:
        import imagesize

        try:
            data = base64.b64decode(self.base64_content, validate=True)
        except ValueError:
            raise HistoryError.of("image", "not base64.", "Use ImageContent.from_bytes(data).") from None
        unknown = (_UNKNOWN_SIDE, _UNKNOWN_SIDE)
        if not data.startswith(_MEASURABLE):
            return unknown
        try:
            width, height = imagesize.get(io.BytesIO(data))
        except (ValueError, IndexError, KeyError, OSError):  # a header that lies
            return unknown
        return (int(width), int(height)) if width > 0 and height > 0 else unknown


MessageContent: TypeAlias = TextContent | ImageContent | LlamaText
"""`LlamaText` is a text with control text in it, as a conversation's system item may have; never rendered."""


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """The model's request to call the tool `name` with `args`; its result names the id.

    `origin` is the conversation's function call that it was read from, kept for what a request lacks.
    """

    name: str
    args: Any = field(default_factory=dict)
    tool_request_id: str = field(default_factory=lambda: str(uuid4()))
    origin: ChatModelFunctionCall | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered to the request `tool_request_id`: any JSON value."""

    content: Any
    tool_request_id: str
