from __future__ import annotations

from typing import Any, Literal

import pytest

from chatwrap.errors import OptionError, PromptError
from chatwrap.prompts.contents import ToolRequest
from chatwrap.prompts.generation import LlmGenerationConfig
from chatwrap.prompts.messages import Message
from chatwrap.prompts.properties import IntegerProperty
from chatwrap.prompts.tools import Tool, answer_requests, as_tools


def add(a: int, b: int = 2, unit: Literal["m", "km"] = "m") -> str:
    """Adds two lengths."""
    return f"{a + b} {unit}"


async def later(x: int) -> dict[str, int]:
    return {"x": x}


def fails() -> None:
    raise RuntimeError("broken")


def test_a_function_is_a_tool() -> None:
    tool = Tool.from_function(add)
    assert (tool.name, tool.description) == ("add", "Adds two lengths.")
    assert tool.schema["required"] == ["a"]
    assert tool.input_descriptors[0] == IntegerProperty("a")
    assert tool.run(a="3", unit="km") == "5 km"
    function = tool.to_openai_format()["function"]
    assert function == {"name": "add", "description": "Adds two lengths.", "parameters": dict(tool.schema)}
    assert as_tools([tool.to_openai_format(), {"name": "x", "params": {"type": "object"}}]) == [
        Tool("add", "Adds two lengths.", tool.schema),
        Tool("x", "", {"type": "object"}),
    ]


def test_requests_are_answered_whatever_happens() -> None:
    requests = [
        ToolRequest("add", {"a": 1}, "1"),
        ToolRequest("add", {"a": "x"}, "2"),
        ToolRequest("later", {"x": 1}, "3"),
        ToolRequest("fails", {}, "4"),
        ToolRequest("sub", {}, "5"),
    ]
    results = answer_requests(Message(tool_requests=requests), [add, later, fails])
    assert [(m.tool_result.tool_request_id, m.tool_result.content) for m in results if m.tool_result] == [
        ("1", "3 m"),
        (
            "2",
            {
                "error": "The arguments don't fit: a: Input should be a valid integer, "
                "unable to parse string as an integer."
            },
        ),
        ("3", {"x": 1}),
        ("4", {"error": "RuntimeError: broken"}),
        ("5", {"error": "There is no tool 'sub'. Tools are: add, later, fails."}),
    ]


def positional(a: int, /) -> None:
    """Takes its argument by place."""


@pytest.mark.parametrize(
    ("tools", "error"),
    [
        ([add, add], "tools[1]: a second tool named 'add'. Rename one."),
        ("add", "tools: a str, not a list of tools. Put it in a list."),
        (
            [positional, 3],
            "tools.positional: the parameter 'a' can't be given by name. Make it a named parameter.\n"
            "tools[1]: a int isn't a tool. Give a Tool, a function or a dict.",
        ),
        (
            [{"type": "function"}],
            "tools[0]: not a function: {'type': 'function'}. Give it a function's name.",
        ),
    ],
)
def test_what_is_no_tool_is_told(tools: Any, error: str) -> None:
    with pytest.raises(PromptError) as caught:
        as_tools(tools)
    assert str(caught.value) == error


def test_a_tool_without_a_function_cant_be_run() -> None:
    with pytest.raises(PromptError) as caught:
        Tool("f").run()
    assert str(caught.value) == "tools.f: no function to run. Answer its requests yourself."


def test_generation_configs_are_checked_and_merged() -> None:
    with pytest.raises(OptionError) as caught:
        LlmGenerationConfig(max_tokens=-1, temperature=True, top_p=2, stop=3, frequency_penalty=-3)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "generation_config.temperature: must be a number of at least 0, not True.\n"
        "generation_config.top_p: must be a number from 0 to 1, not 2.\n"
        "generation_config.frequency_penalty: must be a number from -2 to 2, not -3.\n"
        "generation_config.max_tokens: must be a whole number of at least 0, not -1.\n"
        "generation_config.stop: must be a list of texts, not 3."
    )
    first = LlmGenerationConfig.of({"max_tokens": 5, "seed": 1, "extra_args": {"min_p": 0.1}})
    second = LlmGenerationConfig(max_tokens=6, stop="x", extra_args={"seed": 2})
    assert first and first.merged_over(second).options() == {
        "max_tokens": 5,
        "stop": "x",
        "seed": 1,
        "min_p": 0.1,
    }
    with pytest.raises(OptionError) as caught:
        LlmGenerationConfig.of(3)  # type: ignore[arg-type]
    assert str(caught.value) == "generation_config: of type int. Give an LlmGenerationConfig or a dict."
