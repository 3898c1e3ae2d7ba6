"""chatwrap: the chat-format layer for local LLMs on llama.cpp.

A chat format is data; the renderer, the stop triggers, the call grammar and the output parser are
derived from it. Importing this package loads nothing: each name brings its module along at its first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chatwrap.chat.events import (
        ArgumentsText,
        CallEnd,
        CallStart,
        Diagnostic,
        ResponseEnd,
        ResponseEvent,
        SegmentEnd,
        SegmentStart,
        SegmentText,
        TextEvent,
    )
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
    from chatwrap.chat.model import ChatModel, ChatRequest, NamedFunction
    from chatwrap.chat.openai import (
        functions_from_openai,
        functions_to_openai,
        history_from_openai,
        history_to_openai,
    )
    from chatwrap.chat.syntax import ChatWrapperSettings
    from chatwrap.chat.text import LlamaText, SpecialToken, SpecialTokensText
    from chatwrap.chat.tokenizer import Tokenizer
    from chatwrap.dotprompt.document import RenderedPrompt
    from chatwrap.dotprompt.dotprompt import Dotprompt
    from chatwrap.dotprompt.picoschema import from_picoschema, to_picoschema
    from chatwrap.dotprompt.request import GenerateRequest
    from chatwrap.dotprompt.store import DirectoryStore
    from chatwrap.engine.context import ContextOverflow, DropOldest, Shortening
    from chatwrap.engine.generate import Generation, GenerationResult
    from chatwrap.engine.handler import llama_cpp_handler, register
    from chatwrap.engine.handlers import FunctionCallOutcome
    from chatwrap.engine.model import Model, load_model
    from chatwrap.engine.resolve import resolve_chat_wrapper
    from chatwrap.engine.response_format import ResponseFormat
    from chatwrap.engine.sampling import SamplingOptions
    from chatwrap.engine.server import create_app
    from chatwrap.engine.session import ChatSession
    from chatwrap.engine.vocabulary import Vocabulary, load_vocabulary
    from chatwrap.errors import AnswerError, ArgumentsError, ChatwrapError
    from chatwrap.grammar.grammar import Grammar
    from chatwrap.output.parser import events_of, parse
    from chatwrap.output.response import response_of
    from chatwrap.prompts.adapt import adapt_prompt_template_for_json_structured_generation
    from chatwrap.prompts.canonical import CanonicalizationMessageTransform
    from chatwrap.prompts.contents import ImageContent, TextContent, ToolRequest, ToolResult
    from chatwrap.prompts.endpoint import OpenAICompatibleModel
    from chatwrap.prompts.generation import LlmGenerationConfig
    from chatwrap.prompts.json_parser import JsonOutputParser
    from chatwrap.prompts.messages import Message, MessageAsDict, MessageType
    from chatwrap.prompts.parser import OutputParser
    from chatwrap.prompts.prompt import Prompt
    from chatwrap.prompts.properties import (
        AnyProperty,
        BooleanProperty,
        DictProperty,
        FloatProperty,
        IntegerProperty,
        ListProperty,
        NullProperty,
        ObjectProperty,
        Property,
        StringProperty,
        UnionProperty,
    )
    from chatwrap.prompts.ready import (
        LLAMA_AGENT_TEMPLATE,
        LLAMA_CHAT_TEMPLATE,
        NATIVE_AGENT_TEMPLATE,
        NATIVE_CHAT_TEMPLATE,
        PYTHON_CALL_AGENT_TEMPLATE,
        PYTHON_CALL_CHAT_TEMPLATE,
        REACT_AGENT_TEMPLATE,
        REACT_CHAT_TEMPLATE,
    )
    from chatwrap.prompts.regex_parser import RegexOutputParser, RegexPattern
    from chatwrap.prompts.run import Completion
    from chatwrap.prompts.store import Datastore, Entity, SummaryCache
    from chatwrap.prompts.summarization import (
        ConversationSummarizationTransform,
        MessageSummarizationTransform,
    )
    from chatwrap.prompts.template import PromptTemplate
    from chatwrap.prompts.tool_parser import ToolOutputParser
    from chatwrap.prompts.tool_readers import (
        JsonToolOutputParser,
        PythonToolOutputParser,
        ReactToolOutputParser,
    )
    from chatwrap.prompts.tools import Tool, answer_requests
    from chatwrap.prompts.transforms import (
        AppendTrailingSystemMessageToUserMessageTransform,
        CoalesceSystemMessagesTransform,
        MessageTransform,
        RemoveEmptyNonUserMessageTransform,
        SplitPromptOnMarkerMessageTransform,
    )
    from chatwrap.tokens.encode import Encoder, encode
    from chatwrap.wrapper.base import ChatWrapper, ContextState
    from chatwrap.wrapper.conversion import convert_template
    from chatwrap.wrapper.definition import chat_wrapper_names, load_chat_wrapper
    from chatwrap.wrapper.jinja import JinjaTemplateChatWrapper
    from chatwrap.wrapper.resolve import Resolution
    from chatwrap.wrapper.template import TemplateChatWrapper

__version__ = "0.1.0"
_MODULES = {
    "AnswerError": "errors",
    "AnyProperty": "prompts.properties",
    "AppendTrailingSystemMessageToUserMessageTransform": "prompts.transforms",
    "ArgumentsError": "errors",
    "ArgumentsText": "chat.events",
    "BooleanProperty": "prompts.properties",
    "CallEnd": "chat.events",
    "CallStart": "chat.events",
    "CanonicalizationMessageTransform": "prompts.canonical",
    "ChatHistory": "chat.history",
    "ChatHistoryItem": "chat.history",
    "ChatModel": "chat.model",
    "ChatModelFunction": "chat.functions",
    "ChatModelFunctionCall": "chat.history",
    "ChatModelFunctions": "chat.functions",
    "ChatModelResponse": "chat.history",
    "ChatModelSegment": "chat.history",
    "ChatRequest": "chat.model",
    "ChatSession": "engine.session",
    "ChatSystemMessage": "chat.history",
    "ChatUserMessage": "chat.history",
    "ChatWrapper": "wrapper.base",
    "ChatWrapperSettings": "chat.syntax",
    "ChatwrapError": "errors",
    "CoalesceSystemMessagesTransform": "prompts.transforms",
    "Completion": "prompts.run",
    "ContextOverflow": "engine.context",
    "ContextState": "wrapper.base",
    "ConversationSummarizationTransform": "prompts.summarization",
    "Datastore": "prompts.store",
    "Diagnostic": "chat.events",
    "DictProperty": "prompts.properties",
    "DirectoryStore": "dotprompt.store",
    "Dotprompt": "dotprompt.dotprompt",
    "DropOldest": "engine.context",
    "Encoder": "tokens.encode",
    "Entity": "prompts.store",
    "FloatProperty": "prompts.properties",
    "FunctionCallOutcome": "engine.handlers",
    "GenerateRequest": "dotprompt.request",
    "Generation": "engine.generate",
    "GenerationResult": "engine.generate",
    "Grammar": "grammar.grammar",
    "ImageContent": "prompts.contents",
    "IntegerProperty": "prompts.properties",
    "JinjaTemplateChatWrapper": "wrapper.jinja",
    "JsonOutputParser": "prompts.json_parser",
    "JsonToolOutputParser": "prompts.tool_readers",
    "LLAMA_AGENT_TEMPLATE": "prompts.ready",
    "LLAMA_CHAT_TEMPLATE": "prompts.ready",
    "ListProperty": "prompts.properties",
    "LlamaText": "chat.text",
    "LlmGenerationConfig": "prompts.generation",
    "Message": "prompts.messages",
    "MessageAsDict": "prompts.messages",
    "MessageSummarizationTransform": "prompts.summarization",
    "MessageTransform": "prompts.transforms",
    "MessageType": "prompts.messages",
    "Model": "engine.model",
    "NATIVE_AGENT_TEMPLATE": "prompts.ready",
    "NATIVE_CHAT_TEMPLATE": "prompts.ready",
    "NamedFunction": "chat.model",
    "NullProperty": "prompts.properties",
    "ObjectProperty": "prompts.properties",
    "OpenAICompatibleModel": "prompts.endpoint",
    "OutputParser": "prompts.parser",
    "PYTHON_CALL_AGENT_TEMPLATE": "prompts.ready",
    "PYTHON_CALL_CHAT_TEMPLATE": "prompts.ready",
    "Prompt": "prompts.prompt",
    "PromptTemplate": "prompts.template",
    "Property": "prompts.properties",
    "PythonToolOutputParser": "prompts.tool_readers",
    "REACT_AGENT_TEMPLATE": "prompts.ready",
    "REACT_CHAT_TEMPLATE": "prompts.ready",
    "ReactToolOutputParser": "prompts.tool_readers",
    "RegexOutputParser": "prompts.regex_parser",
    "RegexPattern": "prompts.regex_parser",
    "RemoveEmptyNonUserMessageTransform": "prompts.transforms",
    "RenderedPrompt": "dotprompt.document",
    "Resolution": "wrapper.resolve",
    "ResponseEnd": "chat.events",
    "ResponseEvent": "chat.events",
    "ResponseFormat": "engine.response_format",
    "SamplingOptions": "engine.sampling",
    "SegmentEnd": "chat.events",
    "SegmentStart": "chat.events",
    "SegmentText": "chat.events",
    "Shortening": "engine.context",
    "SpecialToken": "chat.text",
    "SpecialTokensText": "chat.text",
    "SplitPromptOnMarkerMessageTransform": "prompts.transforms",
    "StringProperty": "prompts.properties",
    "SummaryCache": "prompts.store",
    "TemplateChatWrapper": "wrapper.template",
    "TextContent": "prompts.contents",
    "TextEvent": "chat.events",
    "Tokenizer": "chat.tokenizer",
    "Tool": "prompts.tools",
    "ToolOutputParser": "prompts.tool_parser",
    "ToolRequest": "prompts.contents",
    "ToolResult": "prompts.contents",
    "UnionProperty": "prompts.properties",
    "Vocabulary": "engine.vocabulary",
    "adapt_prompt_template_for_json_structured_generation": "prompts.adapt",
    "answer_requests": "prompts.tools",
    "as_history": "chat.history",
    "chat_wrapper_names": "wrapper.definition",
    "convert_template": "wrapper.conversion",
    "create_app": "engine.server",
    "encode": "tokens.encode",
    "events_of": "output.parser",
    "from_picoschema": "dotprompt.picoschema",
    "functions_from_openai": "chat.openai",
    "functions_to_openai": "chat.openai",
    "history_from_openai": "chat.openai",
    "history_to_json": "chat.history",
    "history_to_openai": "chat.openai",
    "llama_cpp_handler": "engine.handler",
    "load_chat_wrapper": "wrapper.definition",
    "load_model": "engine.model",
    "load_vocabulary": "engine.vocabulary",
    "parse": "output.parser",
    "register": "engine.handler",
    "resolve_chat_wrapper": "engine.resolve",
    "response_of": "output.response",
    "to_picoschema": "dotprompt.picoschema",
}
__all__ = [
    "LLAMA_AGENT_TEMPLATE",
    "LLAMA_CHAT_TEMPLATE",
    "NATIVE_AGENT_TEMPLATE",
    "NATIVE_CHAT_TEMPLATE",
    "PYTHON_CALL_AGENT_TEMPLATE",
    "PYTHON_CALL_CHAT_TEMPLATE",
    "REACT_AGENT_TEMPLATE",
    "REACT_CHAT_TEMPLATE",
    "AnswerError",
    "AnyProperty",
    "AppendTrailingSystemMessageToUserMessageTransform",
    "ArgumentsError",
    "ArgumentsText",
    "BooleanProperty",
    "CallEnd",
    "CallStart",
    "CanonicalizationMessageTransform",
    "ChatHistory",
    "ChatHistoryItem",
    "ChatModel",
    "ChatModelFunction",
    "ChatModelFunctionCall",
    "ChatModelFunctions",
    "ChatModelResponse",
    "ChatModelSegment",
    "ChatRequest",
    "ChatSession",
    "ChatSystemMessage",
    "ChatUserMessage",
    "ChatWrapper",
    "ChatWrapperSettings",
    "ChatwrapError",
    "CoalesceSystemMessagesTransform",
    "Completion",
    "ContextOverflow",
    "ContextState",
    "ConversationSummarizationTransform",
    "Datastore",
    "Diagnostic",
    "DictProperty",
    "DirectoryStore",
    "Dotprompt",
    "DropOldest",
    "Encoder",
    "Entity",
    "FloatProperty",
    "FunctionCallOutcome",
    "GenerateRequest",
    "Generation",
    "GenerationResult",
    "Grammar",
    "ImageContent",
    "IntegerProperty",
    "JinjaTemplateChatWrapper",
    "JsonOutputParser",
    "JsonToolOutputParser",
    "ListProperty",
    "LlamaText",
    "LlmGenerationConfig",
    "Message",
    "MessageAsDict",
    "MessageSummarizationTransform",
    "MessageTransform",
    "MessageType",
    "Model",
    "NamedFunction",
    "NullProperty",
    "ObjectProperty",
    "OpenAICompatibleModel",
    "OutputParser",
    "Prompt",
    "PromptTemplate",
    "Property",
    "PythonToolOutputParser",
    "ReactToolOutputParser",
    "RegexOutputParser",
    "RegexPattern",
    "RemoveEmptyNonUserMessageTransform",
    "RenderedPrompt",
    "Resolution",
    "ResponseEnd",
    "ResponseEvent",
    "ResponseFormat",
    "SamplingOptions",
    "SegmentEnd",
    "SegmentStart",
    "SegmentText",
    "Shortening",
    "SpecialToken",
    "SpecialTokensText",
    "SplitPromptOnMarkerMessageTransform",
    "StringProperty",
    "SummaryCache",
    "TemplateChatWrapper",
    "TextContent",
    "TextEvent",
    "Tokenizer",
    "Tool",
    "ToolOutputParser",
    "ToolRequest",
    "ToolResult",
    "UnionProperty",
    "Vocabulary",
    "adapt_prompt_template_for_json_structured_generation",
    "answer_requests",
    "as_history",
    "chat_wrapper_names",
    "convert_template",
    "create_app",
    "encode",
    "events_of",
    "from_picoschema",
    "functions_from_openai",
    "functions_to_openai",
    "history_from_openai",
    "history_to_json",
    "history_to_openai",
    "llama_cpp_handler",
    "load_chat_wrapper",
    "load_model",
    "load_vocabulary",
    "parse",
    "register",
    "resolve_chat_wrapper",
    "response_of",
    "to_picoschema",
]


def __getattr__(name: str) -> Any:
    """A public name, imported at its first use: pydantic, Jinja and llama_cpp take their time to load."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"chatwrap.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
