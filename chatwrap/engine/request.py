"""`AnswerRequest`: all that an answer is asked for with, checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Self, TypeAlias

from chatwrap.chat.functions import ChatModelFunctions, FunctionsLike, as_functions
from chatwrap.chat.model import ChatRequest, NamedFunction, ToolChoice
from chatwrap.engine.context import ContextStrategy, ContextStrategyLike, as_strategy, refuse
from chatwrap.engine.response_format import ResponseFormat, ResponseFormatLike
from chatwrap.engine.sampling import NumberRange, SamplingOptions, sampling_options
from chatwrap.errors import Fault, OptionError, UnknownNameError
from chatwrap.grammar.grammar import Grammar

ToolChoiceLike: TypeAlias = ToolChoice | str
"""``"auto"``, ``"none"``, ``"required"``, a `NamedFunction`, or a function's name."""

_CHOICES: Final = ("auto", "none", "required")
_NOT_OPTIONS: Final = (
    "functions",
    "tool_choice",
    "max_parallel_function_calls",
    "response_format",
    "validates",
    "options",
)
"""What a `ChatRequest` says by itself, and its options can't."""
_RANGES: Final = {
    "max_parallel_function_calls": NumberRange(1, integral=True),
    "thought_budget": NumberRange(0, integral=True),
    "top_logprobs": NumberRange(0, integral=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRequest:
    """What the model may do, and how its answer is made.

    `functions` are those it may call, as far as `tool_choice` lets it; `max_parallel_function_calls` is
    how many times in one answer. What a grammar can't keep of the functions' schemas is left to the
    model, or with `strict_functions` an error. `thought_budget` is how many tokens it may think.
    `top_logprobs` asks for the likelihood of each token, and of so many others in its place.
    `chat_template_kwargs` are variables for the chat template. With `validates` an answer in a response
    format is read and checked; without, it is a text that the grammar allows.

    Raises `OptionError` with every fault, `UnknownNameError` for a choice that isn't among the functions.
    """

    functions: ChatModelFunctions = field(default_factory=lambda: as_functions(None))
    document_function_params: bool = True
    tool_choice: ToolChoice = "auto"
    max_parallel_function_calls: int | None = None
    strict_functions: bool = False
    thought_budget: int | None = None
    response_format: ResponseFormat | None = None
    top_logprobs: int | None = None
    context_strategy: ContextStrategy = refuse
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    validates: bool = True
    options: SamplingOptions = field(default_factory=SamplingOptions)

    def __post_init__(self) -> None:
        if faults := list(self._faults()):
            raise OptionError(faults)

    def _faults(self) -> Iterator[Fault]:
        for name, allowed in _RANGES.items():
            value = getattr(self, name)
            if value is not None and (fault := allowed.fault(name, value)):
                yield fault
        kwargs = self.chat_template_kwargs
        if not isinstance(kwargs, Mapping) or not all(isinstance(name, str) for name in kwargs):
            yield Fault("chat_template_kwargs", f"must map names to values, not {kwargs!r}.")
        if self.tool_choice not in ("auto", "none") and not self.functions:
            yield Fault("tool_choice", f"{self.tool_choice!r}, but there are no functions.", "Give some.")

    @classmethod
    def of(
        cls,
        *,
        functions: FunctionsLike | None = None,
        tool_choice: ToolChoiceLike = "auto",
        response_format: ResponseFormatLike | None = None,
        context_strategy: ContextStrategyLike = "error",
        options: SamplingOptions | None = None,
        **others: Any,
    ) -> Self:
        """The request that keyword arguments make: those of the class, and sampling options by name."""
        named = {entry.name for entry in fields(cls)}
        own = {name: others.pop(name) for name in list(others) if name in named}
        known = as_functions(functions)
        return cls(
            functions=known,
            tool_choice=_choice(tool_choice, known),
            response_format=None if response_format is None else ResponseFormat.of(response_format),
            context_strategy=as_strategy(context_strategy),
            options=sampling_options(options, others),
            **own,
        )

    @classmethod
    def of_chat_request(cls, request: ChatRequest) -> Self:
        """What a `ChatRequest` asks for. Whoever asks reads the answer, cut short or not."""
        if refused := [name for name in _NOT_OPTIONS if name in request.options]:
            raise OptionError([Fault(name, "no sampling option.", "Remove it.") for name in refused])
        schema, text = request.response_schema, request.response_grammar
        grammar = None if text is None else Grammar.from_gbnf(text, name="response_grammar")
        return cls.of(
            functions=request.functions,
            tool_choice=request.tool_choice,
            max_parallel_function_calls=request.max_parallel_calls,
            response_format=grammar if schema is None else schema,
            validates=False,
            **request.options,
        )

    @property
    def offered(self) -> ChatModelFunctions:
        """The functions that the model is told of: none if it may not call any."""
        return as_functions(None) if self.tool_choice == "none" else self.functions

    def without_forced_call(self) -> Self:
        """This request for the rounds after the first, in which no call can be demanded."""
        return self if self.tool_choice in ("auto", "none") else replace(self, tool_choice="auto")


def _choice(choice: Any, functions: ChatModelFunctions) -> ToolChoice:
    if isinstance(choice, NamedFunction) or (isinstance(choice, str) and choice not in _CHOICES):
        name = choice.name if isinstance(choice, NamedFunction) else choice
        if name not in functions:
            raise UnknownNameError("function", name, list(functions), "`functions`")
        return NamedFunction(name)
    if choice not in _CHOICES:
        remedy = "Give 'auto', 'none', 'required' or a function's name."
        raise OptionError.of("tool_choice", f"{choice!r} can't be followed.", remedy)
    chosen: ToolChoice = choice
    return chosen
