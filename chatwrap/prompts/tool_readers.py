"""The ways in which models write tool requests as text: JSON objects, Python calls, ReAct."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from chatwrap.chat.history import ChatModelSegment
from chatwrap.errors import AnswerError
from chatwrap.prompts.answer_grammar import AnswerRules, json_calls, react_steps
from chatwrap.prompts.contents import ToolRequest
from chatwrap.prompts.json_parser import loads_repaired
from chatwrap.prompts.messages import Message
from chatwrap.prompts.parser import raw_text
from chatwrap.prompts.tool_parser import ToolOutputParser

_ARGUMENT_KEYS: Final = ("parameters", "arguments", "args")
_BRACKET: Final = re.compile(r"[{\[]")
_FENCE: Final = re.compile(r"```[ \t]*\w*[ \t]*\n?")
_MAX_STARTS: Final = 50
_DECODER: Final = json.JSONDecoder(parse_constant=lambda _: None)


@dataclass(frozen=True)
class JsonToolOutputParser(ToolOutputParser):
    """Requests as JSON: ``{"name": "f", "parameters": {...}}``, one, several, or a list.

    Words before them are thoughts.

    >>> JsonToolOutputParser().parse_tool_request_from_str('{"name": "f", "parameters": {"x": 1}}')[0].args
    {'x': 1}
    """

    def answer_grammar(self, rules: AnswerRules) -> str | None:
        """A call, where one is demanded."""
        return json_calls(rules)

    def parse_thoughts_and_calls(self, raw_txt: str) -> tuple[str, str]:
        for start, _, value in _values(raw_txt):
            if _requests_in(value):
                return _before(raw_txt, start), raw_txt[start:]
        found = _BRACKET.search(raw_txt)
        if found is None:
            return "", raw_txt
        return _before(raw_txt, found.start()), raw_txt[found.start() :]

    def parse_tool_request_from_str(self, raw_txt: str) -> list[ToolRequest]:
        requests = [each for _, _, value in _values(raw_txt) for each in _requests_in(value)]
        if requests or not _BRACKET.search(raw_txt):
            return requests
        try:
            return _requests_in(loads_repaired(raw_txt))
        except AnswerError:
            return []

    def parse_partial_text(self, raw_txt: str) -> tuple[str, list[ToolRequest]]:
        found = _BRACKET.search(raw_txt)
        complete = [(start, value) for start, _, value in _values(raw_txt) if _requests_in(value)]
        start = complete[0][0] if complete else found.start() if found else len(raw_txt)
        ids = (each for _, value in complete for each in _requests_in(value))
        return _before(raw_txt, start).rstrip("`[{ \n"), list(_numbered(ids))


@dataclass(frozen=True)
class PythonToolOutputParser(ToolOutputParser):
    """Requests as Python calls: ``[f(x=1), g()]``, in a list or one a line; words before are thoughts.

    Arguments are literals; anything else stays its source text. A call within a call comes first.
    Arguments by place get the names of the tool's parameters, else ``arg0``, ``arg1``, ...

    >>> [(r.name, r.args) for r in PythonToolOutputParser().parse_tool_request_from_str("[f(x=-1, y=[2])]")]
    [('f', {'x': -1, 'y': [2]})]
    """

    def parse_thoughts_and_calls(self, raw_txt: str) -> tuple[str, str]:
        for start in _code_starts(raw_txt):
            code = _without_fence(raw_txt[start:])
            if self.parse_tool_request_from_str(code):
                return _before(raw_txt, start), code
        return "", raw_txt

    def parse_tool_request_from_str(self, raw_txt: str) -> list[ToolRequest]:
        tree = _python(_without_fence(raw_txt))
        if tree is None or not all(_is_calls(statement) for statement in tree.body):
            return []
        return [self._request(call) for statement in tree.body for call in _calls(statement)]

    def parse_partial_text(self, raw_txt: str) -> tuple[str, list[ToolRequest]]:
        opening = re.search(r"```|\[", raw_txt)
        thoughts = raw_txt[: opening.start()].strip() if opening else ""
        code = _without_fence(raw_txt[opening.start() :]) if opening else ""
        if not (code.endswith("]") and _python(code, repaired=False)):
            return thoughts, []
        return thoughts, list(_numbered(self.parse_tool_request_from_str(code)))

    def _request(self, call: ast.Call) -> ToolRequest:
        name = ast.unparse(call.func)
        tool = self._tool(name)
        names = list(tool.schema.get("properties", {})) if tool else []
        names += [f"arg{place}" for place in range(len(names), len(call.args))]
        args = {name: _value(value) for name, value in zip(names, call.args, strict=False)}
        for keyword in call.keywords:
            value = _value(keyword.value)
            args |= {keyword.arg: value} if keyword.arg else value if isinstance(value, dict) else {}
        return ToolRequest(name, args)


@dataclass(frozen=True)
class ReactToolOutputParser(ToolOutputParser):
    """Requests as ReAct: ``## Thought: ...``, then ``## Action:`` with a JSON object in a fence.

    What the model goes on to imagine behind ``## Observation:`` is cut off. ``## Answer:`` instead of an
    action ends the steps: the message is what follows, the thought a segment of it.

    >>> message = ReactToolOutputParser().parse_thoughts_and_calls("## Thought: why\\n## Action:\\n{}")
    >>> message
    ('why', '{}')
    """

    def answer_grammar(self, rules: AnswerRules) -> str | None:
        """A thought, then an action or an answer."""
        return react_steps(rules)

    def parse_output(self, message: Message) -> Message:
        return _answered(message) or super().parse_output(message)

    def parse_partial(self, content: Message) -> Message | None:
        return _answered(content) or super().parse_partial(content)

    def parse_thoughts_and_calls(self, raw_txt: str) -> tuple[str, str]:
        said = _OBSERVATION.split(raw_txt, maxsplit=1)[0]
        thoughts, *actions = _ACTION.split(said, maxsplit=1)
        if not actions:
            return "", ""
        return _THOUGHT.sub("", thoughts, count=1).strip(), _next_step(actions[0]).strip()

    def parse_tool_request_from_str(self, raw_txt: str) -> list[ToolRequest]:
        fenced = _FENCED.search(raw_txt)
        return JsonToolOutputParser().parse_tool_request_from_str(fenced[1] if fenced else raw_txt)[:1]

    def parse_partial_text(self, raw_txt: str) -> tuple[str, list[ToolRequest]]:
        thoughts, calls = self.parse_thoughts_and_calls(raw_txt)
        if not calls:
            begun = _ACTION.split(raw_txt, maxsplit=1)[0]
            return _THOUGHT.sub("", _OPEN_HEADING.sub("", begun), count=1).strip(), []
        complete = (each for _, _, value in _values(calls) for each in _requests_in(value))
        return thoughts, list(_numbered(islice(complete, 1)))


_THOUGHT: Final = re.compile(r"^\s*#*[ \t]*Thoughts?:", re.IGNORECASE)
_ACTION: Final = re.compile(r"^[ \t]*#*[ \t]*Action:", re.IGNORECASE | re.MULTILINE)
_OBSERVATION: Final = re.compile(r"^[ \t]*#*[ \t]*Observation:", re.IGNORECASE | re.MULTILINE)
_ANSWER: Final = re.compile(r"^[ \t]*##[ \t]*(?:Final )?Answer:", re.IGNORECASE | re.MULTILINE)
_STEP: Final = re.compile(r"^[ \t]*##[ \t]*(?:Thought|Action|Answer)", re.IGNORECASE | re.MULTILINE)
_FENCED: Final = re.compile(r"```(?:json)?[ \t]*\n?(.*?)(?:```|\Z)", re.DOTALL)
_OPEN_HEADING: Final = re.compile(r"(?:\A|\n)[^\n]{0,14}\Z")  # a line that may become "## Observation:"


def _answered(message: Message) -> Message | None:
    """The message of an output that ends in an answer; None if it doesn't."""
    if message.tool_requests:
        return None
    said = _OBSERVATION.split(raw_text(message), maxsplit=1)[0]
    before, *answers = _ANSWER.split(said, maxsplit=1)
    if not answers or _ACTION.search(before):
        return None
    thought = _THOUGHT.sub("", before, count=1).strip()
    segments = [ChatModelSegment(segment_type="thought", text=thought)] if thought else []
    return message.copy(content=answers[0].strip(), segments=[*message.segments, *segments])


def _next_step(actions: str) -> str:
    """What stands before the next heading."""
    return _STEP.split(actions, maxsplit=1)[0]


def _before(text: str, end: int) -> str:
    """The words before a request, without the fence that it stands in."""
    return re.sub(r"```[ \t]*\w*\s*\Z", "", text[:end]).strip()


def _values(text: str) -> Iterator[tuple[int, int, Any]]:
    """Each complete JSON object or list in a text, with where it stands."""
    place = 0
    for _ in range(_MAX_STARTS):
        found = _BRACKET.search(text, place)
        if found is None:
            return
        try:
            value, place = _DECODER.raw_decode(text, found.start())
            yield found.start(), place, value
        except (ValueError, RecursionError):
            place = found.end()


def _requests_in(value: Any) -> list[ToolRequest]:
    if isinstance(value, list):
        return [request for each in value if isinstance(each, Mapping) for request in _requests_in(each)]
    if not isinstance(value, Mapping):
        return []
    inner = value.get("function")
    if isinstance(inner, Mapping):
        return _requests_in(inner)
    name = value.get("name")
    key = next((key for key in _ARGUMENT_KEYS if key in value), None)
    arguments = value.get(key) if key else None
    if isinstance(arguments, str):
        arguments = _read_arguments(arguments)
    if not isinstance(name, str) or not name or not isinstance(arguments, Mapping | None) or key is None:
        return []
    return [ToolRequest(name, dict(arguments or {}))]


def _read_arguments(text: str) -> Any:
    """Arguments that a model wrote as JSON in a text; the text where they can't be read."""
    try:
        return loads_repaired(text or "{}")
    except AnswerError:
        return text


def _numbered(requests: Iterator[ToolRequest] | list[ToolRequest]) -> Iterator[ToolRequest]:
    """Requests of output that is still coming: their ids say their place, so that they stay the same."""
    for place, request in enumerate(requests):
        yield ToolRequest(request.name, request.args, f"partial-{place}")


def _without_fence(text: str) -> str:
    """The code in a text, without the fence around it."""
    found = _FENCE.match(text.lstrip())
    inner = text.lstrip()[found.end() :] if found else text
    return inner.split("```", 1)[0].strip()


def _code_starts(text: str) -> list[int]:
    """Where code may begin: the text's start, a fence, each line, each opening bracket."""
    places = {0, *(found.start() for found in re.finditer(r"```|(?<=\n)(?=\S)|\[(?=\s*\w)", text))}
    return sorted(places)[:_MAX_STARTS]


def _python(code: str, *, repaired: bool = True) -> ast.Module | None:
    for end in ("", "]", ")]") if repaired else ("",):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the model's code isn't ours to mend
                return ast.parse(code.removesuffix(";") + end)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


def _is_calls(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr):
        return False
    value = statement.value
    parts = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
    return bool(parts) and all(isinstance(part, ast.Call) for part in parts)


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    """The calls in a tree, those within another before it."""
    for child in ast.iter_child_nodes(node):
        yield from _calls(child)
    if isinstance(node, ast.Call):
        yield node


def _value(node: ast.expr) -> Any:
    """The JSON value that a literal is; the source text of anything else."""
    try:
        return _plain(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return ast.unparse(node)


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | str() | int() | float():
            return value
        case list() | tuple() | set():
            return [_plain(each) for each in value]
        case dict() if all(isinstance(key, str) for key in value):
            return {key: _plain(each) for key, each in value.items()}
        case _:
            raise ValueError(f"JSON has no {type(value).__name__}")
