"""llama.cpp's own grammar engine, asked about texts without a model.

A GGUF file that holds nothing but a vocabulary of the 256 bytes and one end token is enough for
`llama_sampler_init_grammar`. Each byte of a text is checked first and accepted only if the
engine allows it, since accepting a refused token aborts the process.
"""

from __future__ import annotations

import ctypes
import struct
import tempfile
from functools import lru_cache
from pathlib import Path

import llama_cpp

_UINT32, _INT32, _STRING, _ARRAY = 4, 5, 8, 9
_END = 256


def _byte_names() -> list[str]:
    """GPT-2's printable stand-in for each byte, in byte order."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    spare = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(spare)) for byte in range(256)]


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _vocabulary_file() -> bytes:
    names = [*_byte_names(), "<|end|>"]
    types = [1] * 256 + [3]
    entries = {
        "general.architecture": (_STRING, _string("llama")),
        "general.name": (_STRING, _string("bytes")),
        "tokenizer.ggml.model": (_STRING, _string("gpt2")),
        "tokenizer.ggml.pre": (_STRING, _string("default")),
        "tokenizer.ggml.tokens": (
            _ARRAY,
            struct.pack("<IQ", _STRING, len(names)) + b"".join(map(_string, names)),
        ),
        "tokenizer.ggml.token_type": (
            _ARRAY,
            struct.pack(f"<IQ{len(types)}i", _INT32, len(types), *types),
        ),
        "tokenizer.ggml.merges": (_ARRAY, struct.pack("<IQ", _STRING, 0)),
        "tokenizer.ggml.eos_token_id": (_UINT32, struct.pack("<I", _END)),
        "tokenizer.ggml.bos_token_id": (_UINT32, struct.pack("<I", _END)),
    }
    body = b"".join(_string(key) + struct.pack("<I", kind) + value for key, (kind, value) in entries.items())
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + body


@lru_cache
def _vocabulary() -> ctypes.c_void_p:
    silence = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(silence, ctypes.c_void_p())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "bytes.gguf")
        path.write_bytes(_vocabulary_file())
        options = llama_cpp.llama_model_default_params()
        options.vocab_only = True
        model = llama_cpp.llama_model_load_from_file(str(path).encode(), options)
    _vocabulary.kept = (silence, model)  # type: ignore[attr-defined]
    return llama_cpp.llama_model_get_vocab(model)


class LlamaOracle:
    """One grammar in llama.cpp; `loads` is False if llama.cpp refuses it."""

    def __init__(self, gbnf: str) -> None:
        self._sampler = llama_cpp.llama_sampler_init_grammar(_vocabulary(), gbnf.encode(), b"root")

    @property
    def loads(self) -> bool:
        return bool(self._sampler)

    def accepts(self, text: str) -> bool:
        llama_cpp.llama_sampler_reset(self._sampler)
        for byte in text.encode():
            if not self._allows(byte):
                return False
            llama_cpp.llama_sampler_accept(self._sampler, byte)
        return self._allows(_END)

    def _allows(self, token: int) -> bool:
        candidate = llama_cpp.llama_token_data(id=token, logit=1.0, p=0.0)
        candidates = llama_cpp.llama_token_data_array(
            data=ctypes.pointer(candidate), size=1, selected=-1, sorted=False
        )
        llama_cpp.llama_sampler_apply(self._sampler, ctypes.byref(candidates))
        return candidate.logit > -1e30

    def close(self) -> None:
        if self._sampler:
            llama_cpp.llama_sampler_free(self._sampler)
            self._sampler = None
