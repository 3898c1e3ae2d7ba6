"""`PromptTemplate`: messages with variables, and all that goes into making a prompt of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self
from uuid import uuid4

from chatwrap.errors import Fault, FaultsError, PromptError
from chatwrap.prompts.answer import AnswerFormat, ResponseFormatLike
from chatwrap.prompts.compiled import (
    HISTORY_NAME,
    PLACEHOLDER,
    RESPONSE_FORMAT_NAME,
    TOOLS_NAME,
    CompiledMessages,
    title_of,
)
from chatwrap.prompts.conversation import MessageLike, as_messages
from chatwrap.prompts.generation import GenerationConfigLike, LlmGenerationConfig
from chatwrap.prompts.inputs import Inputs
from chatwrap.prompts.messages import Message
from chatwrap.prompts.parser import OutputParser
from chatwrap.prompts.prompt import Prompt, parsers_of
from chatwrap.prompts.properties import ListProperty, Property
from chatwrap.prompts.tool_parser import ToolOutputParser
from chatwrap.prompts.tools import Tool, ToolLike, as_tools
from chatwrap.prompts.transforms import MessageTransform, TransformLike, as_transforms
from chatwrap.prompts.variables import descriptors_of, merged


@dataclass(frozen=True)
class PromptTemplate:
    """A prompt to be filled: messages with ``{{variables}}``, a place for the history, tools, a format.

    Templates are Jinja2 in a sandbox that calls nothing and reads no attributes of objects. They are
    compiled once. Values are put in as they are; neither they nor the history are ever rendered.

    Native tools and a native response format reach the model through its chat format; otherwise the
    text has to say them (``__TOOLS__``, ``__RESPONSE_FORMAT__``) and the output parser to read the
    answer. `input_descriptors` say what may be passed; a default applies where nothing is. `name` is
    what errors call the template. Raises `PromptError` with every fault.

    >>> PromptTemplate.from_string("Hi {{name}}").format({"name": "{{Ada}}"}).messages[0].content
    'Hi {{Ada}}'
    """

    CHAT_HISTORY_PLACEHOLDER: ClassVar[Message] = PLACEHOLDER
    CHAT_HISTORY_PLACEHOLDER_NAME: ClassVar[str] = HISTORY_NAME
    RESPONSE_FORMAT_PLACEHOLDER_NAME: ClassVar[str] = RESPONSE_FORMAT_NAME
    TOOL_PLACEHOLDER_NAME: ClassVar[str] = TOOLS_NAME

    messages: Sequence[MessageLike]
    output_parser: OutputParser | Sequence[OutputParser] | None = None
    input_descriptors: Sequence[Property] | None = None
    pre_rendering_transforms: Sequence[TransformLike] | None = None
    post_rendering_transforms: Sequence[TransformLike] | None = None
    tools: Sequence[ToolLike] | None = None
    native_tool_calling: bool = True
    response_format: ResponseFormatLike | None = None
    native_structured_generation: bool = True
    generation_config: GenerationConfigLike | None = None
    _partial_values: Mapping[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=lambda: str(uuid4()), kw_only=True, compare=False)
    __metadata_info__: Mapping[str, Any] = field(default_factory=dict, kw_only=True, compare=False)
    name: str = field(default="", kw_only=True)
    description: str | None = field(default=None, kw_only=True)
    _has_own_descriptors: bool | None = field(default=None, kw_only=True, repr=False, compare=False)
    _inputs: Inputs = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        faults: list[Fault] = []
        compiled: CompiledMessages | None = None
        for name, read in self._readings().items():
            try:
                object.__setattr__(self, name, read())
                if name == "messages":
                    compiled = CompiledMessages.of(as_messages(self.messages), self.name)
            except FaultsError as error:
                faults += [_within(fault, title_of(self.name)) for fault in error.faults]
        faults += self._parser_faults()
        if faults or compiled is None:
            raise PromptError(faults)
        self._warn_of_unsaid(compiled)
        own = (
            self.input_descriptors is not None
            if self._has_own_descriptors is None
            else self._has_own_descriptors
        )
        object.__setattr__(self, "_has_own_descriptors", own)
        object.__setattr__(self, "input_descriptors", self._described(compiled))
        object.__setattr__(self, "_inputs", self._input_sources(compiled))

    @classmethod
    def from_string(
        cls,
        template: str,
        output_parser: OutputParser | Sequence[OutputParser] | None = None,
        input_descriptors: Sequence[Property] | None = None,
        pre_rendering_transforms: Sequence[TransformLike] | None = None,
        post_rendering_transforms: Sequence[TransformLike] | None = None,
        tools: Sequence[ToolLike] | None = None,
        native_tool_calling: bool = True,  # noqa: FBT001, FBT002 - the original's order
        response_format: ResponseFormatLike | None = None,
        native_structured_generation: bool = True,  # noqa: FBT001, FBT002
        generation_config: GenerationConfigLike | None = None,
    ) -> Self:
        """The template of one user message."""
        if not isinstance(template, str):
            raise PromptError.of("template", f"of type {type(template).__name__}.", "Give a text.")
        return cls(
            [Message(template, role="user")],
            output_parser,
            input_descriptors,
            pre_rendering_transforms,
            post_rendering_transforms,
            tools,
            native_tool_calling,
            response_format,
            native_structured_generation,
            generation_config,
        )

    def format(
        self, inputs: Mapping[str, Any] | None = None, chat_history: Sequence[MessageLike] | None = None
    ) -> Prompt:
        """The prompt that the template makes of `inputs`, of which it changes nothing.

        The history is an input, too, or `chat_history`. Partial values win over inputs, and inputs that
        nothing reads are left out. Raises `PromptError` with every input that is missing or no plain
        value, by variable, template and message. Cost: one pass over values and history.
        """
        values, history = self._inputs.bind(inputs, chat_history)
        for transform in _transforms(self.pre_rendering_transforms):
            history = transform(history)
        messages = self._rendered(values, history)
        for transform in _transforms(self.post_rendering_transforms):
            messages = transform(messages)
        return self._prompt(messages)

    async def format_async(
        self, inputs: Mapping[str, Any] | None = None, chat_history: Sequence[MessageLike] | None = None
    ) -> Prompt:
        """As `format`; transforms that wait don't block the event loop."""
        values, history = self._inputs.bind(inputs, chat_history)
        for transform in _transforms(self.pre_rendering_transforms):
            history = await transform.call_async(history)
        messages = self._rendered(values, history)
        for transform in _transforms(self.post_rendering_transforms):
            messages = await transform.call_async(messages)
        return self._prompt(messages)

    def copy(self) -> Self:
        """A copy of the template."""
        return self._with()

    def with_partial(self, inputs: Mapping[str, Any]) -> Self:
        """A copy that knows some values already; they aren't rendered before `format`."""
        known = {**self._partial_values, **inputs}
        left = [each for each in self.input_descriptors or () if each.name not in known]
        return self._with(_partial_values=known, input_descriptors=left)

    def with_tools(self, tools: Sequence[ToolLike] | None) -> Self:
        """A copy with other tools."""
        return self._with(tools=tools)

    def with_response_format(self, response_format: ResponseFormatLike | None) -> Self:
        """A copy with another answer format."""
        return self._with(response_format=response_format)

    def with_generation_config(
        self,
        generation_config: GenerationConfigLike | None,
        override: bool = True,  # noqa: FBT001, FBT002 - the original's order
    ) -> Self:
        """A copy with both configs merged: the new one wins, or without `override` the own."""
        new, own = LlmGenerationConfig.of(generation_config), LlmGenerationConfig.of(self.generation_config)
        if new is None or own is None:
            return self._with(generation_config=new or own)
        return self._with(generation_config=new.merged_over(own) if override else own.merged_over(new))

    def with_output_parser(self, output_parser: OutputParser | Sequence[OutputParser] | None) -> Self:
        """A copy with another output parser."""
        return self._with(output_parser=output_parser)

    def with_additional_pre_rendering_transform(
        self,
        transform: TransformLike,
        append: bool = True,  # noqa: FBT001, FBT002 - the original's order
    ) -> Self:
        """A copy with one more transform of the history, as the last, or without `append` the first."""
        return self._with(
            pre_rendering_transforms=_added(self.pre_rendering_transforms, transform, append=append)
        )

    def with_additional_post_rendering_transform(
        self,
        transform: TransformLike,
        append: bool = True,  # noqa: FBT001, FBT002 - the original's order
    ) -> Self:
        """A copy with one more transform of the rendered messages, as the last, or else the first."""
        transforms = _added(self.post_rendering_transforms, transform, append=append)
        return self._with(post_rendering_transforms=transforms)

    def _with(self, **changes: Any) -> Self:
        own = self._has_own_descriptors
        kept = {"input_descriptors": self.input_descriptors if own else None, "id": str(uuid4())}
        return replace(self, **{**kept, **changes})

    def _readings(self) -> dict[str, Callable[[], Any]]:
        """What the fields become, read one by one so that all faults are found."""
        before, after = self.pre_rendering_transforms, self.post_rendering_transforms
        return {
            "messages": lambda: as_messages(self.messages),
            "tools": lambda: as_tools(self.tools),
            "pre_rendering_transforms": lambda: as_transforms(before, "pre_rendering_transforms"),
            "post_rendering_transforms": lambda: as_transforms(after, "post_rendering_transforms"),
            "generation_config": lambda: LlmGenerationConfig.of(self.generation_config),
            "_partial_values": lambda: dict(self._partial_values),
            "output_parser": self._checked_parser,
            "response_format": self._checked_format,
        }

    def _checked_format(self) -> ResponseFormatLike | None:
        if self.response_format is not None:
            AnswerFormat.of(self.response_format)
        return self.response_format

    def _checked_parser(self) -> OutputParser | Sequence[OutputParser] | None:
        """The output parser, or the list of them."""
        for parser in parsers_of(self.output_parser):
            if not isinstance(parser, OutputParser):
                problem = f"{parser!r:.60} isn't an output parser."
                raise PromptError.of("output_parser", problem, "Give an OutputParser or a list of them.")
        if self.output_parser is None or isinstance(self.output_parser, OutputParser):
            return self.output_parser
        return list(self.output_parser)

    def _parser_faults(self) -> Iterator[Fault]:
        reasons = {
            "native_tool_calling": self.native_tool_calling,
            "native_structured_generation": self.native_structured_generation,
        }
        for name, is_native in reasons.items():
            if not is_native and not parsers_of(self.output_parser):
                problem = f"{name} is off, and no output parser reads the answer."
                yield Fault(title_of(self.name), problem, "Give an output_parser.")

    def _warn_of_unsaid(self, compiled: CompiledMessages) -> None:
        """Warns of tools or a format that neither the chat format nor the text tells the model."""
        unsaid = {
            TOOLS_NAME: self.tools and not self.native_tool_calling,
            RESPONSE_FORMAT_NAME: self.response_format is not None and not self.native_structured_generation,
        }
        for name, is_needed in unsaid.items():
            if is_needed and not compiled.reads(name):
                title = title_of(self.name)
                warnings.warn(
                    f"{title}: the model isn't told of {{{{{name}}}}}. Put it into a message.", stacklevel=4
                )

    def _described(self, compiled: CompiledMessages) -> list[Property]:
        """The given descriptors, or those inferred from the texts, without what is known already."""
        known = {*self._partial_values, TOOLS_NAME, RESPONSE_FORMAT_NAME}
        if self._has_own_descriptors:
            return [each for each in self.input_descriptors or () if each.name not in known]
        found = [
            each for each in descriptors_of(compiled.variables) if each.name not in (*known, HISTORY_NAME)
        ]
        has_history = compiled.has_placeholder or compiled.reads_history
        history = [ListProperty(HISTORY_NAME)] if has_history and HISTORY_NAME not in known else []
        return [*found, *history]

    def _input_sources(self, compiled: CompiledMessages) -> Inputs:
        variables = merged(compiled.variables)
        fixed: dict[str, Any] = {}
        fallback: dict[str, Any] = {each.name: "" for each in variables.values() if each.is_optional}
        fallback |= {
            each.name: each.default_value for each in self.input_descriptors or () if each.has_default
        }
        if not self.native_tool_calling:
            fixed[TOOLS_NAME] = [tool.to_openai_format() for tool in as_tools(self.tools) or ()]
        if not self.native_structured_generation and self.response_format is not None:
            fallback[RESPONSE_FORMAT_NAME] = AnswerFormat.of(self.response_format).schema
        names = tuple(name for name in variables if name != HISTORY_NAME)
        return Inputs(compiled, title_of(self.name), names, fixed, self._partial_values, fallback)

    def _rendered(self, values: dict[str, Any], history: list[Message]) -> list[Message]:
        return self._inputs.compiled.render(self._inputs.with_history(values, history), history)

    def _prompt(self, messages: list[Message]) -> Prompt:
        if not messages:
            raise PromptError.of(
                title_of(self.name), "no message is left of it.", "Give it one that says something."
            )
        tools = as_tools(self.tools)
        form = self.response_format
        return Prompt(
            messages,
            tools=tools if self.native_tool_calling else None,
            response_format=form if self.native_structured_generation else None,
            output_parser=_told(self.output_parser, tools),
            generation_config=LlmGenerationConfig.of(self.generation_config),
            answer_format=form,
        )


def _within(fault: Fault, title: str) -> Fault:
    where = fault.where if fault.where.startswith(title) else f"{title}, {fault.where}"
    return Fault(where, fault.problem, fault.remedy, fault.excerpt)


def _told(
    parser: OutputParser | Sequence[OutputParser] | None, tools: list[Tool] | None
) -> OutputParser | list[OutputParser] | None:
    """The parsers, those that read tool requests with the tools known to them."""
    if parser is None or isinstance(parser, OutputParser):
        return parser.with_tools(tools) if isinstance(parser, ToolOutputParser) and tools else parser
    return [
        each.with_tools(tools) if isinstance(each, ToolOutputParser) and tools else each for each in parser
    ]


def _added(
    transforms: Sequence[TransformLike] | None, transform: TransformLike, *, append: bool
) -> list[TransformLike]:
    return [*(transforms or ()), transform] if append else [transform, *(transforms or ())]


def _transforms(transforms: Any) -> tuple[MessageTransform, ...]:
    """The transforms of a template that is made: objects all, wrapped when it was."""
    return tuple(transforms)
