"""`Summarizer`: asks a model for the summary of a text of any length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from chatwrap.chat.json_text import dump_json
from chatwrap.errors import AnswerError, ChatwrapError, ContextOverflowError, Fault, PromptError
from chatwrap.prompts.contents import ImageContent, MessageContent
from chatwrap.prompts.messages import Message, text_of
from chatwrap.prompts.models import ModelLike, as_model
from chatwrap.prompts.prompt import Prompt
from chatwrap.prompts.rendering import TemplateText, compiled
from chatwrap.prompts.run import run

CHARACTERS_PER_TOKEN: Final = 4
_CHUNK_CHARACTERS: Final = 20_000
_LEAST_CHUNK: Final = 200
_MAX_SUMMARY_TOKENS: Final = 512


def n_tokens_estimated(contents: Iterable[MessageContent]) -> int:
    """An estimate of the tokens of a message: its characters by four, and those of its images."""
    n_characters = n_image_tokens = 0
    for part in contents:
        if isinstance(part, ImageContent):
            n_image_tokens += part.n_tokens
        else:
            n_characters += len(text_of(part))
    return -(-n_characters // CHARACTERS_PER_TOKEN) + n_image_tokens


class Summarizer:
    """A model that sums texts up, chunk by chunk where they are long, and the template that shows a summary.

    A summary has at most 512 tokens. A chunk that doesn't fit the model's context is halved and tried
    again. Raises `PromptError` for a template that doesn't show the ``summary``.
    """

    def __init__(self, llm: ModelLike, instructions: str, template: str, name: str) -> None:
        self._model, self._instructions = as_model(llm), instructions
        self._template = _summary_template(template, name)
        self._chunk_characters = _CHUNK_CHARACTERS

    def shown(self, summary: str) -> str:
        """The text that stands for what was summed up."""
        return self._template.render({"summary": summary}, "summary")

    def summary(self, texts: Iterable[str], where: str, before: str = "") -> str:
        """The summary of `texts`, going on from the summary `before`.

        Raises `PromptError`, which calls the texts `where`, if the model fails or has nothing to say.
        """
        summary = before
        try:
            waiting = ["\n\n".join(texts)]
            while waiting:
                chunk = waiting.pop(0)
                if len(chunk) > self._chunk_characters:
                    waiting[:0] = _halves(chunk)
                    continue
                try:
                    summary = self._asked(chunk, summary)
                except ContextOverflowError:
                    if len(chunk) <= _LEAST_CHUNK:
                        raise
                    self._chunk_characters = max(_LEAST_CHUNK, len(chunk) // 2)
                    waiting[:0] = [chunk]
        except ChatwrapError as error:
            raise PromptError.of(where, f"it can't be summarized: {error}") from error
        return summary

    def _asked(self, chunk: str, summary: str) -> str:
        before = f"Summary of what came before:\n{summary}\n\n" if summary else ""
        text = f"{self._instructions}\n\n{before}Text:\n{chunk}"
        answer = run(self._model, Prompt([Message(text)]), max_tokens=_MAX_SUMMARY_TOKENS).content.strip()
        if not answer:
            raise AnswerError("the summary is empty.", "Use another model or other instructions.", text="")
        return answer


def _halves(text: str) -> list[str]:
    """A text cut near its middle, at an empty line, a line's end or a space if there is one."""
    middle = len(text) // 2
    for separator in ("\n\n", "\n", " "):
        place = text.rfind(separator, middle // 2, middle)
        if place > 0:
            return [text[:place], text[place + len(separator) :]]
    return [text[:middle], text[middle:]]


def _summary_template(template: str, name: str) -> TemplateText:
    read: Any = compiled(template)
    if isinstance(read, tuple):
        raise PromptError(
            Fault(", ".join(filter(None, (name, fault.where))), fault.problem, fault.remedy) for fault in read
        )
    names = [variable.name for variable in read.variables]
    if names != ["summary"]:
        problem = f"it reads {', '.join(names) or 'nothing'}."
        raise PromptError.of(name, problem, "Put {{summary}} into it, and no other variable.")
    assert isinstance(read, TemplateText)
    return read


def texts_of(messages: Iterable[Message]) -> Iterator[str]:
    """What each message says, with who says it, tool data included."""
    for message in messages:
        yield f"{_speaker(message)}: {_said(message)}"


def _speaker(message: Message) -> str:
    return "tool" if message.tool_result is not None else message.role


def _said(message: Message) -> str:
    calls = [
        f"calls {request.name} with {dump_json(request.args, where=request.name)}"
        for request in message.tool_requests or ()
    ]
    return "\n".join([*([message.content] if message.content else []), *calls])
