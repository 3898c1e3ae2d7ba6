"""`Tool`: a function that a prompt offers to the model, with what runs it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self, TypeAlias

from pydantic import TypeAdapter, ValidationError, validate_call
from pydantic.errors import PydanticUserError

from chatwrap.chat.functions import ChatModelFunction, ChatModelFunctions
from chatwrap.chat.openai import functions_from_openai, functions_to_openai
from chatwrap.errors import Fault, FaultsError, PromptError
from chatwrap.prompts.contents import ToolRequest, ToolResult
from chatwrap.prompts.messages import Message
from chatwrap.prompts.properties import Property


@dataclass(frozen=True)
class Tool:
    """A tool's name and description, the JSON Schema of its parameters, and maybe the function behind it."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    function: Callable[..., Any] | None = field(default=None, compare=False)

    @classmethod
    def from_function(cls, function: Callable[..., Any]) -> Self:
        """The tool that calls a Python function: its name, its docstring, its annotated parameters.

        Raises `PromptError` for a function whose parameters can't be told from a signature by name.
        """
        name = getattr(function, "__name__", "")
        if not name.isidentifier():
            raise PromptError.of("tools", f"{function!r:.60} has no name.", "Give a function made with def.")
        positional = [
            parameter.name
            for parameter in inspect.signature(function).parameters.values()
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL)
        ]
        if positional:
            problem = f"the parameter {positional[0]!r} can't be given by name."
            raise PromptError.of(f"tools.{name}", problem, "Make it a named parameter.")
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(function)  # type: ignore[arg-type]
            schema = adapter.json_schema()
        except PydanticUserError as error:
            raise PromptError.of(
                f"tools.{name}", str(error.message), "Annotate with types that JSON has."
            ) from None
        return cls(name, inspect.getdoc(function) or "", schema, function)

    @classmethod
    def of(cls, tool: ToolLike, where: str = "tools") -> Self:
        """The tool that `tool` stands for. Raises `PromptError`."""
        if isinstance(tool, cls):
            return tool
        if isinstance(tool, Mapping):
            try:
                (name, function), *_ = functions_from_openai([_as_openai(tool)]).items()
            except FaultsError as error:
                raise PromptError(
                    Fault(where, fault.problem, fault.remedy) for fault in error.faults
                ) from None
            return cls(name, function.description or "", function.parameters or {})
        if callable(tool):
            return cls.from_function(tool)
        raise PromptError.of(
            where, f"a {type(tool).__name__} isn't a tool.", "Give a Tool, a function or a dict."
        )

    @property
    def input_descriptors(self) -> list[Property]:
        """The parameters as properties."""
        schemas = self.schema.get("properties", {})
        return [Property.from_json_schema(schema, name) for name, schema in schemas.items()]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the parameters, an object's even where there are none."""
        return {"type": "object", "properties": {}, **self.parameters}

    def as_function(self) -> ChatModelFunction:
        """What the chat wrapper is told of this tool."""
        return ChatModelFunction(description=self.description or None, parameters=dict(self.schema))

    def to_openai_format(self) -> dict[str, Any]:
        """This tool as an entry of OpenAI's ``tools``."""
        return functions_to_openai({self.name: self.as_function()})[0]

    def run(self, **args: Any) -> Any:
        """What the function returns for `args`, which are validated first; a coroutine is awaited."""
        if self.function is None:
            raise PromptError.of(f"tools.{self.name}", "no function to run.", "Answer its requests yourself.")
        value = self._checked(**args)
        return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value

    @cached_property
    def _checked(self) -> Callable[..., Any]:
        assert self.function is not None
        return validate_call(self.function)


ToolLike: TypeAlias = Tool | Callable[..., Any] | Mapping[str, Any]


async def _awaited(value: Any) -> Any:
    return await value


def _as_openai(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """A tool's dict with its schema under the name that OpenAI gives it."""
    inner = tool.get("function", tool)
    if isinstance(inner, Mapping) and "parameters" not in inner and "params" in inner:
        return {**inner, "parameters": inner["params"]}
    return tool


def as_tools(tools: Sequence[ToolLike] | None) -> list[Tool] | None:
    """`tools` as `Tool` objects. Raises `PromptError` with every fault, two of one name included."""
    if tools is None:
        return None
    if isinstance(tools, str | Mapping) or not isinstance(tools, Sequence):
        raise PromptError.of("tools", f"a {type(tools).__name__}, not a list of tools.", "Put it in a list.")
    read: dict[str, Tool] = {}
    faults: list[Fault] = []
    for index, tool in enumerate(tools):
        try:
            found = Tool.of(tool, f"tools[{index}]")
        except PromptError as error:
            faults += error.faults
            continue
        if found.name in read:
            faults.append(Fault(f"tools[{index}]", f"a second tool named {found.name!r}.", "Rename one."))
        read[found.name] = found
    if faults:
        raise PromptError(faults)
    return list(read.values())


def as_functions_of(tools: Sequence[Tool] | None) -> ChatModelFunctions:
    """What the chat wrapper is told of the tools."""
    return {tool.name: tool.as_function() for tool in tools or ()}


def answer_requests(message: Message, tools: Sequence[ToolLike]) -> list[Message]:
    """The results of all tools that a message requests, one message each, in the order of the requests.

    What a tool raises, an argument that doesn't fit, and a tool that isn't there are results that the
    model can read; they aren't raised.
    """
    by_name = {tool.name: tool for tool in as_tools(tools) or ()}
    return [
        Message(tool_result=ToolResult(_answer(request, by_name), request.tool_request_id))
        for request in message.tool_requests or ()
    ]


def _answer(request: ToolRequest, tools: Mapping[str, Tool]) -> Any:
    tool = tools.get(request.name)
    if tool is None:
        return {"error": f"There is no tool {request.name!r}. Tools are: {', '.join(tools)}."}
    try:
        value = tool.run(**request.args)
        return TypeAdapter(Any).dump_python(value, mode="json")
    except ValidationError as error:
        details = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        return {"error": f"The arguments don't fit: {'; '.join(details)}."}
    except Exception as error:  # whatever a tool raises is an answer to the model
        return {"error": f"{type(error).__name__}: {error}"}
