"""`Vocabulary`: llama.cpp's own tokenizer, of a loaded model or of a GGUF file opened without weights."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, Self
from weakref import WeakKeyDictionary

import llama_cpp

from chatwrap.chat.tokenizer import SpecialTokenEntry
from chatwrap.engine.encoding import checked_encoder
from chatwrap.errors import FileError, ModelError
from chatwrap.files import as_path_text, encode_utf8
from chatwrap.tokens.bpe import BytePairEncoder
from chatwrap.tokens.encode import Encoder
from chatwrap.wrapper.base import ChatWrapper

_SPECIAL: Final = (
    llama_cpp.LLAMA_TOKEN_ATTR_CONTROL
    | llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED
    | llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN
)
_ROLES: Final[Mapping[str, Any]] = {
    "BOS": llama_cpp.llama_vocab_bos,
    "EOS": llama_cpp.llama_vocab_eos,
    "EOT": llama_cpp.llama_vocab_eot,
    "NL": llama_cpp.llama_vocab_nl,
    "SEP": llama_cpp.llama_vocab_sep,
}
_LOG_ERROR: Final = 4  # GGML_LOG_LEVEL_ERROR in ggml.h
_LONG_TEXT_BYTES: Final = 16_384
_BYTES_UNTIL_FAST: Final = 65_536
_STACK_BYTES_PER_TEXT_BYTE: Final = 640
_MAX_STACK_BYTES: Final = 8 << 30


class Vocabulary:
    """The tokenizer of a GGUF model; implements `chatwrap.chat.tokenizer.Tokenizer`.

    Reading is thread-safe. `owner` is whatever keeps the native model alive, `path` its file: long texts
    are encoded by a `BytePairEncoder` made from that, where there is one that agrees with llama.cpp.
    """

    def __init__(self, native_model: Any, owner: object, path: str | Path | None = None) -> None:
        self._model = native_model
        self._owner = owner
        self._path = path
        self._n_bytes_until_fast = _BYTES_UNTIL_FAST
        self._fast: BytePairEncoder | None = None
        self._fast_lock = threading.Lock()
        self._encoders: WeakKeyDictionary[ChatWrapper, Encoder] = WeakKeyDictionary()
        self._vocab = llama_cpp.llama_model_get_vocab(native_model)
        self.n_tokens: int = llama_cpp.llama_vocab_n_tokens(self._vocab)
        self.adds_bos: bool = bool(llama_cpp.llama_vocab_get_add_bos(self._vocab))
        self._pieces: dict[int, bytes] = {}

    @classmethod
    def of(cls, llama: llama_cpp.Llama) -> Self:
        """The vocabulary of a `llama_cpp.Llama`, which it keeps alive."""
        return cls(llama.model, llama, llama.model_path)

    @cached_property
    def metadata(self) -> Mapping[str, str]:
        """The GGUF metadata that llama.cpp gives as text; arrays are left out."""
        count = llama_cpp.llama_model_meta_count(self._model)
        return MappingProxyType(dict(map(self._metadata_entry, range(count))))

    def _metadata_entry(self, index: int) -> tuple[str, str]:
        key = _grown_text(llama_cpp.llama_model_meta_key_by_index, self._model, index)
        return key, _grown_text(llama_cpp.llama_model_meta_val_str_by_index, self._model, index)

    @property
    def name(self) -> str:
        """The model's name by its metadata, or an empty string."""
        return self.metadata.get("general.name", "")

    @property
    def architecture(self) -> str:
        """The model's architecture by its metadata (``llama``, ``qwen2``), or an empty string."""
        return self.metadata.get("general.architecture", "")

    @cached_property
    def special_tokens(self) -> Mapping[int, SpecialTokenEntry]:
        """All control, user-defined and unknown-marker entries. One pass over the vocabulary."""
        get_attr = llama_cpp.llama_vocab_get_attr
        found = (
            (token_id, attributes)
            for token_id in range(self.n_tokens)
            if (attributes := get_attr(self._vocab, token_id)) & _SPECIAL
        )
        return MappingProxyType({token_id: self._entry(token_id, attr) for token_id, attr in found})

    @cached_property
    def _unknown_id(self) -> int:
        """The token that stands for what the vocabulary lacks; BPE may name one but never writes it."""
        if llama_cpp.llama_vocab_type(self._vocab) == llama_cpp.LLAMA_VOCAB_TYPE_BPE:
            return -1
        return int(self.metadata.get("tokenizer.ggml.unknown_token_id", -1))

    def _entry(self, token_id: int, attributes: int) -> SpecialTokenEntry:
        text = llama_cpp.llama_vocab_get_text(self._vocab, token_id) or b""
        kind = attributes & _SPECIAL  # llama.cpp makes some user-defined tokens control tokens too
        return SpecialTokenEntry(
            token_id=token_id,
            text=text.decode("utf-8", "replace"),
            user_defined=kind == llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED,
            unknown=bool(attributes & llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN) or token_id == self._unknown_id,
            strips_left=bool(attributes & llama_cpp.LLAMA_TOKEN_ATTR_LSTRIP),
            strips_right=bool(attributes & llama_cpp.LLAMA_TOKEN_ATTR_RSTRIP),
        )

    @cached_property
    def longest_piece(self) -> int:
        """The length of the longest token in bytes; no text has fewer tokens than its length over it."""
        return max(len(self.piece(token_id)) for token_id in range(self.n_tokens))

    def role_id(self, name: Literal["BOS", "EOS", "EOT", "NL", "SEP"]) -> int | None:
        token_id: int = _ROLES[name](self._vocab)
        return token_id if token_id >= 0 else None

    def is_end_of_generation(self, token_id: int) -> bool:
        return bool(llama_cpp.llama_vocab_is_eog(self._vocab, token_id))

    def grammar_sampler(self, gbnf: str) -> Any:
        """A new native sampler for a grammar, a null pointer if llama.cpp can't read it."""
        return llama_cpp.llama_sampler_init_grammar(self._vocab, encode_utf8(gbnf), b"root")

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """The ids of `text`, nothing added in front but the space that SPM vocabularies want.

        Raises `TextEncodingError` for a lone surrogate. Costs about 0.08 s for a megabyte where there is
        a fast encoder, 0.5 s where llama.cpp does it.
        """
        data = encode_utf8(text)
        fast = None if special else self.fast_encoder(len(data))
        ids = None if fast is None else fast.encode(text)
        return self._native_ids(data, special=special) if ids is None else ids

    def encoder_for(self, chat_wrapper: ChatWrapper) -> Encoder:
        """The encoder of a format's texts, which knows the texts that it may write; made once."""
        encoder = self._encoders.get(chat_wrapper)
        if encoder is None:
            encoder = self._encoders[chat_wrapper] = Encoder(self, chat_wrapper.control_texts)
        return encoder

    def plain_ids(self, text: str) -> list[int] | None:
        """The ids of `text` by the fast encoder, which never writes a control token; None without it."""
        fast = self.fast_encoder(len(text)) if self._n_bytes_until_fast > 0 else self._fast
        if fast is None or self._may_write_control:
            return None
        encode_utf8(text)
        return fast.encode(text)

    @cached_property
    def _may_write_control(self) -> bool:
        entries = self.special_tokens.values()
        control = [entry.token_id for entry in entries if not entry.user_defined and not entry.unknown]
        return self._fast is None or self._fast.may_write(control)

    def fast_encoder(self, n_bytes: int = _BYTES_UNTIL_FAST) -> BytePairEncoder | None:
        """The encoder that writes the same ids as llama.cpp in a fraction of the time, if there is one.

        It is made once that pays, so after a few texts; `n_bytes` is what is to be encoded next.
        """
        if self._n_bytes_until_fast <= 0:
            return self._fast
        with self._fast_lock:
            self._n_bytes_until_fast -= n_bytes
            if self._n_bytes_until_fast <= 0 and self._path is not None:
                entries = self.special_tokens.values()
                plain = {entry.text: entry.token_id for entry in entries if entry.user_defined and entry.text}
                self._fast = checked_encoder(
                    self._path, plain, lambda text: self._native_ids(encode_utf8(text))
                )
        return self._fast

    def _native_ids(self, data: bytes, *, special: bool = False) -> list[int]:
        """llama.cpp's ids. A long text runs on a thread with a large stack, since its regex engine
        recurses for each character.
        """
        if len(data) < _LONG_TEXT_BYTES:
            return self._tokenize(data, special=special)
        return _on_large_stack(lambda: self._tokenize(data, special=special), len(data))

    def _tokenize(self, data: bytes, *, special: bool) -> list[int]:
        capacity = len(data) + 8
        while True:
            ids = (llama_cpp.llama_token * capacity)()
            count = llama_cpp.llama_tokenize(self._vocab, data, len(data), ids, capacity, False, special)
            if count >= 0:
                return ids[:count]
            capacity = -count

    def piece(self, token_id: int) -> bytes:
        """The bytes of a token; of a special token, its text. Whole, however long."""
        known = self._pieces.get(token_id)
        return known if known is not None else self._pieces.setdefault(token_id, self._read_piece(token_id))

    def _read_piece(self, token_id: int) -> bytes:
        if not 0 <= token_id < self.n_tokens:
            raise ModelError(f"token id: {token_id} isn't in the vocabulary of {self.n_tokens} tokens.")
        capacity = 64
        while True:
            buffer = ctypes.create_string_buffer(capacity)
            length = llama_cpp.llama_token_to_piece(self._vocab, token_id, buffer, capacity, 0, True)
            if length >= 0:
                return buffer.raw[:length]
            capacity = -length


CUT_SHORT: Final = "If the file was cut short, download it again."


def load_vocabulary(path: str | Path) -> Vocabulary:
    """The vocabulary of a GGUF file, without its weights. Takes 0.03 to 1 s.

    Raises `FileError` if there is no such file or it isn't GGUF, `ModelError` if llama.cpp refuses it.
    """
    check_gguf(as_path_text(path, "path"))
    params = llama_cpp.llama_model_default_params()
    params.vocab_only = True
    with captured_log() as log:
        model = llama_cpp.llama_model_load_from_file(os.fsencode(path), params)
    if not model:
        raise ModelError(f"{path}: llama.cpp can't load it: {log_reason(log)} {CUT_SHORT}")
    return Vocabulary(model, _NativeModel(model), path)


_vocabularies: WeakKeyDictionary[llama_cpp.Llama, Vocabulary] = WeakKeyDictionary()
_vocabularies_lock = threading.Lock()


def vocabulary_of(llama: llama_cpp.Llama) -> Vocabulary:
    """A model's vocabulary, made once. It keeps the weights alive but not the `Llama` (its key here)."""
    with _vocabularies_lock:
        if llama not in _vocabularies:
            _vocabularies[llama] = Vocabulary(llama.model, llama._model, llama.model_path)
        return _vocabularies[llama]


class _NativeModel:
    """Owns a native model and frees it when nobody uses it any more."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._free = llama_cpp.llama_model_free

    def __del__(self) -> None:
        self._free(self._model)


def check_gguf(path: str | Path) -> None:
    """Raises `FileError` unless `path` is a readable file that starts like GGUF."""
    file = Path(path)
    try:
        with file.open("rb") as stream:
            magic = stream.read(4)
    except IsADirectoryError:
        raise FileError(f"{file}: is a directory. Name the GGUF file in it.") from None
    except FileNotFoundError:
        raise FileError(f"{path}: no such file.") from None
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: can't be read: {getattr(error, 'strerror', None) or error}.") from error
    if magic != b"GGUF":
        raise FileError(f"{path}: not a GGUF file: it starts with {magic!r}, not b'GGUF'.")


_log_lock = threading.RLock()


@contextmanager
def captured_log() -> Iterator[list[str]]:
    """Collects llama.cpp's errors and prints nothing of what it logs; restores the logger after.

    One thread at a time, since llama.cpp has one logger a process.
    """
    lines: list[str] = []

    @llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
    def collect(level: int, text: bytes, _: Any) -> None:
        if level == _LOG_ERROR:
            lines.append(text.decode("utf-8", "replace").strip())

    with _log_lock:
        previous, user_data = llama_cpp.llama_log_callback(), ctypes.c_void_p()
        llama_cpp.llama_log_get(ctypes.byref(previous), ctypes.byref(user_data))
        llama_cpp.llama_log_set(collect, ctypes.c_void_p(0))
        try:
            yield lines
        finally:
            llama_cpp.llama_log_set(previous, user_data)


def log_reason(lines: list[str]) -> str:
    """llama.cpp's own reason for a failure, from the lines it logged."""
    told = [line for line in lines if line]
    return f"{told[0].rstrip('.')}." if told else "it gives no reason."


def is_about_file(lines: list[str]) -> bool:
    """Whether llama.cpp complains of the file, rather than of memory or options."""
    return any("gguf_init" in line or "corrupted or incomplete" in line for line in lines)


def _grown_text(read: Any, model: Any, index: int) -> str:
    capacity = 256
    while True:
        buffer = ctypes.create_string_buffer(capacity)
        length = read(model, index, buffer, capacity)
        if length < capacity:
            return buffer.value.decode("utf-8", "replace")
        capacity = length + 1


def _on_large_stack(work: Any, text_bytes: int) -> list[int]:
    """Runs `work` on a thread whose stack fits a recursion for each byte of a text."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # handed to the waiting thread below
            outcome.append(error)

    stack_bytes = min(_MAX_STACK_BYTES, max(1 << 24, text_bytes * _STACK_BYTES_PER_TEXT_BYTE))
    with _stack_lock:
        previous = threading.stack_size(stack_bytes)
        try:
            thread = threading.Thread(target=run, name="chatwrap-tokenize")
            thread.start()
        except RuntimeError as error:
            raise ModelError(f"tokenizing {text_bytes} bytes: no thread to run on: {error}.") from error
        finally:
            threading.stack_size(previous)
    thread.join()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    result: list[int] = outcome[0]
    return result


_stack_lock = threading.Lock()
