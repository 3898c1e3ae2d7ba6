"""The tools that prompts name: their definitions, and the Python functions that run them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError

from chatwrap.chat.functions import ChatModelFunction, as_functions
from chatwrap.dotprompt.request import ToolDefinition, faults_of
from chatwrap.errors import DotpromptError

ToolLike: TypeAlias = (
    "ToolDefinition | ChatModelFunction | Mapping[str, Any] | Callable[..., Any] | type[BaseModel]"
)
ToolsLike: TypeAlias = "Mapping[str, ToolLike] | Iterable[ToolLike]"
ToolResolver: TypeAlias = Callable[[str], "ToolLike | None"]
"""Gives the tool with a name; None if there is none."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as models see it, and the function that runs it, if there is one."""

    definition: ToolDefinition
    function: ChatModelFunction


def as_tool(value: ToolLike, name: str | None = None) -> Tool:
    """`value` as a tool: a definition or its JSON form, or a callable that describes and runs itself.

    `name` is what prompts call it, by default its own name. Raises `DotpromptError` and `HistoryError`.
    """
    if isinstance(value, Mapping) and not {"params", "parameters", "handler"} & set(value):
        try:
            value = ToolDefinition.model_validate({"name": name, **value} if name else value)
        except ValidationError as error:
            raise DotpromptError(faults_of(error, f"tools.{name}" if name else "tools")) from None
    if isinstance(value, ToolDefinition):
        function = ChatModelFunction(description=value.description, parameters=value.input_schema)
        return Tool(value.model_copy(update={"name": name}) if name else value, function)
    named: Any = {name: value} if name else [value]
    functions = as_functions(named, where="tools")
    ((own_name, function),) = functions.items()
    parameters = function.parameters or {"type": "object", "properties": {}}
    described: dict[str, Any] = {"description": function.description} if function.description else {}
    return Tool(ToolDefinition(name=own_name, input_schema=parameters, **described), function)


@dataclass(slots=True)
class ToolBox:
    """Tools by name, and who knows further ones."""

    resolver: ToolResolver | None = None
    _tools: dict[str, Tool] = field(default_factory=dict)

    def add(self, tools: ToolsLike) -> None:
        """Adds tools under the names of a mapping, or else under their own."""
        named = tools.items() if isinstance(tools, Mapping) else ((None, tool) for tool in tools)
        for name, value in named:
            tool = as_tool(value, name)
            self._tools[tool.definition.name] = tool

    def get(self, name: str) -> Tool | None:
        """The tool with this name; None if nobody can tell.

        Raises `DotpromptError` if there is a resolver, which is asked next, and it doesn't know the name.
        """
        if name in self._tools:
            return self._tools[name]
        if self.resolver is None:
            return None
        found = self.resolver(name)
        if found is None:
            raise DotpromptError.of(
                "tools", f"unable to resolve tool {name!r}.", "Register it, or remove it."
            )
        return as_tool(found, name)
