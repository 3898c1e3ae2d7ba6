"""The chat format that a request is rendered in: the model's, or its template with variables."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias

from chatwrap.chat.functions import FunctionsLike
from chatwrap.chat.history import ChatHistory
from chatwrap.chat.syntax import ChatWrapperSettings
from chatwrap.chat.text import LlamaText
from chatwrap.engine.vocabulary import Vocabulary
from chatwrap.errors import Fault, OptionError
from chatwrap.tokens.encode import encode
from chatwrap.wrapper.base import ChatWrapper, ContextState
from chatwrap.wrapper.chosen import is_template_file, read_chat_wrapper
from chatwrap.wrapper.jinja import JinjaTemplateChatWrapper
from chatwrap.wrapper.resolve import TEMPLATE_KEY, ModelFacts, resolve

ChatWrapperLike: TypeAlias = str | Path | ChatWrapper
LATE_CHOICES: Final = ("auto", "jinja")
"""Choices of a chat wrapper that need a model."""


class ModelWrappers:
    """The chat wrapper of a model, and the template in its file, each resolved once."""

    def __init__(self, choice: ChatWrapperLike, vocabulary: Vocabulary) -> None:
        """Raises what `chatwrap.wrapper.resolve.resolve` does; a template that can't be used is a warning."""
        self._choice = choice
        self._vocabulary = vocabulary
        self.wrapper = resolved_wrapper(choice, vocabulary)

    @cached_property
    def template(self) -> ChatWrapper:
        """The file's template where the choice was ``"auto"`` and there is one, else the chat wrapper."""
        has_template = self._choice == "auto" and TEMPLATE_KEY in self._vocabulary.metadata
        return resolved_wrapper("jinja", self._vocabulary) if has_template else self.wrapper


def load_wrapper(chat_wrapper: ChatWrapperLike) -> ChatWrapperLike:
    """A chat wrapper as it is, or loaded by its name or from its file.

    The name of a Jinja file stays one, since what the template writes depends on the vocabulary; it is
    only checked. Raises what `read_chat_wrapper` does.
    """
    if isinstance(chat_wrapper, ChatWrapper):
        return chat_wrapper
    loaded = read_chat_wrapper(chat_wrapper)
    return chat_wrapper if is_template_file(chat_wrapper) else loaded


def resolved_wrapper(chat_wrapper: ChatWrapperLike, vocabulary: Vocabulary) -> ChatWrapper:
    """The wrapper for a vocabulary; ``"auto"`` and ``"jinja"`` as in `chatwrap.wrapper.resolve.resolve`.

    A chat template that can't be used is a warning.
    """
    resolution = resolve(ModelFacts(vocabulary.metadata, vocabulary), chat_wrapper)
    for message in resolution.warnings:
        warnings.warn(message, stacklevel=4)
    return resolution.wrapper


@dataclass(frozen=True, slots=True)
class RequestFormat:
    """A chat wrapper for one vocabulary, and the variables that its template gets."""

    wrapper: ChatWrapper
    vocabulary: Vocabulary
    variables: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> ChatWrapperSettings:
        """How calls and segments are written."""
        return self.wrapper.settings

    def render(
        self, history: ChatHistory, functions: FunctionsLike | None, *, document_params: bool
    ) -> ContextState:
        """The prompt as text, and the stop triggers."""
        if isinstance(self.wrapper, JinjaTemplateChatWrapper):
            return self.wrapper.generate_context_state(history, functions, document_params, **self.variables)
        return self.wrapper.generate_context_state(history, functions, document_params)

    def encode(self, text: LlamaText) -> list[int]:
        """The token ids of a text in this format."""
        return encode(text, self.vocabulary, control_texts=self.wrapper.control_texts)


def check_variables(wrapper: ChatWrapper, variables: Mapping[str, Any]) -> None:
    """Raises `OptionError` for variables that the wrapper's template never reads, or if it has none."""
    if not variables:
        return
    if not isinstance(wrapper, JinjaTemplateChatWrapper):
        problem = f"{', '.join(map(repr, variables))}, but the format {wrapper.wrapper_name!r} reads none."
        remedy = "Give the chat wrapper 'auto' or 'jinja' for a model with a template, or leave them out."
        raise OptionError.of("chat_template_kwargs", problem, remedy)
    known = ", ".join(sorted(wrapper.variables)) or "none"
    faults = [
        Fault(f"chat_template_kwargs.{name}", "the template doesn't read it.", f"It reads: {known}.")
        for name in variables
        if name not in wrapper.variables
    ]
    if faults:
        raise OptionError(faults)
