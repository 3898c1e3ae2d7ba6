"""Tool requests and results as text, for models that have no tool format: JSON, Python calls, ReAct."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from chatwrap.chat.json_text import dump_json
from chatwrap.errors import Fault, PromptError
from chatwrap.prompts.contents import TextContent, ToolRequest, ToolResult
from chatwrap.prompts.messages import Message
from chatwrap.prompts.transforms import MessageTransform

_ESCAPES: Final = {"&": "\\u0026", "<": "\\u003c", ">": "\\u003e"}


@dataclass(frozen=True)
class ToolCallsAsTextTransform(MessageTransform):
    """Each request as an assistant's text, its results as a user's, as `requests` and `results` write them.

    `answers` writes an answer with the thought before it; without it such messages stay as they are.
    `closing` stands behind results that the model has to go on from now.
    The results of requests made together are one message. A result can't close the marks around it: it
    is JSON with ``&``, ``<`` and ``>`` as escapes. Raises `PromptError` for a result without a request.
    """

    requests: Callable[[str, Sequence[ToolRequest]], str]
    results: Callable[[Sequence[ToolResult], Mapping[str, str]], str]
    answers: Callable[[str, str], str] | None = None
    closing: str = ""

    def __call__(self, messages: list[Message]) -> list[Message]:
        made: list[Message] = []
        waiting: list[ToolResult] = []
        names: dict[str, str] = {}
        faults: list[Fault] = []
        for index, message in enumerate(messages):
            if message.tool_result is not None:
                if message.tool_result.tool_request_id not in names:
                    problem = (
                        f"a result for {message.tool_result.tool_request_id!r}, which nothing requested."
                    )
                    faults.append(Fault(f"messages[{index}]", problem, "Put it behind its request."))
                waiting.append(message.tool_result)
                continue
            self._write_results(made, waiting, names)
            names |= {request.tool_request_id: request.name for request in message.tool_requests or ()}
            made.append(self._written(message))
        if faults:
            raise PromptError(faults)
        if waiting:
            made.append(Message(self.results(waiting, names) + self.closing))
        return made

    async def call_async(self, messages: list[Message]) -> list[Message]:
        return self(messages)

    def _written(self, message: Message) -> Message:
        if not message.tool_requests:
            if self.answers is None or message.role != "assistant" or not message.thought:
                return message
            answer = self.answers(message.thought, message.content)
            return message.copy(contents=[TextContent(answer)], segments=())
        text = self.requests(message.content if message.contents else "", message.tool_requests)
        return message.copy(contents=[TextContent(text)], tool_requests=None, continues=None)

    def _write_results(
        self, made: list[Message], waiting: list[ToolResult], names: Mapping[str, str]
    ) -> None:
        if waiting:
            made.append(Message(self.results(waiting, names)))
            waiting.clear()


def result_json(content: Any) -> str:
    """A result as JSON that no mark can be in."""
    text = dump_json(content, where="tool_result")
    return "".join(_ESCAPES.get(character, character) for character in text)


def json_requests(thoughts: str, requests: Sequence[ToolRequest]) -> str:
    """``{"name": ..., "parameters": {...}}``, or a list of several; thoughts before it."""
    calls = [{"name": request.name, "parameters": request.args} for request in requests]
    written = dump_json(calls[0] if len(calls) == 1 else calls, where="tool_requests")
    return f"{thoughts}\n{written}" if thoughts else written


def python_requests(thoughts: str, requests: Sequence[ToolRequest]) -> str:
    """``[f(a=1, b='x')]``; thoughts before it."""
    calls = ", ".join(f"{request.name}({_keywords(request.args)})" for request in requests)
    return f"{thoughts}\n[{calls}]" if thoughts else f"[{calls}]"


def _keywords(args: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in args.items())


def react_requests(thoughts: str, requests: Sequence[ToolRequest]) -> str:
    """A thought and an action for each request."""
    steps = []
    for request in requests:
        call = dump_json({"name": request.name, "parameters": request.args}, where="tool_requests")
        steps.append(f"## Thought: {thoughts}\n## Action:\n```json\n{call}\n```")
        thoughts = ""
    return "\n".join(steps)


def react_answer(thought: str, answer: str) -> str:
    """A thought and the answer that ends the steps."""
    return f"## Thought: {thought}\n## Answer: {answer}"


def tagged_results(results: Sequence[ToolResult], names: Mapping[str, str]) -> str:
    """Each result between ``<tool_response>`` marks; with the tool's name where there are several."""
    return "\n".join(
        f"<tool_response>{result_json(_named(each, results, names))}</tool_response>" for each in results
    )


def observed_results(results: Sequence[ToolResult], names: Mapping[str, str]) -> str:
    """Each result as an observation."""
    return "\n".join(f"## Observation: {result_json(_named(each, results, names))}" for each in results)


def _named(result: ToolResult, results: Sequence[ToolResult], names: Mapping[str, str]) -> Any:
    if len(results) == 1:
        return result.content
    return {"name": names.get(result.tool_request_id, ""), "result": result.content}


# A model of 135M parameters repeats its last step unless the way out is the last thing it reads.
_REACT_CLOSING: Final = "\n\nIf this is enough, go on with:\n## Thought: I know the answer.\n## Answer:"
JSON_CALLS_AS_TEXT: Final = ToolCallsAsTextTransform(json_requests, tagged_results)
PYTHON_CALLS_AS_TEXT: Final = ToolCallsAsTextTransform(python_requests, tagged_results)
REACT_AS_TEXT: Final = ToolCallsAsTextTransform(
    react_requests, observed_results, react_answer, _REACT_CLOSING
)
