"""`resolve_chat_wrapper`: the chat wrapper for a model, a file, metadata or a name, and why."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, overload

import llama_cpp

from chatwrap.engine.formats import ChatWrapperLike
from chatwrap.engine.model import Model
from chatwrap.engine.vocabulary import Vocabulary, load_vocabulary
from chatwrap.models import find_model, read_models
from chatwrap.wrapper.base import ChatWrapper
from chatwrap.wrapper.resolve import ModelFacts, Resolution, resolve

ModelSource: TypeAlias = "Model | llama_cpp.Llama | Vocabulary | Mapping[str, Any] | str | Path"


@overload
def resolve_chat_wrapper(
    source: ModelSource, chat_wrapper: ChatWrapperLike = "auto", *, explain: Literal[False] = False
) -> ChatWrapper: ...
@overload
def resolve_chat_wrapper(
    source: ModelSource, chat_wrapper: ChatWrapperLike = "auto", *, explain: Literal[True]
) -> Resolution: ...
def resolve_chat_wrapper(
    source: ModelSource, chat_wrapper: ChatWrapperLike = "auto", *, explain: bool = False
) -> ChatWrapper | Resolution:
    """The chat wrapper for a model, as `load_model` chooses it, or with `explain` the decision.

    `source` is a `Model`, a `llama_cpp.Llama`, a `Vocabulary`, GGUF metadata, or a file, which is read
    without its weights. A file name that leads to no file is all there is to go by then. `chat_wrapper`
    is an explicit choice, which comes before everything; the rules are those of
    `chatwrap.wrapper.resolve.resolve`, which also says what is raised.

    Without `explain`, the decision's warnings are Python warnings.

    >>> resolve_chat_wrapper("gemma-2-9b-it-Q4_K_M.gguf", explain=True).steps[-1]
    ResolutionStep(rule=<Rule.NAME: 'name'>, chosen='gemma', reason="it names this model: ...")
    """
    resolution = resolve(facts_of(source), chat_wrapper)
    if explain:
        return resolution
    for message in resolution.warnings:
        warnings.warn(message, stacklevel=2)
    return resolution.wrapper


def facts_of(source: ModelSource) -> ModelFacts:
    """What `source` tells of a model. Raises as `load_vocabulary` does for a file that isn't GGUF."""
    match source:
        case Model():
            return ModelFacts(source.vocabulary.metadata, source.vocabulary, source.llama.model_path)
        case llama_cpp.Llama():
            vocabulary = Vocabulary.of(source)
            return ModelFacts(vocabulary.metadata, vocabulary, source.model_path)
        case Vocabulary():
            return ModelFacts(source.metadata, source)
        case Mapping():
            return ModelFacts(source)
    return _facts_of_file(os.fspath(source))


def _facts_of_file(name: str) -> ModelFacts:
    known = {entry.name for entry in read_models()}
    if not (name in known or name.startswith("hf:") or Path(name).exists()):
        return ModelFacts(file_name=name)
    path = find_model(name)
    vocabulary = load_vocabulary(path)
    return ModelFacts(vocabulary.metadata, vocabulary, str(path))
