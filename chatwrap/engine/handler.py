"""A chat format as llama-cpp-python's chat handler: OpenAI messages in, OpenAI answers out."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from weakref import WeakKeyDictionary

import llama_cpp
from llama_cpp.llama_chat_format import LlamaChatCompletionHandlerRegistry

from chatwrap.chat.functions import ChatModelFunctions
from chatwrap.chat.openai import functions_from_openai, history_from_openai, response_schema_from_openai
from chatwrap.engine.formats import ChatWrapperLike, load_wrapper
from chatwrap.engine.generate import Generation, GenerationResult
from chatwrap.engine.model import Model
from chatwrap.engine.sampling import SamplingOptions
from chatwrap.errors import ContextOverflowError, Fault, OptionError, UnknownNameError
from chatwrap.grammar.grammar import Grammar
from chatwrap.wrapper.base import ChatWrapper

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
_OTHERS: Final = ("model", "functions", "tools", "max_tokens", "logit_bias", "response_format")


@dataclass(frozen=True, slots=True)
class _Restricted:
    """An argument of which only some values can be followed, and what to say of the others."""

    allowed: tuple[Any, ...]
    remedy: str


_NO_FORCED_CALL: Final = _Restricted(
    (None, "auto", "none"), "Calls can't be forced. Give 'auto' or 'none', and read the text for calls."
)
_RESTRICTED: Final[Mapping[str, _Restricted]] = {
    "tool_choice": _NO_FORCED_CALL,
    "function_call": _NO_FORCED_CALL,
    "logprobs": _Restricted((None, False), "Log probabilities aren't given."),
    "top_logprobs": _Restricted((None, 0), "Log probabilities aren't given."),
    "tfs_z": _Restricted((None, 1), "llama.cpp has no tail-free sampling any more. Leave it out."),
}


@dataclass(frozen=True, slots=True, eq=False)
class LlamaCppHandler:
    """Answers `Llama.create_chat_completion` in one chat format; made by `llama_cpp_handler`.

    Every argument is followed or refused with an error, none ignored. What is wrong with a request is
    raised by the call itself, also when it asks for a stream. Like the `Llama` it is given, it serves
    one request at a time; a new one ends a stream that nobody reads any more.
    """

    chat_wrapper: ChatWrapperLike
    _wrappers: WeakKeyDictionary[llama_cpp.Llama, ChatWrapper] = field(default_factory=WeakKeyDictionary)

    def __call__(
        self,
        *,
        llama: llama_cpp.Llama,
        messages: Sequence[Any],
        stream: bool = False,
        **arguments: Any,
    ) -> Any:
        """A ``chat.completion``, or with `stream` its ``chat.completion.chunk`` objects."""
        functions = _functions(arguments)
        options = _options(arguments)
        if schema_grammar := _schema_grammar(arguments):
            options = _under(schema_grammar, options, functions)
        model = Model(llama, self._wrappers.get(llama, self.chat_wrapper))
        self._wrappers[llama] = model.chat_wrapper
        try:
            generation = model.generate(
                history_from_openai(messages), functions=functions, options=options, wait=False
            )
        except ContextOverflowError as error:
            raise _RequestedTokensError(error) from None
        answer = _Answer(arguments.get("model") or llama.model_path)
        return answer.chunks(generation) if stream else answer.whole(generation)


def llama_cpp_handler(chat_wrapper: ChatWrapperLike = "auto") -> LlamaCppHandler:
    """A handler for ``Llama(chat_handler=...)``; ``"auto"`` picks the wrapper that fits the model,
    ``"jinja"`` takes the template in its file.

    Raises `UnknownNameError`, `FileError` or `DefinitionError` for a wrapper that can't be loaded.
    """
    late = chat_wrapper in ("auto", "jinja")
    return LlamaCppHandler(chat_wrapper if late else load_wrapper(chat_wrapper))


def register(name: str, chat_wrapper: ChatWrapperLike, *, overwrite: bool = False) -> None:
    """Lets ``Llama(chat_format=name)`` and ``llama_cpp.server --chat_format name`` find a chat wrapper.

    The registry is this process's. Raises `OptionError` if the name is taken and `overwrite` is off.
    """
    handler = llama_cpp_handler(chat_wrapper)
    registry = LlamaChatCompletionHandlerRegistry()  # type: ignore[no-untyped-call]
    try:
        registry.register_chat_completion_handler(name, handler, overwrite)
    except ValueError:
        remedy = "Choose another name, or pass overwrite=True."
        raise OptionError.of(
            "name", f"llama-cpp-python has a chat format {name!r} already.", remedy
        ) from None


@dataclass(frozen=True, slots=True)
class _Answer:
    """Dresses an answer in OpenAI's shapes, under one id."""

    model: str
    answer_id: str = field(default_factory=lambda: f"chatcmpl-{secrets.token_hex(16)}")
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, generation: Generation) -> dict[str, Any]:
        for _ in generation:
            pass
        result = generation.result
        message = {"role": "assistant", "content": result.text}
        return {
            **self._frame("chat.completion", message=message, finish_reason=result.finish_reason),
            "usage": _usage(result),
        }

    def chunks(self, generation: Generation) -> Iterator[dict[str, Any]]:
        with generation:
            yield self._chunk({"role": "assistant", "content": ""})
            for chunk in generation:
                if chunk.text:
                    yield self._chunk({"content": chunk.text})
        result = generation.result
        yield {**self._chunk({}, finish_reason=result.finish_reason), "usage": _usage(result)}

    def _chunk(self, delta: Mapping[str, str], *, finish_reason: str | None = None) -> dict[str, Any]:
        return self._frame("chat.completion.chunk", delta=delta, finish_reason=finish_reason)

    def _frame(self, kind: str, *, finish_reason: str | None, **content: Any) -> dict[str, Any]:
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": finish_reason}
        return {
            "id": self.answer_id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": [choice],
        }


def _usage(result: GenerationResult) -> dict[str, int]:
    return {
        "prompt_tokens": result.n_prompt_tokens,
        "completion_tokens": result.n_completion_tokens,
        "total_tokens": result.n_prompt_tokens + result.n_completion_tokens,
    }


def _functions(arguments: Mapping[str, Any]) -> ChatModelFunctions | None:
    """The functions to document: those of `tools`, or of their old form `functions`."""
    tools, functions = arguments.get("tools"), arguments.get("functions")
    if tools and functions:
        raise OptionError.of("functions", "given together with tools.", "Give tools alone.")
    choice = arguments.get("tool_choice" if tools else "function_call")
    if choice == "none" or not (tools or functions):
        return None
    return functions_from_openai(tools or functions, where="tools" if tools else "functions")


def _options(arguments: Mapping[str, Any]) -> SamplingOptions:
    """The sampling options among the arguments. Raises for what can't be followed."""
    known = (*_SAMPLING, *_OTHERS, *_RESTRICTED)
    for name in arguments:
        if name not in known:
            raise UnknownNameError("chat completion argument", name, known, "LlamaCppHandler")
    faults = [
        Fault(name, f"{arguments[name]!r} can't be followed.", restricted.remedy)
        for name, restricted in _RESTRICTED.items()
        if arguments.get(name) not in restricted.allowed
    ]
    if faults:
        raise OptionError(faults)
    given = {name: arguments[name] for name in _SAMPLING if arguments.get(name) is not None}
    return SamplingOptions(
        **given,
        max_tokens=_max_tokens(arguments.get("max_tokens")),
        logit_bias=_logit_bias(arguments.get("logit_bias") or {}),
    )


def _schema_grammar(arguments: Mapping[str, Any]) -> Grammar | None:
    """The grammar of a response format, in which objects have the properties they name and no others.

    Raises `SchemaError` for a schema that can't be enforced.
    """
    schema = response_schema_from_openai(arguments.get("response_format"))
    return None if schema is None else Grammar.from_json_schema(schema, closed=True)


def _under(
    grammar: Grammar, options: SamplingOptions, functions: ChatModelFunctions | None
) -> SamplingOptions:
    """`options` with a response format's grammar, which leaves no room for calls or another grammar."""
    if functions:
        remedy = "Give one of them, or the tool choice 'none'."
        raise OptionError.of("response_format", "given together with functions to call.", remedy)
    if options.grammar is not None:
        raise OptionError.of("response_format", "given together with a grammar.", "Give one of them.")
    return replace(options, grammar=grammar)


def _max_tokens(value: Any) -> Any:
    """llama-cpp-python takes 0 and less as no limit."""
    return None if isinstance(value, int) and value <= 0 else value


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
