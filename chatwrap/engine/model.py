"""`Model`: a GGUF model loaded into llama.cpp, and the chat format it speaks."""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import secrets
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

import llama_cpp

from chatwrap.chat.events import ResponseEnd, ResponseEvent
from chatwrap.chat.functions import FunctionsLike
from chatwrap.chat.history import ChatHistory, HistoryLike, as_history
from chatwrap.chat.model import Answer_co, ChatRequest, Runnable, Stream_co
from chatwrap.chat.text import LlamaText
from chatwrap.engine.context import ContextStrategyLike
from chatwrap.engine.evaluate import check_open, context_size
from chatwrap.engine.formats import (
    LATE_CHOICES,
    ChatWrapperLike,
    ModelWrappers,
    RequestFormat,
    check_variables,
    load_wrapper,
)
from chatwrap.engine.generate import Abort, Generation, GenerationResult
from chatwrap.engine.plan import answer_plan
from chatwrap.engine.prompt import Prompt, PromptMaker
from chatwrap.engine.replay import Replay
from chatwrap.engine.request import AnswerRequest, ToolChoiceLike
from chatwrap.engine.response_format import ResponseFormatLike
from chatwrap.engine.sampling import SEEDS, NumberRange, SamplingOptions, seed_bits
from chatwrap.engine.vocabulary import (
    CUT_SHORT,
    Vocabulary,
    captured_log,
    check_gguf,
    is_about_file,
    load_vocabulary,
    log_reason,
    vocabulary_of,
)
from chatwrap.errors import ModelError, OptionError, UnknownNameError
from chatwrap.models import find_model
from chatwrap.output.stop import StopDetector
from chatwrap.wrapper.base import ChatWrapper, ContextState

DEFAULT_N_CTX: Final = 8192
"""The largest context that a model gets unasked, in tokens: its memory grows with it."""

_INT_MAX: Final = 2**31 - 1
_RANGES: Final[Mapping[str, NumberRange]] = {
    "n_ctx": NumberRange(1, _INT_MAX, integral=True),
    "n_gpu_layers": NumberRange(-1, _INT_MAX, integral=True),
    "n_threads": NumberRange(1, 512, integral=True),
    "n_batch": NumberRange(1, _INT_MAX, integral=True),
    "seed": SEEDS,
}


class Model:
    """A loaded model: renders histories in its chat format and answers them.

    One `Model` may be used from many threads and by many sessions: it answers them one at a time.
    `close` frees the memory, and so does leaving the ``with`` block.
    """

    def __init__(
        self, llama: llama_cpp.Llama, chat_wrapper: ChatWrapperLike | ModelWrappers = "auto"
    ) -> None:
        """Makes a model of a `llama_cpp.Llama`. Raises `UnknownNameError` for an unknown wrapper."""
        self.llama = llama
        if not isinstance(chat_wrapper, ModelWrappers):
            chat_wrapper = ModelWrappers(chat_wrapper, self.vocabulary)
        self.wrappers = chat_wrapper

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees the model's memory. It can't be used after."""
        self.llama.close()

    @property
    def chat_wrapper(self) -> ChatWrapper:
        """The chat format that this model speaks; setting it changes that."""
        return self.wrappers.wrapper

    @chat_wrapper.setter
    def chat_wrapper(self, chat_wrapper: ChatWrapper) -> None:
        self.wrappers = ModelWrappers(chat_wrapper, self.vocabulary)

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's tokenizer. Raises `ModelError` once the model is closed, as all else does."""
        check_open(self.llama)
        return vocabulary_of(self.llama)

    @property
    def name(self) -> str:
        """The model's name by its metadata, else its file's name."""
        return self.vocabulary.name or Path(self.llama.model_path).stem

    @property
    def n_ctx(self) -> int:
        """How many tokens a prompt and its answer may have together."""
        return context_size(self.llama)

    def context_state(
        self,
        history: HistoryLike,
        *,
        functions: FunctionsLike | None = None,
        document_function_params: bool = True,
    ) -> ContextState:
        """The prompt as text, and the stop triggers."""
        return self.chat_wrapper.generate_context_state(history, functions, document_function_params)

    def prompt_ids(
        self,
        history: HistoryLike,
        *,
        functions: FunctionsLike | None = None,
        document_function_params: bool = True,
    ) -> list[int]:
        """The token ids of the prompt for a history."""
        state = self.context_state(
            history, functions=functions, document_function_params=document_function_params
        )
        return self.encode(state.context_text)

    def encode(self, text: LlamaText) -> list[int]:
        """The token ids of a text in this model's format; see `chatwrap.tokens.encode`."""
        return self.vocabulary.encoder_for(self.chat_wrapper).encode(text)

    def generate(
        self,
        history: HistoryLike,
        *,
        functions: FunctionsLike | None = None,
        document_function_params: bool = True,
        tool_choice: ToolChoiceLike = "auto",
        max_parallel_function_calls: int | None = None,
        thought_budget: int | None = None,
        response_format: ResponseFormatLike | None = None,
        top_logprobs: int | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        context_strategy: ContextStrategyLike = "error",
        options: SamplingOptions | None = None,
        abort: Abort | None = None,
        wait: bool = True,
        **changes: Any,
    ) -> Generation:
        """The model's answer to a history, as an iterator of chunks with a `result` after its end.

        `functions` are those that the model may call, `tool_choice` whether it may (``"auto"``,
        ``"none"``), has to (``"required"``) or which one it has to call (its name). The calls are in
        `result.response`; nothing runs them here, which `ChatSession` does. At most
        `max_parallel_function_calls` are made in one answer.

        `thought_budget` is how many tokens the model may think; then the format's own end of a thought
        is put in. `response_format` is what the answer has to be: a JSON Schema or a type, closed (an
        object has no properties but those named), a `Grammar`, or a `ResponseFormat` with options of its
        own. The answer's value is `result.value`. `top_logprobs` asks for the likelihood of each token
        and of so many others in its place. `chat_template_kwargs` are variables for the model's chat
        template (``{"enable_thinking": False}``). `context_strategy` is what becomes of a history that is too
        long: ``"error"``, ``"drop_oldest"``, a `DropOldest` or a function of a `ContextOverflow`.
        `changes` are fields of `SamplingOptions` by name.

        What is wrong with the history, the options, the response format or the prompt's length is
        raised at once; see `Generation` for the rest.
        """
        request = AnswerRequest.of(
            functions=functions,
            document_function_params=document_function_params,
            tool_choice=tool_choice,
            max_parallel_function_calls=max_parallel_function_calls,
            thought_budget=thought_budget,
            response_format=response_format,
            top_logprobs=top_logprobs,
            chat_template_kwargs=chat_template_kwargs or {},
            context_strategy=context_strategy,
            options=options,
            **changes,
        )
        return self.answer(self.prompt(history, request), request, abort=abort, wait=wait)

    def complete(self, history: HistoryLike, **options: Any) -> GenerationResult:
        """The model's whole answer; takes what `generate` takes."""
        generation = self.generate(history, **options)
        for _ in generation:
            pass
        return generation.result

    def run(self, prompt: Runnable[Answer_co, Any], **options: Any) -> Answer_co:
        """This model's whole answer to a prompt, as the prompt's output parsers read it.

        `options` are sampling options, which win over the prompt's own, and ``tool_choice``.
        """
        return prompt.run(self, **options)

    async def run_async(self, prompt: Runnable[Answer_co, Any], **options: Any) -> Answer_co:
        """As `run`, on a worker thread."""
        return await prompt.run_async(self, **options)

    def stream(self, prompt: Runnable[Any, Stream_co], **options: Any) -> Stream_co:
        """As `run`, piece by piece."""
        return prompt.stream(self, **options)

    def respond(self, request: ChatRequest) -> Generator[ResponseEvent, None, None]:
        """The events of the answer to a request, `ResponseEnd` last; makes this a `ChatModel`.

        What is wrong with the request is raised by the call itself. Closing the generator aborts the
        answer.
        """
        asked = AnswerRequest.of_chat_request(request)
        return _events(self.answer(self.prompt(request.history, asked), asked))

    def prompt(self, history: HistoryLike, request: AnswerRequest, *, replay: Replay | None = None) -> Prompt:
        """The prompt for a request; ids that `replay` holds are put back. See `PromptMaker.make`."""
        form = self.format_of(request)

        def render(items: ChatHistory) -> ContextState:
            return form.render(items, request.offered, document_params=request.document_function_params)

        def encode(text: LlamaText) -> list[int]:
            replayed = replay and replay.encode(text, self.vocabulary, form.encode)
            return replayed or form.encode(text)

        maker = PromptMaker(render, encode, self.n_ctx, lambda: self.vocabulary.longest_piece)
        return maker.make(as_history(history), request.context_strategy, request.options.max_tokens)

    def answer(
        self, prompt: Prompt, request: AnswerRequest, *, abort: Abort | None = None, wait: bool = True
    ) -> Generation:
        """The answer to a prompt."""
        plan = answer_plan(request, prompt, self.format_of(request))
        options = request.options
        if request.response_format is not None and plan.constraint is None:
            options = request.response_format.applied_to(options)
        triggers = prompt.state.stop_generation_triggers
        return Generation(
            self.llama,
            prompt.token_ids,
            StopDetector(triggers, self.vocabulary, options.stop_strings),
            options,
            plan,
            n_top_logprobs=request.top_logprobs,
            abort=abort,
            wait=wait,
        )

    def format_of(self, request: AnswerRequest) -> RequestFormat:
        """The format of a request: this model's, or its own template where there are variables for it.

        Raises `OptionError` for variables that the template doesn't read.
        """
        variables = request.chat_template_kwargs
        wrapper = self.wrappers.template if variables else self.chat_wrapper
        check_variables(wrapper, variables)
        return RequestFormat(wrapper, self.vocabulary, variables)


def _events(generation: Generation) -> Generator[ResponseEvent, None, None]:
    with generation:
        for chunk in generation:
            yield from chunk.events
    result = generation.result
    yield ResponseEnd(result.finish_reason, result.n_prompt_tokens, result.n_completion_tokens)


def load_model(
    path_or_name: str | Path,
    *,
    n_ctx: int | None = None,
    n_gpu_layers: int = 0,
    chat_wrapper: ChatWrapperLike = "auto",
    seed: int | None = None,
    n_threads: int | None = None,
    n_batch: int = 512,
    flash_attn: bool = False,
    verbose: bool = False,
    **llama_options: Any,
) -> Model:
    """Loads a GGUF model: a file, a name in ``models.txt``, or ``hf:OWNER/REPOSITORY/FILE.gguf``.

    `n_ctx` is the context in tokens; None takes what the model was trained with, at most
    `DEFAULT_N_CTX`. `n_gpu_layers` -1 puts all layers on the GPU. `chat_wrapper` is a chat wrapper, the
    name or file of one, ``"jinja"`` (the template in the file), or ``"auto"``: the built-in format that
    equals that template, the template, or without one what vocabulary and name tell; see
    `chatwrap.wrapper.resolve.resolve`. `seed` None or -1 starts from a random one. `llama_options` are
    further arguments of `llama_cpp.Llama`.

    Raises `FileError` if there is no such file or it isn't GGUF, `ModelError` with llama.cpp's reason if
    it can't be loaded, `OptionError` for an option that can't be.
    """
    path = find_model(path_or_name)
    check_gguf(path)
    if isinstance(chat_wrapper, ChatWrapper) or chat_wrapper not in LATE_CHOICES:
        chat_wrapper = load_wrapper(chat_wrapper)
    options = {
        "n_ctx": n_ctx,
        "n_gpu_layers": n_gpu_layers,
        "n_threads": n_threads,
        "n_batch": n_batch,
        "flash_attn": flash_attn,
        "seed": seed,
        "verbose": verbose,
        **llama_options,
    }
    _check_options(options)
    options["n_ctx"] = n_ctx or _default_n_ctx(path)
    options["seed"] = secrets.randbits(32) if seed in (None, -1) else seed_bits(seed)
    return Model(_load(path, options, verbose=verbose), chat_wrapper)


def _check_options(options: Mapping[str, object]) -> None:
    """Refuses what `llama_cpp.Llama` would crash on, or ignore."""
    parameters = inspect.signature(llama_cpp.Llama).parameters
    known = [name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY]
    for name in options:
        if name not in known:
            raise UnknownNameError("model option", name, known, "help(llama_cpp.Llama)")
    faults = [_RANGES[name].fault(name, options[name]) for name in _RANGES if options[name] is not None]
    if any(faults):
        raise OptionError(filter(None, faults))


def _default_n_ctx(path: Path) -> int:
    vocabulary = load_vocabulary(path)
    trained = vocabulary.metadata.get(f"{vocabulary.architecture}.context_length", "")
    return min(int(trained), DEFAULT_N_CTX) if trained.isdecimal() and int(trained) else DEFAULT_N_CTX


def _load(path: Path, options: Mapping[str, Any], *, verbose: bool) -> llama_cpp.Llama:
    with _log(verbose=verbose) as lines:
        try:
            return llama_cpp.Llama(str(path), **options)
        except (TypeError, ctypes.ArgumentError) as error:
            raise OptionError.of("load_model", f"llama_cpp.Llama refuses an option: {error}.") from error
        except (ValueError, RuntimeError, MemoryError, OSError) as error:
            reason = log_reason(lines) if lines else f"{error or type(error).__name__}."
            reason += f" {CUT_SHORT}" if is_about_file(lines) else ""
            raise ModelError(f"{path}: llama.cpp can't load it: {reason}") from error


@contextlib.contextmanager
def _log(*, verbose: bool) -> Iterator[list[str]]:
    """Collects llama.cpp's complaints, or lets them be printed."""
    if verbose:
        yield []
        return
    with captured_log() as lines:
        yield lines
