"""What a prompt runs on: a chat model, or the URL of an endpoint."""

from __future__ import annotations

from typing import TypeAlias

from chatwrap.chat.model import ChatModel
from chatwrap.errors import OptionError

ModelLike: TypeAlias = ChatModel | str
"""A model that answers requests (see `chatwrap.chat.model`), or the URL of an OpenAI-compatible endpoint."""


def as_model(model: ModelLike) -> ChatModel:
    """The model that `model` is, or that stands behind its URL. Raises `OptionError` for anything else."""
    if isinstance(model, str):
        if not model.startswith(("http://", "https://")):
            problem = f"{model!r:.60} isn't the URL of an endpoint."
            raise OptionError.of("model", problem, "Load the model with chatwrap.load_model first.")
        from chatwrap.prompts.endpoint import OpenAICompatibleModel

        return OpenAICompatibleModel(model)
    if not callable(getattr(model, "respond", None)):
        problem = f"a {type(model).__name__} answers no requests."
        raise OptionError.of("model", problem, "Give a loaded model, or the URL of an endpoint.")
    return model
