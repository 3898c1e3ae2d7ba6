"""Drafts the options of a definition from the prompts of a chat template, by texts that are known in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from chatwrap.chat.functions import ChatModelFunctions, as_functions
from chatwrap.chat.history import ChatHistory, ChatSystemMessage
from chatwrap.chat.notation import BareKeyNotation, JsonNotation, KeywordNotation, TaggedNotation
from chatwrap.chat.slotted import Slot, SlottedText, SyntaxText, as_slotted
from chatwrap.chat.syntax import FunctionsSyntax
from chatwrap.chat.text import LlamaText
from chatwrap.chat.tokenizer import Tokenizer
from chatwrap.errors import HistoryError
from chatwrap.wrapper.edges import snapped_suffix
from chatwrap.wrapper.jinja import JinjaTemplateChatWrapper
from chatwrap.wrapper.likeness import prompt_of
from chatwrap.wrapper.opening import FunctionDocumentation
from chatwrap.wrapper.probe import ANSWER, NEXT_USER, SYSTEM, USER, answer, user

_SYSTEM: Final = ChatSystemMessage(text=LlamaText(SYSTEM))
_CITY: Final = {"type": "string", "description": "A city."}
_COUNT: Final = {"type": "integer"}
_FUNCTIONS: Final = as_functions(
    {
        "look_up": {"description": "Looks.", "params": {"type": "object", "properties": {"city": _CITY}}},
        "go_on": {"description": "Goes.", "params": {"type": "object", "properties": {"n": _COUNT}}},
    }
)
_DOCUMENTATIONS: Final[tuple[Mapping[str, Any], ...]] = (
    {"form": "json_lines"},
    {"form": "json_lines", "separator": "\n\n"},
    {"form": "json_lines", "separator": ", "},
    {"form": "json_lines", "separator": ""},
    {"form": "bare_json_lines"},
    {"form": "bare_json_lines", "separator": "\n\n"},
    {"form": "json_array"},
    {"form": "json_array", "indent": 4},
    {"form": "json_array", "indent": 2},
    {"form": "json_lines", "indent": 4, "separator": "\n\n"},
    {"form": "xml"},
)


def _document(options: Mapping[str, Any]) -> str:
    return str(FunctionDocumentation(**options).text(_FUNCTIONS))


def call_options(functions: FunctionsSyntax, *, quotes_results: bool) -> dict[str, Any] | None:
    """The options of a definition that write calls so, None if there are no words for it."""
    call, result = functions.call, functions.result
    arguments = _argument_options(functions)
    if arguments is None:
        return None
    sections = {"result_form": "quoted_text" if quotes_results else "text"}
    if parallel := functions.parallelism:
        sections |= {
            "calls_prefix": _text(parallel.section_prefix),
            "between_calls": _text(parallel.between_calls),
            "calls_suffix": _text(parallel.section_suffix),
            "results_prefix": _text(parallel.result_section_prefix),
            "between_results": _text(parallel.between_results),
            "results_suffix": _text(parallel.result_section_suffix),
        }
    written = f"{_text(call.prefix)}{{{{functionName}}}}{_text(call.params_prefix)}{{{{functionParams}}}}"
    return {
        "function_call_message_template": {
            "call": f"{written}{_text(call.suffix)}",
            "result": f"{_text(result.prefix)}{{{{functionCallResult}}}}{_text(result.suffix)}",
        },
        "function_call_arguments": arguments,
        "function_call_sections": {key: text for key, text in sections.items() if text},
    }


def _part_results(options: dict[str, Any], header: str, reopening: str) -> None:
    """Says that results are turns of their own where the model's `header` follows them."""
    sections, template = options["function_call_sections"], options["function_call_message_template"]
    place, key = (sections, "results_suffix") if "results_suffix" in sections else (template, "result")
    if header and (reopening == header or place[key].endswith(header)):
        place[key] = place[key].removesuffix(header)
        sections["results"] = "own_turns"


def _argument_options(functions: FunctionsSyntax) -> dict[str, Any] | None:
    match functions.call.arguments:
        case JsonNotation():
            return {"form": "json", "absent": "empty_object"}
        case TaggedNotation(prefix, suffix, between, literals):
            texts = {"prefix": _text(prefix), "suffix": _text(suffix), "between": _text(between)}
            given = {key: text for key, text in texts.items() if text}
            return {"form": "tagged", **given, "literals": literals}
        case KeywordNotation(between, mappings):
            return {"form": "keywords", "between": _text(between), "mappings": mappings}
        case BareKeyNotation():
            return None


def _text(text: SyntaxText) -> str:
    """A text of the syntax as a template string."""
    slotted: SlottedText = as_slotted(text)
    return "".join(f"{{{{{part}}}}}" if isinstance(part, Slot) else str(part) for part in slotted.parts)


@dataclass(frozen=True, slots=True)
class Drafter:
    """Cuts the frames of messages out of prompts whose texts are known."""

    own: JinjaTemplateChatWrapper
    tokenizer: Tokenizer | None

    def frames(self) -> dict[str, Any] | None:
        """The texts around messages, None if they don't stand in the prompts as they should."""
        prompt = self.own.capabilities.generation_prompt
        turns = self._pieces((user(), answer(ANSWER), user(NEXT_USER)), (USER, ANSWER, NEXT_USER))
        told = self._pieces((_SYSTEM, user()), (SYSTEM, USER))
        if turns is None or told is None or not turns[-1].endswith(prompt):
            return None
        start, answer_start, answer_end, end = turns
        user_end = end[: len(end) - len(prompt)]
        if not answer_start.startswith(user_end):
            return None
        n_user = min(snapped_suffix(start, answer_end), snapped_suffix(told[1], answer_end))
        user_start = answer_end[len(answer_end) - n_user :]
        model_end = answer_end[: len(answer_end) - n_user]
        system_end = told[1][: len(told[1]) - n_user]
        opening = start[: len(start) - n_user]
        options: dict[str, Any] = {
            "template": f"{{{{history}}}}{prompt}{{{{completion}}}}{model_end}",
            "history_template": {
                "system": f"{told[0]}{{{{message}}}}{system_end}",
                "user": f"{user_start}{{{{message}}}}{user_end}",
                "model": f"{answer_start[len(user_end) :]}{{{{message}}}}{model_end}",
            },
        }
        if not model_end:
            options["ends_at_eos"] = True
        return {**options, "opening": {"plain": opening}} if opening else options

    def functions(self, frames: Mapping[str, Any]) -> dict[str, Any]:
        """How functions are told and called, so far as it can be found; `frames` are those of messages."""
        learned = self.own.learned_syntax
        told = self._told(frames)
        if learned.functions is None or told is None:
            return {}
        calls = call_options(learned.functions, quotes_results=learned.quotes_results)
        if calls is None:
            return {}
        header = str(frames["history_template"]["model"]).partition("{{message}}")[0]
        _part_results(calls, header, "" if learned.reopening is None else str(learned.reopening))
        opening = {**frames.get("opening", {}), **told.pop("opening")}
        return {**calls, **told, "opening": opening}

    def _told(self, frames: Mapping[str, Any]) -> dict[str, Any] | None:
        """The openings with functions and the form of their documentation, None if there is none known."""
        before_user = str(frames["history_template"]["user"]).partition("{{message}}")[0]
        for options in _DOCUMENTATIONS:
            document = _document(options)
            alone = self._pieces((user(),), (document, USER), _FUNCTIONS)
            both = self._pieces((_SYSTEM, user()), (SYSTEM, document, USER), _FUNCTIONS)
            slots = ("{{systemPrompt}}", "{{functions}}")
            if both is None:
                both = self._pieces((_SYSTEM, user()), (document, SYSTEM, USER), _FUNCTIONS)
                slots = ("{{functions}}", "{{systemPrompt}}")
            if alone is None or both is None:
                continue
            if not alone[1].endswith(before_user) or not both[2].endswith(before_user):
                continue
            n_user = len(before_user)
            ends = (alone[1][: len(alone[1]) - n_user], both[2][: len(both[2]) - n_user])
            opening = {
                "functions": f"{alone[0]}{{{{functions}}}}{ends[0]}",
                "system_and_functions": f"{both[0]}{slots[0]}{both[1]}{slots[1]}{ends[1]}",
            }
            return {"opening": opening, "function_documentation": dict(options)}
        return None

    def _pieces(
        self, history: ChatHistory, marks: tuple[str, ...], functions: ChatModelFunctions | None = None
    ) -> list[str] | None:
        """What stands before each of the texts, and behind the last; None if one is missing or edited."""
        try:
            state = self.own.generate_context_state(history, functions)
        except HistoryError:
            return None
        rest, pieces = prompt_of(state.context_text, self.tokenizer), []
        for mark in marks:
            piece, found, rest = rest.partition(mark)
            if not found or state.changes:
                return None
            pieces.append(piece)
        return [*pieces, rest]
