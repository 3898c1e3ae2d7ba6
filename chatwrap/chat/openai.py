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
from chatwrap.errors import Fault, HistoryError, OptionError

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
        remedy = "Read it with json.loads first." if isinstance(messages, str) else "Put it in a list."
        raise HistoryError.of(where, f"a {kind}, not a list of messages.", remedy)
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


def call_id(index: int) -> str:
    """The id of a conversation's call number `index`: nine letters and digits, as Mistral wants them."""
    return f"call{index:05d}"


def history_to_openai(history: HistoryLike) -> list[dict[str, Any]]:
    """`history` as OpenAI chat messages; calls get ids of nine letters and digits, as Mistral's
    templates demand (``call00000``, ``call00001``, ...).

    Control text in a system item becomes plain text, and thoughts stand before the text of their
    message. Raises `HistoryError` for comments, which OpenAI's messages can't hold.
    """
    writer = _MessageWriter()
    for index, item in enumerate(as_history(history)):
        match item:
            case ChatModelResponse():
                writer.write_model_item(item, f"history[{index}]")
            case _:
                writer.messages.append({"role": item.type, "content": str(item.text)})
    return writer.messages


@dataclass(frozen=True, slots=True)
class _WaitingCall:
    """A call of the open model item that has no result yet, and its index there."""

    call_id: object
    name: str
    place: int


def response_schema_from_openai(response_format: Any) -> dict[str, Any] | bool | None:
    """The JSON Schema that a ``response_format`` asks for; None where plain text may come.

    Takes ``text``, ``json_object`` (with llama-cpp-python's ``schema``) and the ``json_schema``
    envelope. Raises `OptionError` for anything else.

    >>> response_schema_from_openai({"type": "json_schema", "json_schema": {"schema": {"type": "null"}}})
    {'type': 'null'}
    """
    where, form = "response_format", response_format
    kind = form.get("type") if isinstance(form, Mapping) else form
    match kind:
        case None if form is None:
            return None
        case "text":
            return None
        case "json_object":
            schema, where = form.get("schema"), f"{where}.schema"
            schema = {"type": "object"} if schema is None else schema
        case "json_schema":
            envelope, where = form.get("json_schema"), f"{where}.json_schema.schema"
            schema = envelope.get("schema") if isinstance(envelope, Mapping) else None
        case _:
            remedy = "Give the type 'text', 'json_object' or 'json_schema'."
            raise OptionError.of(where, f"{form!r} can't be followed.", remedy)
    if not isinstance(schema, dict | bool):
        raise OptionError.of(where, f"{schema!r} isn't a JSON Schema.", "Give an object.")
    return schema


@dataclass(slots=True)
class _MessageReader:
    """Reads messages one by one; `_model_parts` is the model item that is still open."""

    faults: list[Fault] = field(default_factory=list)
    _items: list[ChatHistoryItem] = field(default_factory=list)
    _model_parts: list[ResponsePart] = field(default_factory=list)
    _waiting: list[_WaitingCall] = field(default_factory=list)
    _answered: set[object] = field(default_factory=set)
    _awaits_more: bool = False

    def history(self) -> ChatHistory:
        self._close_model_item()
        return tuple(self._items)

    def read(self, message: Any, where: str) -> None:
        if not isinstance(message, Mapping):
            self.faults.append(Fault(where, f"must be an object, not {message!r}."))
            return
        role = message.get("role")
        if not isinstance(role, str) or role not in _KNOWN_KEYS:
            problem = "missing." if role is None else f"no role {role!r}."
            self.faults.append(Fault(f"{where}.role", problem, f"Known are {', '.join(_KNOWN_KEYS)}."))
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
        lacking = " without a text" if kind == "text" else ""
        problem = f"a part of type {kind!r}{lacking}."
        self.faults.append(Fault(where, problem, "Only text parts can be rendered."))
        return ""

    def _read_assistant(self, message: Mapping[str, Any], content: str, where: str) -> None:
        continues = self._awaits_more
        if not continues:
            self._close_model_item()
        self._read_thought(message, where)
        if content:
            self._model_parts.append(content)
        calls = list(self._calls(message, where))
        if calls and continues:
            calls[0] = calls[0].model_copy(update={"starts_new_chunk": True})
        self._model_parts += calls
        self._awaits_more = bool(calls)
        if not self._model_parts:
            self._items.append(ChatModelResponse())

    def _read_thought(self, message: Mapping[str, Any], where: str) -> None:
        key = next((key for key in ("reasoning_content", "reasoning") if message.get(key)), None)
        if key is None:
            return
        thought = message[key]
        if isinstance(thought, str):
            self._model_parts.append(ChatModelSegment(segment_type="thought", text=thought))
        else:
            kind = type(thought).__name__
            self.faults.append(Fault(f"{where}.{key}", f"a {kind}, not a text.", "Give a string."))

    def _calls(self, message: Mapping[str, Any], where: str) -> Iterator[ChatModelFunctionCall]:
        given = message.get("tool_calls") or []
        if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
            kind = type(given).__name__
            problem = f"a {kind}, not a list of calls."
            self.faults.append(Fault(f"{where}.tool_calls", problem, "Put it in a list."))
            given = []
        entries = [(f"{where}.tool_calls[{index}]", call) for index, call in enumerate(given)]
        if legacy := message.get("function_call"):
            entries.append((f"{where}.function_call", legacy))
        place = len(self._model_parts)
        for path, entry in entries:
            if call := self._call(entry, path, place):
                place += 1
                yield call

    def _call(self, entry: Any, where: str, place: int) -> ChatModelFunctionCall | None:
        function = entry.get("function", entry) if isinstance(entry, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(name, str):
            self.faults.append(Fault(where, f"not a function call: {entry!r}.", "Give it a function's name."))
            return None
        call_id = entry.get("id")
        if call_id and any(call_id == waiting.call_id for waiting in self._waiting):
            remedy = "Give each call its own id."
            self.faults.append(Fault(f"{where}.id", f"a second call {call_id!r}.", remedy))
        path = f"{where}.function" if function is not entry else where
        arguments = self._arguments(function.get("arguments"), f"{path}.arguments")
        self._waiting.append(_WaitingCall(call_id or None, name, place))
        return ChatModelFunctionCall(name=name, arguments=arguments)

    def _arguments(self, arguments: Any, where: str) -> Any:
        if arguments in (None, ""):
            return {}
        try:
            return _parse(arguments if isinstance(arguments, str) else dump_json(arguments))
        except (ValueError, RecursionError) as error:
            reason = f"{arguments!r}" if isinstance(error, HistoryError) else error
            self.faults.append(Fault(where, f"not JSON: {reason}.", "Give the arguments as JSON text."))
            return {}

    def _read_result(self, message: Mapping[str, Any], content: str, where: str) -> None:
        """Gives a result to the first call that waits for one under its id, or without ids its name."""
        key = message.get("tool_call_id") or message.get("name")
        if not key:
            problem, remedy = "a result without a tool_call_id.", "Name the call that it answers."
            self.faults.append(Fault(where, problem, remedy))
            return
        call = next((waiting for waiting in self._waiting if key == (waiting.call_id or waiting.name)), None)
        if call is None:
            answered = key in self._answered
            problem = (
                f"a second result for {key!r}."
                if answered
                else f"a result for {key!r}, but no such call before."
            )
            remedy = "Remove one." if answered else "Put it behind the assistant message with that call."
            self.faults.append(Fault(where, problem, remedy))
            return
        self._waiting.remove(call)
        self._answered.add(key)
        part = self._model_parts[call.place]
        assert isinstance(part, ChatModelFunctionCall)
        self._model_parts[call.place] = part.with_result(_read_result_text(content))

    def _close_model_item(self) -> None:
        if self._model_parts:
            self._items.append(ChatModelResponse(response=tuple(self._model_parts)))
        self._model_parts = []
        self._waiting = []
        self._answered = set()
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
            called = "tool_calls" in message
            if called and (not isinstance(part, ChatModelFunctionCall) or part.starts_new_chunk):
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
        own_id = call_id(self._n_calls)
        self._n_calls += 1
        arguments = dump_json(call.arguments if call.has_arguments else {})
        entry = {"id": own_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
        message.setdefault("tool_calls", []).append(entry)
        if call.has_result:
            content = result_text(call.result)
            results.append({"role": "tool", "tool_call_id": own_id, "content": content})


def _parse(text: str) -> Any:
    """The value of a JSON text. Raises `ValueError` for what only Python takes for JSON, such as ``NaN``."""
    value = json.loads(text)
    dump_json(value)
    return value


def _read_result_text(content: str) -> Any:
    """A tool's answer: the JSON value that the text is, or else the text.

    A number that reads back differently (``1.10``, ``007``) stays text.
    """
    try:
        value = _parse(content)
    except (ValueError, RecursionError):
        return content
    return value if isinstance(value, dict | list) or dump_json(value) == content else content


def result_text(result: Any) -> str:
    """A result as a tool message's content: a string as it is, unless it would be read back as JSON."""
    is_plain = isinstance(result, str) and _read_result_text(result) == result
    return result if is_plain else dump_json(result)
