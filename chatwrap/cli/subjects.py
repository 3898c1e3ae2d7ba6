"""What a command is asked about: a format by name or file, a Jinja template, or a model's file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chatwrap.errors import FileError
from chatwrap.files import read_text
from chatwrap.models import find_model
from chatwrap.wrapper.base import ChatWrapper
from chatwrap.wrapper.chosen import is_template_file, read_chat_wrapper
from chatwrap.wrapper.definition import chat_wrapper_names
from chatwrap.wrapper.resolve import TEMPLATE_KEY, ModelFacts, resolve

if TYPE_CHECKING:
    from chatwrap.engine.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class TemplateSource:
    """A chat template's text, what errors call it, and the vocabulary it is for, if that is known."""

    name: str
    text: str
    vocabulary: Vocabulary | None


@dataclass(frozen=True, slots=True)
class Subject:
    """A format to compare, and the vocabulary that came with it."""

    name: str
    wrapper: ChatWrapper
    vocabulary: Vocabulary | None


def open_vocabulary(model: str | None) -> Vocabulary | None:
    """The vocabulary of a model by file or name, read without its weights; None for None."""
    if model is None:
        return None
    from chatwrap.engine.build import require_llama_cpp

    require_llama_cpp()
    from chatwrap.engine.vocabulary import load_vocabulary

    return load_vocabulary(find_model(model))


def template_source(name: str, vocabulary: Vocabulary | None) -> TemplateSource:
    """The template in a Jinja file, or in a model's file.

    Raises `FileError` if there is no such file or the model's file has no template.
    """
    if is_template_file(name):
        return TemplateSource(name, read_text(name), vocabulary)
    own = open_vocabulary(name)
    text = own.metadata.get(TEMPLATE_KEY) if own else None
    if not text:
        raise FileError(f"{name}: has no chat template. Name a .jinja file instead.")
    return TemplateSource(TEMPLATE_KEY, text, vocabulary or own)


def subject(name: str, vocabulary: Vocabulary | None) -> Subject:
    """The format that a name stands for; a model's file stands for the template in it.

    A model without a template stands for the format that it would be given.
    """
    if name in chat_wrapper_names() or name.endswith(".toml") or is_template_file(name):
        return Subject(name, read_chat_wrapper(name, vocabulary), vocabulary)
    own = open_vocabulary(name)
    assert own is not None
    facts = ModelFacts(own.metadata, own, name)
    resolution = resolve(facts, "jinja" if facts.template else "auto")
    return Subject(name, resolution.wrapper, vocabulary or own)
