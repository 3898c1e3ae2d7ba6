"""`ToolOutputParser`: thoughts and tool requests in an output of a model that has no tool format."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from chatwrap.prompts.coercion import coerced_arguments
from chatwrap.prompts.contents import ToolRequest
from chatwrap.prompts.messages import Message
from chatwrap.prompts.parser import OutputParser, raw_text
from chatwrap.prompts.tools import Tool, ToolLike, as_tools


@dataclass(frozen=True)
class ToolOutputParser(OutputParser):
    """Separates thoughts from requests, and reads the requests. An output without any stays as it is.

    With requests the message's text is the thoughts. Where the tools are known, arguments become what
    the parameters want, and those that no parameter takes are left out; a tool that isn't known is
    kept, for its result to say so.
    """

    tools: Sequence[ToolLike] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", as_tools(self.tools))

    def with_tools(self, tools: Sequence[ToolLike] | None) -> Self:
        """This parser, with requests made to fit `tools`."""
        return replace(self, tools=tools)

    def parse_output(self, message: Message) -> Message:
        if message.tool_requests:
            return message
        thoughts, calls = self.parse_thoughts_and_calls(raw_text(message))
        requests = self.parse_tool_request_from_str(calls)
        if not requests:
            return message
        return self._with_requests(message, thoughts, requests)

    def parse_partial(self, content: Message) -> Message | None:
        """Thoughts as they come, and each request once it is complete."""
        if content.tool_requests:
            return content
        thoughts, requests = self.parse_partial_text(raw_text(content))
        if not thoughts and not requests:
            return None
        return self._with_requests(content, thoughts, requests)

    def parse_thoughts_and_calls(self, raw_txt: str) -> tuple[str, str]:
        """The thoughts, and the rest with the calls: here no thoughts, and all of it."""
        return "", raw_txt

    @abstractmethod
    def parse_tool_request_from_str(self, raw_txt: str) -> list[ToolRequest]:
        """The requests in the part of the output that has the calls; none if it can't be read."""

    def parse_partial_text(self, raw_txt: str) -> tuple[str, list[ToolRequest]]:
        """The thoughts and the complete requests of an output that may go on: here nothing yet."""
        return "", []

    def _with_requests(self, message: Message, thoughts: str, requests: Sequence[ToolRequest]) -> Message:
        fitted = [self._fitted(request) for request in requests]
        return message.copy(role="assistant", content=thoughts, tool_requests=fitted)

    def _fitted(self, request: ToolRequest) -> ToolRequest:
        tool = self._tool(request.name)
        return (
            request if tool is None else replace(request, args=coerced_arguments(request.args, tool.schema))
        )

    @property
    def known_tools(self) -> list[Tool]:
        """The tools that requests are made to fit."""
        return [tool for tool in self.tools or () if isinstance(tool, Tool)]

    def _tool(self, name: Any) -> Tool | None:
        return next((tool for tool in self.known_tools if tool.name == name), None)
