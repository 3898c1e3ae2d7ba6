"""OpenAI's chat messages and tools, both ways. The only file that spells their keys.

One model item holds what OpenAI spreads over several messages: the assistant's calls, the tool
messages with their results, and the assistant's words after them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from chatwrap.chat.functions import ChatModelFunction, ChatModelFunctions, FunctionsLike, as_functions
from chatwrap.chat.history import (
    ChatHistory,
    ChatHistoryItem,
    ChatModelFunctionCall,
    ChatModelResponse,
    ChatModelSegment,
    ChatSystemMessage,
    ChatUserMessage,
    HistoryLike,
    ResponsePart,
    as_history,
)
from chatwrap.chat.json_text import dump_json
from chatwrap.errors import Fault, HistoryError

_TEXT_ROLES: Final = {"system": ChatSystemMessage, "developer": ChatSystemMessage, "user": ChatUserMessage}
_KNOWN_KEYS: Final = {
    **dict.fromkeys(_TEXT_ROLES, frozenset({"role", "content"})),
    "assistant": frozenset(
        {"role", "content", "tool_calls", "function_call", "reasoning_content", "reasoning"}
    ),
    "tool": frozenset({"role", "content", "tool_call_id", "name"}),
    "function": frozenset({"role", "content", "name"}),
}


def history_from_openai(messages: Sequence[Mapping[str, Any]], *, where: str = "messages") -> ChatHistory:
    """The history that OpenAI chat `messages` tell.

    Takes them as the world sends them: ``content`` missing, null or a list of text parts,
    ``arguments`` as JSON text or as an object, ``developer`` for ``system``. Raises `HistoryError`
    with every fault: parts that aren't text, results without a call, keys that would be lost.

    >>> history_from_openai([{"role": "user", "content": [{"type": "text", "text": "Hi"}]}])
    (ChatUserMessage(type='user', text='Hi'),)
    """
    if isinstance(messages, str | Mapping) or not isinstance(messages, Sequence):
        kind = type(messages).__name__
        raise HistoryError.of(where, f"a {kind}, not a list of messages.", "Put it in a list.")
    reader = _MessageReader()
    for index, message in enumerate(messages):
        reader.read(message, f"{where}[{index}]")
    if reader.faults:
        raise HistoryError(reader.faults)
    return reader.history()


def functions_from_openai(
    tools: Sequence[Mapping[str, Any]] | None, *, where: str = "tools"
) -> ChatModelFunctions:
    """The functions in an OpenAI ``tools`` list, or in its older form, a ``functions`` list."""
    if tools is not None and (isinstance(tools, str | Mapping) or not isinstance(tools, Sequence)):
        raise HistoryError.of(where, f"a {type(tools).__name__}, not a list of tools.", "Put it in a list.")
    functions: dict[str, Any] = {}
    faults: list[Fault] = []
    for index, tool in enumerate(tools or ()):
        entry = tool.get("function", tool) if isinstance(tool, Mapping) else None
        kind = tool.get("type", "function") if isinstance(tool, Mapping) else None
        if kind != "function" or not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            faults.append(
                Fault(f"{where}[{index}]", f"not a function: {tool!r}.", "Give it a function's name.")
            )
            continue
        if entry["name"] in functions:
            faults.append(Fault(f"{where}[{index}]", f"a second function {entry['name']!r}.", "Rename one."))
        functions[entry["name"]] = {
            key: entry[key] for key in ("description", "parameters") if entry.get(key) is not None
        }
    if faults:
        raise HistoryError(faults)
    return as_functions(functions, where=where)


def functions_to_openai(functions: FunctionsLike) -> list[dict[str, Any]]:
    """`functions` as an OpenAI ``tools`` list."""
    return [_tool(name, function) for name, function in as_functions(functions).items()]


def _tool(name: str, function: ChatModelFunction) -> dict[str, Any]:
    described = {"description": function.description, "parameters": function.parameters}
    return {
        "type": "function",
        "function": {"name": name, **{key: value for key, value in described.items() if value is not None}},
    }


def history_to_openai(history: HistoryLike) -> list[dict[str, Any]]:
    """`history` as OpenAI chat messages; calls get ids of nine letters and digits, as Mistral's
    templates demand (``call00000``, ``call00001``, ...).

    Control text in a system item becomes plain text. Raises `HistoryError` for comments, which
    OpenAI's messages can't hold.
    """
    writer = _MessageWriter()
    for index, item in enumerate(as_history(history)):
        match item:
            case ChatModelResponse():
                writer.write_model_item(item, f"history[{index}]")
            case _:
                writer.messages.append({"role": item.type, "content": str(item.text)})
    return writer.messages


@dataclass(slots=True)
class _MessageReader:
    """Reads messages one by one; `_model_parts` is the model item that is still open."""

    faults: list[Fault] = field(default_factory=list)
    _items: list[ChatHistoryItem] = field(default_factory=list)
    _model_parts: list[ResponsePart] = field(default_factory=list)
    _call_places: dict[str, int] = field(default_factory=dict)
    _awaits_more: bool = False

    def history(self) -> ChatHistory:
        self._close_model_item()
        return tuple(self._items)

    def read(self, message: Any, where: str) -> None:
        role = message.get("role") if isinstance(message, Mapping) else None
        if not isinstance(role, str) or role not in _KNOWN_KEYS:
            shown = repr(role) if isinstance(message, Mapping) else repr(message)
            known = ", ".join(_KNOWN_KEYS)
            self.faults.append(Fault(f"{where}.role", f"no role {shown}.", f"Known are {known}."))
            return
        self._check_keys(message, role, where)
        content = self._content(message.get("content"), f"{where}.content")
        if role == "assistant":
            self._read_assistant(message, content, where)
        elif role in ("tool", "function"):
            self._read_result(message, content, where)
        else:
            self._close_model_item()
            self._items.append(_TEXT_ROLES[role](text=content))

    def _check_keys(self, message: Mapping[str, Any], role: str, where: str) -> None:
        """Empty values of keys that mean nothing here (``refusal``, ``audio``) are what clients echo."""
        for key, value in message.items():
            if key not in _KNOWN_KEYS[role] and value not in (None, "", [], {}):
                problem = f"{value!r} can't be expressed in a chat history."
                self.faults.append(Fault(f"{where}.{key}", problem, "Remove the key."))

    def _content(self, content: Any, where: str) -> str:
        if content is None or isinstance(content, str):
            return content or ""
        if isinstance(content, Sequence):
            texts = [self._text_part(part, f"{where}[{index}]") for index, part in enumerate(content)]
            return "".join(texts)
        self.faults.append(
            Fault(where, f"a {type(content).__name__}.", "Give a string or a list of text parts.")
        )
        return ""

    def _text_part(self, part: Any, where: str) -> str:
        match part:
            case str():
                return part
            case {"type": "text", "text": str(text)}:
                return text
        kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
        self.faults.append(Fault(where, f"a part of type {kind!r}.", "Only text parts can be rendered."))
        return ""

    def _read_assistant(self, message: Mapping[str, Any], content: str, where: str) -> None:
        continues = self._awaits_more
        if not continues:
            self._close_model_item()
        thought = message.get("reasoning_content") or message.get("reasoning")
        if isinstance(thought, str):
            self._model_parts.append(ChatModelSegment(segment_type="thought", text=thought))
        if content:
            self._model_parts.append(content)
        calls = list(self._calls(message, where))
        if calls and continues:
            calls[0] = calls[0].model_copy(update={"starts_new_chunk": True})
        self._model_parts += calls
        self._awaits_more = bool(calls)
        if not self._model_parts:
            self._items.append(ChatModelResponse())

    def _calls(self, message: Mapping[str, Any], where: str) -> Iterator[ChatModelFunctionCall]:
        given = message.get("tool_calls") or []
        if legacy := message.get("function_call"):
            given = [*given, {"function": legacy}]
        for index, call in enumerate(given):
            path = f"{where}.tool_calls[{index}]"
            function = call.get("function") if isinstance(call, Mapping) else None
            if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
                self.faults.append(
                    Fault(path, f"not a function call: {call!r}.", "Give it a function's name.")
                )
                continue
            call_id = str(call.get("id") or function["name"])
            self._call_places[call_id] = len(self._model_parts) + index
            arguments = self._arguments(function.get("arguments"), f"{path}.function.arguments")
            yield ChatModelFunctionCall(name=function["name"], arguments=arguments)

    def _arguments(self, arguments: Any, where: str) -> Any:
        if arguments in (None, ""):
            return {}
        if not isinstance(arguments, str):
            return arguments
        try:
            return json.loads(arguments)
        except (json.JSONDecodeError, RecursionError) as error:
            self.faults.append(Fault(where, f"not JSON: {error}.", "Give the arguments as JSON text."))
            return {}

    def _read_result(self, message: Mapping[str, Any], content: str, where: str) -> None:
        call_id = str(message.get("tool_call_id") or message.get("name"))
        place = self._call_places.get(call_id)
        call = self._model_parts[place] if place is not None and place < len(self._model_parts) else None
        if place is None or not isinstance(call, ChatModelFunctionCall):
            remedy = "Put it behind the assistant message with that call."
            self.faults.append(Fault(where, f"a result for {call_id!r}, but no such call before.", remedy))
            return
        self._model_parts[place] = call.with_result(_read_result_text(content))

    def _close_model_item(self) -> None:
        if self._model_parts:
            self._items.append(ChatModelResponse(response=tuple(self._model_parts)))
        self._model_parts = []
        self._call_places = {}
        self._awaits_more = False


@dataclass(slots=True)
class _MessageWriter:
    """Writes a model item as assistant and tool messages."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    _n_calls: int = 0

    def write_model_item(self, item: ChatModelResponse, where: str) -> None:
        message: dict[str, Any] = {"role": "assistant", "content": ""}
        results: list[dict[str, Any]] = []
        for part in item.response:
            if results and (not isinstance(part, ChatModelFunctionCall) or part.starts_new_chunk):
                self.messages += [message, *results]
                message, results = {"role": "assistant", "content": ""}, []
            match part:
                case str():
                    message["content"] += part
                case ChatModelSegment(segment_type="thought"):
                    message["reasoning_content"] = message.get("reasoning_content", "") + part.text
                case ChatModelSegment():
                    raise HistoryError.of(where, "a comment can't be an OpenAI message.", "Remove it.")
                case ChatModelFunctionCall():
                    self._add_call(part, message, results)
        self.messages += [message, *results]

    def _add_call(
        self, call: ChatModelFunctionCall, message: dict[str, Any], results: list[dict[str, Any]]
    ) -> None:
        call_id = f"call{self._n_calls:05d}"
        self._n_calls += 1
        arguments = dump_json(call.arguments if call.has_arguments else {})
        entry = {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
        message.setdefault("tool_calls", []).append(entry)
        if call.has_result:
            content = result_text(call.result)
            results.append({"role": "tool", "tool_call_id": call_id, "content": content})


def _read_result_text(content: str) -> Any:
    """A tool's answer: the JSON value that the text is, or else the text."""
    try:
        return json.loads(content)
    except (json.JSONDecodeError, RecursionError):
        return content


def result_text(result: Any) -> str:
    """A result as a tool message's content: a string as it is, unless it would be read back as JSON."""
    is_plain = isinstance(result, str) and _read_result_text(result) == result
    return result if is_plain else dump_json(result)
