"""What an OpenAI chat completion request asks for besides its messages. Spells their keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from chatwrap.chat.functions import ChatModelFunctions, as_functions
from chatwrap.chat.model import NamedFunction, ToolChoice
from chatwrap.chat.openai import functions_from_openai
from chatwrap.errors import Fault, OptionError

_WORDS: Final = ("auto", "none", "required")


@dataclass(frozen=True, slots=True)
class RequestedTools:
    """The functions of a request, what the model may do with them, and how calls are answered.

    `is_legacy` where they came as ``functions``, so that the call is given as ``function_call``;
    `is_strict` where one of them is ``strict``, so that all of its schema has to be kept.
    """

    functions: ChatModelFunctions
    tool_choice: ToolChoice = "auto"
    max_calls: int | None = None
    is_legacy: bool = False
    is_strict: bool = False


def tools_from_openai(arguments: Mapping[str, Any]) -> RequestedTools:
    """The tools among the arguments of a request: ``tools``, ``tool_choice``, ``parallel_tool_calls``, or
    their older form, ``functions`` and ``function_call``.

    Raises `HistoryError` for what are no tools, `OptionError` with every choice that can't be followed.

    >>> tools = [{"type": "function", "function": {"name": "now"}}]
    >>> tools_from_openai({"tools": tools, "tool_choice": "required"}).tool_choice
    'required'
    """
    tools, functions = arguments.get("tools"), arguments.get("functions")
    if tools and functions:
        raise OptionError.of("functions", "given together with tools.", "Give tools alone.")
    is_legacy = bool(functions)
    where = "functions" if is_legacy else "tools"
    known = (
        functions_from_openai(functions or tools, where=where) if functions or tools else as_functions(None)
    )
    faults: list[Fault] = []
    choices = {
        key: _choice(key, arguments.get(key), known, faults) for key in ("tool_choice", "function_call")
    }
    choice = choices["function_call" if is_legacy else "tool_choice"]
    max_calls = _max_calls(arguments.get("parallel_tool_calls"), faults)
    if faults:
        raise OptionError(faults)
    is_strict = any(_is_strict(tool) for tool in tools or functions or ())
    return RequestedTools(known, choice, 1 if is_legacy else max_calls, is_legacy, is_strict)


def _is_strict(tool: Mapping[str, Any]) -> bool:
    return bool(tool.get("strict") or tool.get("function", {}).get("strict"))


def _choice(key: str, value: Any, functions: ChatModelFunctions, faults: list[Fault]) -> ToolChoice:
    match value:
        case None | "auto":
            return "auto"
        case "none":
            return "none"
        case "required" if key == "tool_choice" and functions:
            return "required"
        case {"type": "function", "function": {"name": str(name)}} if (
            key == "tool_choice" and name in functions
        ):
            return NamedFunction(name)
        case {"name": str(name)} if key == "function_call" and name in functions:
            return NamedFunction(name)
    faults.append(Fault(key, f"{value!r} can't be followed.", _remedy(key, functions)))
    return "auto"


def _remedy(key: str, functions: ChatModelFunctions) -> str:
    if not functions:
        return f"Give {'tools' if key == 'tool_choice' else 'functions'}."
    known = ", ".join(map(repr, functions))
    words = "'auto', 'none', 'required'" if key == "tool_choice" else "'auto', 'none'"
    return f"Give {words}, or name one of {known}."


def _max_calls(value: Any, faults: list[Fault]) -> int | None:
    if value not in (None, True, False):
        faults.append(Fault("parallel_tool_calls", f"must be true or false, not {value!r}."))
    return 1 if value is False else None


def max_tokens_from_openai(arguments: Mapping[str, Any]) -> Any:
    """The longest answer in tokens: ``max_completion_tokens``, or ``max_tokens``, its older name.

    None where there is no limit; so do 0 and less, as llama-cpp-python takes them. Raises
    `OptionError` if the two differ.
    """
    older, newer = arguments.get("max_tokens"), arguments.get("max_completion_tokens")
    if older is not None and newer is not None and older != newer:
        problem = f"{newer!r}, but max_tokens is {older!r}."
        raise OptionError.of("max_completion_tokens", problem, "Give one of them.")
    value = older if newer is None else newer
    return None if isinstance(value, int) and value <= 0 else value


def n_top_logprobs_from_openai(arguments: Mapping[str, Any]) -> int | None:
    """How many alternatives to give the likelihood of beside each token's; None: no likelihoods.

    Raises `OptionError`.
    """
    wanted, n_top = arguments.get("logprobs"), arguments.get("top_logprobs")
    faults: list[Fault] = []
    if wanted not in (None, True, False):
        faults.append(Fault("logprobs", f"must be true or false, not {wanted!r}."))
    if n_top is not None and not (
        isinstance(n_top, int) and not isinstance(n_top, bool) and 0 <= n_top <= 20
    ):
        faults.append(Fault("top_logprobs", f"must be a whole number from 0 to 20, not {n_top!r}."))
    elif n_top and not wanted:
        faults.append(Fault("top_logprobs", f"{n_top}, but logprobs is {wanted!r}.", "Set logprobs to true."))
    if faults:
        raise OptionError(faults)
    return (n_top or 0) if wanted else None


def includes_usage_from_openai(arguments: Mapping[str, Any]) -> bool | None:
    """Whether a stream ends in a chunk with the usage alone; None where the request doesn't say.

    Raises `OptionError`.
    """
    options = arguments.get("stream_options")
    match options:
        case None:
            return None
        case {"include_usage": None | True | False as wanted, **others} if not set(others) - {
            "include_obfuscation"
        }:
            return bool(wanted)
        case Mapping() if not options:
            return False
    raise OptionError.of("stream_options", f"{options!r} can't be followed.", "Give {'include_usage': true}.")


def check_continuation(arguments: Mapping[str, Any], messages: Any) -> None:
    """Raises `OptionError` where the request says otherwise about whether the last message is continued.

    An assistant message at the end always is.
    """
    last = messages[-1] if isinstance(messages, list | tuple) and messages else None
    continues = isinstance(last, Mapping) and last.get("role") == "assistant"
    wanted = {
        "continue_final_message": arguments.get("continue_final_message"),
        "add_generation_prompt": arguments.get("add_generation_prompt"),
    }
    faults = list(_continuation_faults(wanted, continues=continues))
    if faults:
        raise OptionError(faults)


def _continuation_faults(wanted: Mapping[str, Any], *, continues: bool) -> Iterator[Fault]:
    for key, value in wanted.items():
        says = value if key == "continue_final_message" else (None if value is None else not value)
        if value is not None and says is not continues:
            told = "is" if continues else "isn't"
            yield Fault(key, f"{value!r}, but the last message {told} the assistant's.", "Leave it out.")
