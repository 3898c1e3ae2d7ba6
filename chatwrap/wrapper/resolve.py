"""Picks the chat wrapper for a vocabulary."""

from __future__ import annotations

from typing import Final

from chatwrap.chat.tokenizer import Tokenizer
from chatwrap.wrapper.definition import ChatWrapperDefinition, builtin_definitions

FALLBACK: Final = "general"
_SHARED: Final = frozenset({"<s>", "</s>", "<unk>"})


def definition_for_vocabulary(tokenizer: Tokenizer) -> ChatWrapperDefinition:
    """The built-in format whose control text holds the most special tokens of the vocabulary.

    ``<s>`` and ``</s>`` don't count, since formats of all kinds share them. If nothing counts, the
    answer is ``general``. Costs one pass over the special tokens for each built-in format.
    """
    markers = {entry.text for entry in tokenizer.special_tokens.values() if entry.text.strip()} - _SHARED
    return max(builtin_definitions(), key=lambda definition: _rank(definition, markers))


def _rank(definition: ChatWrapperDefinition, markers: set[str]) -> tuple[int, bool]:
    texts = definition.wrapper.control_texts
    used = sum(any(marker in text for text in texts) for marker in markers)
    return used, definition.name == FALLBACK
