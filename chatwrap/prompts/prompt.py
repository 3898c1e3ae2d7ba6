"""`Prompt`: what a template was formatted to, ready for a model, and the reader of its answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from chatwrap.chat.history import ChatHistory
from chatwrap.chat.model import ChatRequest, ToolChoice
from chatwrap.errors import OptionError
from chatwrap.prompts.answer import AnswerFormat, ResponseFormatLike
from chatwrap.prompts.answer_grammar import AnswerRules
from chatwrap.prompts.conversation import as_conversation, as_messages
from chatwrap.prompts.generation import LlmGenerationConfig
from chatwrap.prompts.messages import Message
from chatwrap.prompts.models import ModelLike
from chatwrap.prompts.parser import OutputParser, parse_with
from chatwrap.prompts.tool_parser import ToolOutputParser
from chatwrap.prompts.tools import Tool, as_functions_of, as_tools

if TYPE_CHECKING:
    from chatwrap.prompts.run import Completion, PromptStream, StreamedPiece


@dataclass(frozen=True)
class Prompt:
    """Messages for a model, what it may call, what its answer has to be, and how that is read.

    `tools` and `response_format` are what the model is told natively; `answer_format` is what the answer
    is validated by in any case.
    """

    messages: Sequence[Message]
    tools: Sequence[Tool] | None = None
    response_format: ResponseFormatLike | None = None
    output_parser: OutputParser | Sequence[OutputParser] | None = None
    generation_config: LlmGenerationConfig | None = None
    answer_format: ResponseFormatLike | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "messages", as_messages(self.messages))
        object.__setattr__(self, "tools", as_tools(self.tools))
        config = LlmGenerationConfig.of(self.generation_config)
        object.__setattr__(self, "generation_config", config)
        if self.answer_format is None:
            object.__setattr__(self, "answer_format", self.response_format)

    @property
    def parsers(self) -> tuple[OutputParser, ...]:
        """The output parsers, in the order in which they are applied."""
        return parsers_of(self.output_parser)

    def parse_output(self, message: Message) -> Message:
        """What the output parsers make of a model's raw output."""
        return parse_with(self.parsers, message)

    def history(self) -> ChatHistory:
        """The messages as a conversation. Raises `HistoryError` with every fault."""
        return as_conversation(self.messages)

    def to_request(
        self,
        options: Mapping[str, Any] | None = None,
        *,
        tool_choice: ToolChoice = "auto",
        max_parallel_calls: int | None = None,
    ) -> ChatRequest:
        """What a model is asked; `options` are sampling options that win over the prompt's own.

        Where the output parsers read a form of their own, the request has its grammar. Raises
        `OptionError` for a tool choice that neither functions nor such a grammar can keep.
        """
        config = self.generation_config.options() if self.generation_config else {}
        form = self.response_format
        grammar = None if form is not None or self.tools else self._answer_grammar(tool_choice)
        if tool_choice not in ("auto", "none") and not self.tools and grammar is None:
            problem = f"{tool_choice!r} can't be demanded of this prompt."
            raise OptionError.of("tool_choice", problem, "Use native tools, or the JSON or ReAct templates.")
        return ChatRequest(
            history=self.history(),
            functions=as_functions_of(self.tools),
            tool_choice=tool_choice if self.tools else "auto",
            max_parallel_calls=max_parallel_calls,
            response_schema=None if form is None else AnswerFormat.of(form).schema,
            response_grammar=grammar,
            options={**config, **(options or {})},
        )

    def _answer_grammar(self, tool_choice: ToolChoice) -> str | None:
        """The grammar of the first parser that has one."""
        schema = None if self.answer_format is None else AnswerFormat.of(self.answer_format).schema
        for parser in self.parsers:
            tools = tuple(parser.known_tools) if isinstance(parser, ToolOutputParser) else ()
            if (text := parser.answer_grammar(AnswerRules(schema, tools, tool_choice))) is not None:
                return text
        return None

    def copy(self, **changes: Any) -> Self:
        """This prompt with `changes`, fields by name."""
        return replace(self, **changes)

    def run(self, model: ModelLike, **options: Any) -> Completion:
        """The model's whole answer; see `chatwrap.prompts.run`."""
        from chatwrap.prompts.run import run

        return run(model, self, **options)

    async def run_async(self, model: ModelLike, **options: Any) -> Completion:
        """As `run`, on a worker thread."""
        from chatwrap.prompts.run import run_async

        return await run_async(model, self, **options)

    def stream(self, model: ModelLike, **options: Any) -> PromptStream:
        """The model's answer as it comes; see `PromptStream`."""
        from chatwrap.prompts.run import PromptStream

        return PromptStream(model, self, options)

    def stream_async(self, model: ModelLike, **options: Any) -> AsyncGenerator[StreamedPiece, None]:
        """As `stream`, on a worker thread."""
        from chatwrap.prompts.run import stream_async

        return stream_async(model, self, **options)


def parsers_of(parser: OutputParser | Sequence[OutputParser] | None) -> tuple[OutputParser, ...]:
    """One parser or several as a tuple."""
    if parser is None:
        return ()
    return (parser,) if isinstance(parser, OutputParser) else tuple(parser)
