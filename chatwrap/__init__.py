"""chatwrap: the chat-format layer for local LLMs on llama.cpp.

A chat format is data; the renderer, the stop triggers, the call grammar and the output parser are
derived from it. Importing this package loads no model code: llama_cpp comes with the first model.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from chatwrap.chat.functions import ChatModelFunction, ChatModelFunctions
from chatwrap.chat.history import (
    ChatHistory,
    ChatHistoryItem,
    ChatModelFunctionCall,
    ChatModelResponse,
    ChatModelSegment,
    ChatSystemMessage,
    ChatUserMessage,
    as_history,
    history_to_json,
)
from chatwrap.chat.openai import (
    functions_from_openai,
    functions_to_openai,
    history_from_openai,
    history_to_openai,
)
from chatwrap.chat.syntax import ChatWrapperSettings
from chatwrap.chat.text import LlamaText, SpecialToken, SpecialTokensText
from chatwrap.chat.tokenizer import Tokenizer
from chatwrap.errors import ChatwrapError
from chatwrap.grammar.grammar import Grammar
from chatwrap.tokens.encode import Encoder, encode
from chatwrap.wrapper.base import ChatWrapper, ContextState
from chatwrap.wrapper.definition import chat_wrapper_names, load_chat_wrapper
from chatwrap.wrapper.jinja import JinjaTemplateChatWrapper
from chatwrap.wrapper.resolve import Resolution
from chatwrap.wrapper.template import TemplateChatWrapper

if TYPE_CHECKING:
    from chatwrap.engine.generate import Generation, GenerationResult
    from chatwrap.engine.handler import llama_cpp_handler, register
    from chatwrap.engine.model import Model, load_model
    from chatwrap.engine.resolve import resolve_chat_wrapper
    from chatwrap.engine.response_format import ResponseFormat
    from chatwrap.engine.sampling import SamplingOptions
    from chatwrap.engine.session import ChatSession
    from chatwrap.engine.vocabulary import Vocabulary, load_vocabulary

__version__ = "0.1.0"
_ENGINE = {
    "ChatSession": "session",
    "Generation": "generate",
    "GenerationResult": "generate",
    "Model": "model",
    "ResponseFormat": "response_format",
    "SamplingOptions": "sampling",
    "Vocabulary": "vocabulary",
    "llama_cpp_handler": "handler",
    "load_model": "model",
    "load_vocabulary": "vocabulary",
    "register": "handler",
    "resolve_chat_wrapper": "resolve",
}
__all__ = [
    "ChatHistory",
    "ChatHistoryItem",
    "ChatModelFunction",
    "ChatModelFunctionCall",
    "ChatModelFunctions",
    "ChatModelResponse",
    "ChatModelSegment",
    "ChatSession",
    "ChatSystemMessage",
    "ChatUserMessage",
    "ChatWrapper",
    "ChatWrapperSettings",
    "ChatwrapError",
    "ContextState",
    "Encoder",
    "Generation",
    "GenerationResult",
    "Grammar",
    "JinjaTemplateChatWrapper",
    "LlamaText",
    "Model",
    "Resolution",
    "ResponseFormat",
    "SamplingOptions",
    "SpecialToken",
    "SpecialTokensText",
    "TemplateChatWrapper",
    "Tokenizer",
    "Vocabulary",
    "as_history",
    "chat_wrapper_names",
    "encode",
    "functions_from_openai",
    "functions_to_openai",
    "history_from_openai",
    "history_to_json",
    "history_to_openai",
    "llama_cpp_handler",
    "load_chat_wrapper",
    "load_model",
    "load_vocabulary",
    "register",
    "resolve_chat_wrapper",
]


def __getattr__(name: str) -> Any:
    """Names of the engine, imported at their first use: llama_cpp takes a second to load."""
    if name not in _ENGINE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"chatwrap.engine.{_ENGINE[name]}"), name)
    return value
