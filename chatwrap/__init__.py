"""chatwrap: the chat-format layer for local LLMs on llama.cpp.

A chat format is data; the renderer, the stop triggers, the call grammar and the output parser are
derived from it. Importing this package loads no model code: llama_cpp comes with the first model.
"""

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
from chatwrap.tokens.encode import Encoder, encode
from chatwrap.wrapper.base import ChatWrapper, ContextState
from chatwrap.wrapper.definition import chat_wrapper_names, load_chat_wrapper
from chatwrap.wrapper.template import TemplateChatWrapper

__version__ = "0.1.0"
__all__ = [
    "ChatHistory",
    "ChatHistoryItem",
    "ChatModelFunction",
    "ChatModelFunctionCall",
    "ChatModelFunctions",
    "ChatModelResponse",
    "ChatModelSegment",
    "ChatSystemMessage",
    "ChatUserMessage",
    "ChatWrapper",
    "ChatWrapperSettings",
    "ChatwrapError",
    "ContextState",
    "Encoder",
    "LlamaText",
    "SpecialToken",
    "SpecialTokensText",
    "TemplateChatWrapper",
    "Tokenizer",
    "as_history",
    "chat_wrapper_names",
    "encode",
    "functions_from_openai",
    "functions_to_openai",
    "history_from_openai",
    "history_to_json",
    "history_to_openai",
    "load_chat_wrapper",
]
