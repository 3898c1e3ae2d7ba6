"""The fast encoder of a vocabulary, if there is one that writes what llama.cpp writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from chatwrap.engine.gguf import read_metadata
from chatwrap.errors import ModelError
from chatwrap.tokens.bpe import BytePairEncoder, BytePairs
from chatwrap.tokens.pretokenizers import pre_tokenizer

_TOKENS, _MERGES = "tokenizer.ggml.tokens", "tokenizer.ggml.merges"
_MODEL, _PRE = "tokenizer.ggml.model", "tokenizer.ggml.pre"
_N_SAMPLED: Final = 400

# Contractions, numbers, spaces and signs in many arrangements; scripts that pre-tokenizers tell apart;
# characters of no kind, and those of Unicode versions after 15.0.
SAMPLE: Final = (
    "Hello, world! It's WE'LL they'Re x'd 'tis 'S I'VE\n\n  two  spaces\t\ttabs \r\n\r\n   x\n \n end  \n"
    "1 12 123 1234 12345 123456 1234567, 3.14 $5 +7-8 a1b22c333 \xbd\xb2\xb3 \u0661\u0662\u0663 \u2167xca"
    "melCase HTTPServer iPhone XMLHttp's CamelCase's <tag> a/b//c\n/d #!? ... --- ___ `q` ~x~ ^|= {}[]()"
    "\nna\xefve caf\xe9 e\u0301 \xe5\u0308x \u0141\xf3d\u017a \u1ebft ti\u1ebfng \u01c5 \u1d2e \u041f"
    "\u0440\u0438\u0432\u0435\u0442 \u0393\u03b5\u03b9\u03ac \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d"
    "\u0628\u0627\u060c \u0939\u093f\u0928\u094d\u0926\u0940 \u0967\u0968\u0969\u0964 \u0e44\u0e17\u0e22"
    "\u0e51\u0e52 \u4f60\u597d\uff0c\u4e16\u754c\u3002\u30a2\u30fb\u30a4\u309b \u3042\u3093 \ud55c\uad6d"
    "\uc5b4 \u3105\u3106 \u3007\u3021 \u2026\u201cq\u201d\u2014 \uff21\uff42\uff11\uff01 \xa9\xae  \xa9 "
    "\U0001f600\U0001f468\u200d\U0001f469 \u200b\u200bx \x00\x01\x02y \x7f \xa0\u2003\u3000z \x85 \u0378"
    "\u0379 \U0001d7d8 \u1c89\ua7cb \U00010d40\U00010d41 \u2427\u31e4 \u0897 \U0002ebf0 \ue000 \ufffd"
    "\uffff "
)


def checked_encoder(
    path: str | Path, plain_texts: Mapping[str, int], native: Callable[[str], Sequence[int]]
) -> BytePairEncoder | None:
    """A `BytePairEncoder` of a GGUF file's vocabulary that agrees with `native` on a sample.

    None where there is none: for other kinds of vocabulary, an unknown pre-tokenizer, a file that
    has changed or gone since, or where the two differ. Takes 0.2 to 1 s.
    """
    try:
        found = read_metadata(path, (_TOKENS, _MERGES, _MODEL, _PRE))
        words = pre_tokenizer(_name(found.get(_MODEL)), _name(found.get(_PRE)))
        if words is None or _MERGES not in found or _TOKENS not in found:
            return None
        encoder = BytePairEncoder(BytePairs(found[_TOKENS], found[_MERGES], plain_texts, words))
    except (ModelError, ValueError):
        return None
    same = all(encoder.encode(text) == native(text) for text in _samples(found[_TOKENS]))
    return encoder if same else None


def _name(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _samples(tokens: Sequence[bytes]) -> list[str]:
    """Texts to compare on: `SAMPLE`, in lines and backwards too, and a few hundred of the tokens."""
    some = tokens[:: max(1, len(tokens) // _N_SAMPLED)]
    words = " ".join(token.decode("utf-8", "replace").replace("\u0120", " ") for token in some)
    return [SAMPLE, SAMPLE[::-1], words]
