"""`Model`: a GGUF model loaded into llama.cpp, and the chat format it speaks."""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import secrets
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

import llama_cpp

from chatwrap.chat.functions import FunctionsLike
from chatwrap.chat.history import HistoryLike
from chatwrap.chat.text import LlamaText
from chatwrap.engine.evaluate import check_open, context_size
from chatwrap.engine.generate import Abort, Generation, GenerationResult
from chatwrap.engine.response_format import ResponseFormat, ResponseFormatLike
from chatwrap.engine.sampling import SEEDS, NumberRange, SamplingOptions, sampling_options, seed_bits
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
from chatwrap.errors import ContextOverflowError, ModelError, OptionError, UnknownNameError
from chatwrap.models import find_model
from chatwrap.output.stop import StopDetector
from chatwrap.wrapper.base import ChatWrapper, ContextState
from chatwrap.wrapper.definition import load_chat_wrapper
from chatwrap.wrapper.resolve import ModelFacts, resolve

ChatWrapperLike: TypeAlias = str | Path | ChatWrapper

DEFAULT_N_CTX: Final = 8192
"""The largest context that a model gets unasked, in tokens: its memory grows with it."""

_LATE: Final = ("auto", "jinja")
_CHEAP_CHARACTERS_PER_TOKEN: Final = 16
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

    def __init__(self, llama: llama_cpp.Llama, chat_wrapper: ChatWrapperLike = "auto") -> None:
        """Makes a model of a `llama_cpp.Llama`. Raises `UnknownNameError` for an unknown wrapper."""
        self.llama = llama
        self.chat_wrapper = resolved_wrapper(chat_wrapper, self.vocabulary)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees the model's memory. It can't be used after."""
        self.llama.close()

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
        options: SamplingOptions | None = None,
        response_format: ResponseFormatLike | None = None,
        abort: Abort | None = None,
        wait: bool = True,
        **changes: Any,
    ) -> Generation:
        """The model's answer to a history, as an iterator of chunks with a `result` after its end.

        `response_format` is what the answer has to be: a JSON Schema or a type, closed (an object has
        no properties but those named), a `Grammar`, or a `ResponseFormat` with options of its own. The
        answer's value is `result.value`; functions are documented but can't be called then. `changes`
        are fields of `SamplingOptions` by name.

        What is wrong with the history, the options, the response format or the prompt's length is
        raised at once; see `Generation` for the rest.
        """
        form = None if response_format is None else ResponseFormat.of(response_format)
        state = self.context_state(
            history, functions=functions, document_function_params=document_function_params
        )
        chosen = sampling_options(options, changes)
        return self.answer(state, options=chosen, response_format=form, abort=abort, wait=wait)

    def complete(self, history: HistoryLike, **options: Any) -> GenerationResult:
        """The model's whole answer; takes what `generate` takes."""
        generation = self.generate(history, **options)
        for _ in generation:
            pass
        return generation.result

    def answer(
        self,
        state: ContextState,
        *,
        options: SamplingOptions,
        response_format: ResponseFormat | None = None,
        prompt_ids: Sequence[int] | None = None,
        abort: Abort | None = None,
        wait: bool = True,
    ) -> Generation:
        """The answer to a rendered prompt; `prompt_ids` if it is encoded already."""
        if prompt_ids is None:
            self.check_length(state.context_text)
            prompt_ids = self.encode(state.context_text)
        detector = StopDetector(state.stop_generation_triggers, self.vocabulary, options.stop_strings)
        return Generation(
            self.llama,
            prompt_ids,
            detector,
            options,
            ignore_start_text=state.ignore_start_text,
            response_format=response_format,
            abort=abort,
            wait=wait,
        )

    def check_length(self, text: LlamaText) -> None:
        """Refuses a text that can't fit however it is encoded, before time is spent on encoding it."""
        n_characters = sum(len(str(value)) for value in text.values)
        if n_characters <= self.n_ctx * _CHEAP_CHARACTERS_PER_TOKEN:
            return
        n_least = -(-n_characters // self.vocabulary.longest_piece)
        if n_least >= self.n_ctx:
            raise ContextOverflowError(n_least, self.n_ctx, at_least=True)


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
    if isinstance(chat_wrapper, ChatWrapper) or chat_wrapper not in _LATE:
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


def load_wrapper(chat_wrapper: ChatWrapperLike) -> ChatWrapper:
    """A chat wrapper as it is, or loaded by its name or from its file."""
    return chat_wrapper if isinstance(chat_wrapper, ChatWrapper) else load_chat_wrapper(chat_wrapper)


def resolved_wrapper(chat_wrapper: ChatWrapperLike, vocabulary: Vocabulary) -> ChatWrapper:
    """The wrapper for a vocabulary; ``"auto"`` and ``"jinja"`` as in `chatwrap.wrapper.resolve.resolve`.

    A chat template that can't be used is a warning.
    """
    resolution = resolve(ModelFacts(vocabulary.metadata, vocabulary), chat_wrapper)
    for message in resolution.warnings:
        warnings.warn(message, stacklevel=3)
    return resolution.wrapper


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
