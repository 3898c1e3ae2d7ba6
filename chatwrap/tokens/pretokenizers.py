r"""How each BPE vocabulary wants text cut into words before its bytes are merged: one regex a pre-tokenizer.

The facts are those of llama.cpp's src/llama-vocab.cpp and src/unicode.cpp (by ``tokenizer.ggml.pre``).
There a pre-tokenizer is a list of stages, each of which cuts the words of the one before. Here it is one
regex whose matches, in order, are the words: an earlier stage stands in front, later ones leave out its
characters, and white space in front of such a border is whole (``\s+(?=border)``), since the later stage
sees the text end there. Every regex matches every text without a gap.

Categories are those of Unicode 15.0, as in llama.cpp: `_at_age` puts that in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from chatwrap.tokens.words import PATTERNS

_UNICODE: Final = "15.0"


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """A regex in the syntax of Rust's fancy-regex, whose matches are the words of a text.

    `ignores_merges`: a word that is a token is that token, merges or not. `spaces_are_marked`: spaces
    are written as U+2581 and bytes as ``<0x0A>``, as SentencePiece does, and merges join characters.
    `cuts_at_spaces`: between a letter and a space with a letter behind it, a word always ends.
    """

    pattern: str
    ignores_merges: bool = False
    spaces_are_marked: bool = False
    cuts_at_spaces: bool = True


def pre_tokenizer(model: str, name: str) -> PreTokenizer | None:
    """The pre-tokenizer by ``tokenizer.ggml.model`` and ``tokenizer.ggml.pre``; None if it isn't known."""
    if model == "gemma4":
        name = "gemma4"
    elif model != "gpt2":
        return None
    kind = _KIND_OF.get(name or "default")
    if kind is None:
        return None
    return PreTokenizer(
        _at_age(PATTERNS[kind]),
        ignores_merges=name in _IGNORING_MERGES,
        spaces_are_marked=kind == "lines",
        cuts_at_spaces=kind not in _OVER_SPACES,
    )


def names() -> tuple[str, ...]:
    """All names of ``tokenizer.ggml.pre`` that have a pre-tokenizer here."""
    return tuple(_KIND_OF)


def _at_age(pattern: str) -> str:
    return re.sub(r"\\p\{(\w+)\}", rf"[\\p{{\1}}&&\\p{{age:{_UNICODE}}}]", pattern)


_OVER_SPACES: Final = ("superbpe", "exaone-moe", "lines")
_NAMES: Final[Mapping[str, str]] = {
    "gpt-2": (
        "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert "
        "jina-v1-en jina-v2-code roberta-bpe mpt olmo jais exaone4 trillion granite-docling"
    ),
    "digits": "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
    "default": "default",
    "falcon": "falcon",
    "llama-3": (
        "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano dbrx "
        "smaug-bpe chatglm-bpe glm4 glm5"
    ),
    "jais-2": "jais-2",
    "qwen-2": "qwen2 deepseek-r1-qwen kormo f2llmv2 stablelm2 megrez hunyuan solar-open grok-2",
    "qwen-3.5": "qwen35",
    "no-contractions": "ufakzeka",
    "bailing": "bailingmoe bailingmoe2 llada-moe",
    "seed-coder": "seed-coder",
    "exaone-moe": "exaone-moe",
    "minicpm-5": "minicpm5",
    "laguna": "laguna",
    "tekken": "tekken",
    "gpt-4o": "gpt-4o llama4 kanana2 talkie minimax-m2",
    "granite-embedding": "granite-embed-multi-97m",
    "tiny-aya": "tiny_aya cohere2moe",
    "kimi-k2": "kimi-k2",
    "bloom": "poro-chat bloom gpt3-finnish",
    "viking": "viking",
    "superbpe": "superbpe",
    "deepseek-llm": "deepseek-llm",
    "deepseek-coder": "deepseek-coder",
    "deepseek-v3": "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
    "spark": "spark2_5",
    "afmoe": "afmoe",
    "youtu": "youtu",
    "chameleon": "chameleon",
    "lines": "gemma4 granite-embed-multi-311m sarvam-moe",
}
_KIND_OF: Final = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_IGNORING_MERGES: Final = frozenset(
    (
        *("minicpm5", "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0"),
        *("lfm2", "jina-v5-nano", "youtu", "glm4", "glm5", "tekken", "granite-embed-multi-97m"),
    )
)
