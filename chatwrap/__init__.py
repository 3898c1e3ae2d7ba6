"""chatwrap: the chat-format layer for local LLMs on llama.cpp.

A chat format is data; the renderer, the stop triggers, the call grammar and the output parser are
derived from it. Importing this package loads nothing: each name brings its module along at its first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from chatwrap.engine.generate import Generation, GenerationResult
    from chatwrap.engine.handler import llama_cpp_handler, register
    from chatwrap.engine.model import Model, load_model
    from chatwrap.engine.resolve import resolve_chat_wrapper
    from chatwrap.engine.response_format import ResponseFormat
    from chatwrap.engine.sampling import SamplingOptions
    from chatwrap.engine.session import ChatSession
    from chatwrap.engine.vocabulary import Vocabulary, load_vocabulary
    from chatwrap.errors import ChatwrapError
    from chatwrap.grammar.grammar import Grammar
    from chatwrap.tokens.encode import Encoder, encode
    from chatwrap.wrapper.base import ChatWrapper, ContextState
    from chatwrap.wrapper.definition import chat_wrapper_names, load_chat_wrapper
    from chatwrap.wrapper.jinja import JinjaTemplateChatWrapper
    from chatwrap.wrapper.resolve import Resolution
    from chatwrap.wrapper.template import TemplateChatWrapper

__version__ = "0.1.0"
_MODULES = {
    "ChatHistory": "chat.history",
    "ChatHistoryItem": "chat.history",
    "ChatModelFunction": "chat.functions",
    "ChatModelFunctionCall": "chat.history",
    "ChatModelFunctions": "chat.functions",
    "ChatModelResponse": "chat.history",
    "ChatModelSegment": "chat.history",
    "ChatSession": "engine.session",
    "ChatSystemMessage": "chat.history",
    "ChatUserMessage": "chat.history",
    "ChatWrapper": "wrapper.base",
    "ChatWrapperSettings": "chat.syntax",
    "ChatwrapError": "errors",
    "ContextState": "wrapper.base",
    "Encoder": "tokens.encode",
    "Generation": "engine.generate",
    "GenerationResult": "engine.generate",
    "Grammar": "grammar.grammar",
    "JinjaTemplateChatWrapper": "wrapper.jinja",
    "LlamaText": "chat.text",
    "Model": "engine.model",
    "Resolution": "wrapper.resolve",
    "ResponseFormat": "engine.response_format",
    "SamplingOptions": "engine.sampling",
    "SpecialToken": "chat.text",
    "SpecialTokensText": "chat.text",
    "TemplateChatWrapper": "wrapper.template",
    "Tokenizer": "chat.tokenizer",
    "Vocabulary": "engine.vocabulary",
    "as_history": "chat.history",
    "chat_wrapper_names": "wrapper.definition",
    "encode": "tokens.encode",
    "functions_from_openai": "chat.openai",
    "functions_to_openai": "chat.openai",
    "history_from_openai": "chat.openai",
    "history_to_json": "chat.history",
    "history_to_openai": "chat.openai",
    "llama_cpp_handler": "engine.handler",
    "load_chat_wrapper": "wrapper.definition",
    "load_model": "engine.model",
    "load_vocabulary": "engine.vocabulary",
    "register": "engine.handler",
    "resolve_chat_wrapper": "engine.resolve",
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
    """A public name, imported at its first use: pydantic, Jinja and llama_cpp take their time to load."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"chatwrap.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
