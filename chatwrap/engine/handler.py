"""A chat format as llama-cpp-python's chat handler: OpenAI messages in, OpenAI answers out."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

import llama_cpp
from llama_cpp.llama_chat_format import LlamaChatCompletionHandlerRegistry

from chatwrap.chat.openai import history_from_openai, response_schema_from_openai
from chatwrap.chat.openai_completion import AnswerEnd, AnswerPiece, CompletionWriter, logprob_entry
from chatwrap.chat.openai_request import (
    RequestedTools,
    check_continuation,
    includes_usage_from_openai,
    max_tokens_from_openai,
    n_top_logprobs_from_openai,
    tools_from_openai,
)
from chatwrap.engine.context import as_strategy
from chatwrap.engine.formats import LATE_CHOICES, ChatWrapperLike, ModelWrappers, load_wrapper
from chatwrap.engine.generate import Abort, Generation
from chatwrap.engine.logprobs import TokenLogprob
from chatwrap.engine.model import Model
from chatwrap.engine.request import AnswerRequest
from chatwrap.engine.response_format import ResponseFormat
from chatwrap.engine.sampling import SamplingOptions
from chatwrap.engine.vocabulary import vocabulary_of
from chatwrap.errors import ContextOverflowError, Fault, OptionError, UnknownNameError

_SAMPLING: Final = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "typical_p",
    "presence_penalty",
    "frequency_penalty",
    "repeat_penalty",
    "mirostat_mode",
    "mirostat_tau",
    "mirostat_eta",
    "seed",
    "stop",
    "grammar",
    "logits_processor",
)
_FOLLOWED: Final = (
    "model",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "functions",
    "function_call",
    "max_tokens",
    "max_completion_tokens",
    "logit_bias",
    "response_format",
    "logprobs",
    "top_logprobs",
    "stream_options",
    "chat_template_kwargs",
    "reasoning_effort",
    "thought_budget",
    "continue_final_message",
    "add_generation_prompt",
)
# What says nothing about the answer: who asks, and what a service keeps of it.
_LABELS: Final = ("user", "metadata", "safety_identifier", "prompt_cache_key")


@dataclass(frozen=True, slots=True)
class _Restricted:
    """An argument of which only some values can be followed, and what to say of the others."""

    allowed: tuple[Any, ...]
    remedy: str


_RESTRICTED: Final[Mapping[str, _Restricted]] = {
    "n": _Restricted((None, 1), "There is one answer at a time. Ask once more for another."),
    "tfs_z": _Restricted((None, 1), "llama.cpp has no tail-free sampling any more. Leave it out."),
    "logit_bias_type": _Restricted((None, "input_ids"), "Give biases by token id."),
    "modalities": _Restricted((None, ["text"]), "Answers are text."),
    "store": _Restricted((None, False), "Answers aren't stored."),
    "service_tier": _Restricted((None, "auto", "default"), "There is one service tier."),
}


@dataclass(frozen=True, slots=True, eq=False)
class LlamaCppHandler:
    """Answers `Llama.create_chat_completion` in one chat format; made by `llama_cpp_handler`.

    Every argument is followed or refused with an error, none ignored, but for labels such as ``user``.
    What is wrong with a request is raised by the call itself, also when it asks for a stream. Like the
    `Llama` it is given, it serves one request at a time; a new one ends a stream that nobody reads any
    more. `chat_template_kwargs` are variables for the chat template, where a request gives none of
    the same name.
    """

    chat_wrapper: ChatWrapperLike
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    _wrappers: WeakKeyDictionary[llama_cpp.Llama, ModelWrappers] = field(default_factory=WeakKeyDictionary)

    def __call__(
        self,
        *,
        llama: llama_cpp.Llama,
        messages: Sequence[Any],
        stream: bool = False,
        **arguments: Any,
    ) -> Any:
        """A ``chat.completion``, or with `stream` its ``chat.completion.chunk`` objects."""
        reply = self.reply(llama, messages, arguments)
        return reply.chunks() if stream else reply.whole()

    def reply(
        self,
        llama: llama_cpp.Llama,
        messages: Sequence[Any],
        arguments: Mapping[str, Any],
        *,
        abort: Abort | None = None,
    ) -> Reply:
        """The answer that a request asks for, not yet generated. Raises what is wrong with the request."""
        tools = tools_from_openai(arguments)
        request = self._request(arguments, tools)
        usage = includes_usage_from_openai(arguments)
        check_continuation(arguments, messages)
        model = Model(llama, self._wrappers_of(llama))
        try:
            prompt = model.prompt(history_from_openai(messages), request)
        except ContextOverflowError as error:
            raise _RequestedTokensError(error) from None
        generation = model.answer(prompt, request, abort=abort, wait=False)
        writer = CompletionWriter(arguments.get("model") or llama.model_path, tools.is_legacy, usage)
        return Reply(generation, writer, has_logprobs=request.top_logprobs is not None)

    def use(self, llama: llama_cpp.Llama, wrappers: ModelWrappers) -> None:
        """Takes wrappers for a model that were chosen already."""
        self._wrappers[llama] = wrappers

    def _wrappers_of(self, llama: llama_cpp.Llama) -> ModelWrappers:
        if llama not in self._wrappers:
            self._wrappers[llama] = ModelWrappers(self.chat_wrapper, vocabulary_of(llama))
        return self._wrappers[llama]

    def _request(self, arguments: Mapping[str, Any], tools: RequestedTools) -> AnswerRequest:
        """What the arguments ask for. Raises for what can't be followed."""
        _check_arguments(arguments)
        schema = response_schema_from_openai(arguments.get("response_format"))
        return AnswerRequest(
            functions=tools.functions,
            tool_choice=tools.tool_choice,
            max_parallel_function_calls=tools.max_calls,
            strict_functions=tools.is_strict,
            thought_budget=arguments.get("thought_budget"),
            response_format=None if schema is None else ResponseFormat.of(schema),
            validates=False,
            top_logprobs=n_top_logprobs_from_openai(arguments),
            chat_template_kwargs=self._template_kwargs(arguments),
            context_strategy=as_strategy("error"),
            options=_options(arguments),
        )

    def _template_kwargs(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        given = arguments.get("chat_template_kwargs") or {}
        if not isinstance(given, Mapping):
            raise OptionError.of("chat_template_kwargs", f"must map names to values, not {given!r}.")
        effort = arguments.get("reasoning_effort")
        own = {} if effort is None else {"reasoning_effort": effort}
        return {**self.chat_template_kwargs, **own, **given}


def llama_cpp_handler(
    chat_wrapper: ChatWrapperLike = "auto", *, chat_template_kwargs: Mapping[str, Any] | None = None
) -> LlamaCppHandler:
    """A handler for ``Llama(chat_handler=...)``; ``"auto"`` picks the wrapper that fits the model,
    ``"jinja"`` takes the template in its file.

    `chat_template_kwargs` are variables for the chat template (``{"enable_thinking": False}``), which a
    request may change.

    Raises `UnknownNameError`, `FileError` or `DefinitionError` for a wrapper that can't be loaded.
    """
    late = chat_wrapper in LATE_CHOICES
    return LlamaCppHandler(
        chat_wrapper if late else load_wrapper(chat_wrapper), dict(chat_template_kwargs or {})
    )


def register(
    name: str,
    chat_wrapper: ChatWrapperLike,
    *,
    overwrite: bool = False,
    chat_template_kwargs: Mapping[str, Any] | None = None,
) -> None:
    """Lets ``Llama(chat_format=name)`` and ``llama_cpp.server --chat_format name`` find a chat wrapper.

    The registry is this process's; `chat_template_kwargs` as for `llama_cpp_handler`. Raises
    `OptionError` if the name is taken and `overwrite` is off.
    """
    if not isinstance(name, str):
        raise OptionError.of("name", f"must be a string, not {name!r}.")
    handler = llama_cpp_handler(chat_wrapper, chat_template_kwargs=chat_template_kwargs)
    registry = LlamaChatCompletionHandlerRegistry()  # type: ignore[no-untyped-call]
    try:
        registry.register_chat_completion_handler(name, handler, overwrite)
    except ValueError:
        remedy = "Choose another name, or pass overwrite=True."
        raise OptionError.of(
            "name", f"llama-cpp-python has a chat format {name!r} already.", remedy
        ) from None


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer under way, to be had whole or as a stream."""

    generation: Generation
    writer: CompletionWriter
    has_logprobs: bool = False

    def whole(self) -> dict[str, Any]:
        """The ``chat.completion``."""
        return self.writer.whole(self._pieces())

    def chunks(self) -> Generator[dict[str, Any], None, None]:
        """The ``chat.completion.chunk`` objects; closing the generator ends the answer."""
        with self.generation:
            yield from self.writer.chunks(self._pieces())

    def _pieces(self) -> Iterator[AnswerPiece | AnswerEnd]:
        with self.generation:
            for chunk in self.generation:
                logprobs = tuple(map(_entry, chunk.logprobs)) if self.has_logprobs else None
                yield AnswerPiece(chunk.events, logprobs)
        result = self.generation.result
        yield AnswerEnd(result.finish_reason, result.n_prompt_tokens, result.n_completion_tokens)


def _entry(token: TokenLogprob) -> dict[str, Any]:
    top = ((other.piece, other.logprob) for other in token.top)
    return logprob_entry(token.sampled.piece, token.sampled.logprob, top)


def _check_arguments(arguments: Mapping[str, Any]) -> None:
    """Raises for arguments that there aren't and for values that can't be followed."""
    known = (*_SAMPLING, *_FOLLOWED, *_LABELS, *_RESTRICTED)
    for name, value in arguments.items():
        if name not in known and value is not None:
            raise UnknownNameError("chat completion argument", name, known, "The README")
    faults = [
        Fault(name, f"{arguments[name]!r} can't be followed.", restricted.remedy)
        for name, restricted in _RESTRICTED.items()
        if arguments.get(name) not in restricted.allowed
    ]
    if faults:
        raise OptionError(faults)


def _options(arguments: Mapping[str, Any]) -> SamplingOptions:
    """The sampling options among the arguments."""
    given = {name: arguments[name] for name in _SAMPLING if arguments.get(name) is not None}
    return SamplingOptions(
        **given,
        max_tokens=max_tokens_from_openai(arguments),
        logit_bias=_logit_bias(arguments.get("logit_bias") or {}),
    )


def _logit_bias(biases: Any) -> Any:
    """Biases by token id; JSON, and so the server, has ids as text."""
    if not isinstance(biases, Mapping):
        return biases
    return {
        int(key) if isinstance(key, str) and key.isdecimal() else key: bias for key, bias in biases.items()
    }


class _RequestedTokensError(ContextOverflowError):
    """An overflow in the words that `llama_cpp.server` answers with status 400, not 500.

    See RouteErrorHandler in llama_cpp/server/errors.py.
    """

    def __init__(self, error: ContextOverflowError) -> None:
        super().__init__(error.n_tokens, error.n_ctx, at_least=error.at_least)
        requested = f"Requested tokens ({error.n_tokens}) exceed context window of {error.n_ctx}"
        self.args = (f"{requested}: {error}",)
