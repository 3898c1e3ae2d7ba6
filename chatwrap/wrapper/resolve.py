"""Picks the chat wrapper for a vocabulary."""

from __future__ import annotations

from typing import Final

from chatwrap.chat.tokenizer import Tokenizer
from chatwrap.wrapper.definition import ChatWrapperDefinition, builtin_definitions, load_definition

FALLBACK: Final = "general"


def definition_for_vocabulary(tokenizer: Tokenizer) -> ChatWrapperDefinition:
    """The built-in format whose special tokens the vocabulary has, of several the one with most of them.

    A definition names them itself (``special_tokens``), because markers that families share (``<s>``)
    or that several formats write (``<|im_start|>``) tell nothing: a format with more of its own is
    picked only if none of them is missing. No two definitions name the same set; of those that are left
    with as many, the first by name is picked. If none fits, the answer is ``general``. Costs one pass
    over the special tokens, and reading each built-in format.
    """
    vocabulary = {entry.text for entry in tokenizer.special_tokens.values()}
    fitting = [
        definition
        for definition in builtin_definitions()
        if definition.special_tokens and definition.special_tokens <= vocabulary
    ]
    if not fitting:
        return load_definition(FALLBACK)
    return max(fitting, key=lambda definition: len(definition.special_tokens))
