"""What is wrong with a chat template, and where it will surprise: by compiling, reading and probing it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from chatwrap.chat.json_text import dump_json
from chatwrap.chat.tokenizer import Tokenizer
from chatwrap.errors import DefinitionError, Fault, HistoryError
from chatwrap.wrapper.jinja import JinjaTemplateChatWrapper
from chatwrap.wrapper.jinja_template import ChatTemplate
from chatwrap.wrapper.probe import Capabilities, Feature, Outcome


class Severity(StrEnum):
    """Whether a template can't be used, or can but will surprise."""

    ERROR = "error"
    TRAP = "trap"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know of a template."""

    severity: Severity
    fault: Fault

    def __str__(self) -> str:
        return f"{self.severity}: {self.fault}"


def lint_template(source: str, *, tokenizer: Tokenizer | None = None, name: str) -> tuple[Finding, ...]:
    """All that is wrong with a template called `name`, errors first. Costs about 60 short renders."""
    try:
        wrapper = JinjaTemplateChatWrapper(source, tokenizer=tokenizer, name=name)
    except DefinitionError as error:
        return tuple(Finding(Severity.ERROR, fault) for fault in error.faults)
    found = wrapper.capabilities
    if not found.keeps(Feature.QUESTION):
        problem = found.refusals.get(Feature.QUESTION, "the template loses a plain question.")
        return (Finding(Severity.ERROR, Fault(name, problem)),)
    traps = (
        *_variable_traps(wrapper, name),
        *_feature_traps(found, name),
        *_spelling_traps(found, name),
        *_edit_traps(source, tokenizer, name),
    )
    return tuple(Finding(Severity.TRAP, fault) for fault in traps)


def _variable_traps(wrapper: JinjaTemplateChatWrapper, name: str) -> Iterator[Fault]:
    for variable in sorted(wrapper.variables):
        match = re.search(rf"\b{re.escape(variable)}\b", wrapper.template)
        problem = f"reads the variable {variable!r}, which only the caller can give."
        remedy = "Pass it in additional_render_parameters, or check that the template's default is wanted."
        if match is None:
            yield Fault(name, problem, remedy)
        else:
            yield Fault.at(wrapper.template, match.start(), problem, remedy, name=name)


_REMEDIES: Final = {
    Feature.SYSTEM: "System messages are folded into the user message behind them.",
    Feature.LATE_SYSTEM: "Put system messages first.",
    Feature.USER_NEIGHBOURS: "Neighbours are merged.",
    Feature.TOOLS: "Functions are described in a system message instead.",
    Feature.CALLS: "Calls are written as the model's text instead.",
    Feature.PARALLEL_CALLS: "Calls are made one after the other instead.",
    Feature.TEXT_BESIDE_CALLS: "The text is put in a message of its own.",
    Feature.RESULTS: "Calls and results are written as the model's text instead.",
}


def _feature_traps(found: Capabilities, name: str) -> Iterator[Fault]:
    for feature, outcome in found.outcomes.items():
        remedy = _REMEDIES.get(feature, "")
        if outcome is Outcome.LOST:
            yield Fault(name, f"drops {feature} in silence.", remedy)
        elif outcome is Outcome.REFUSED:
            told = found.refusals.get(feature, "").rstrip(".!")
            yield Fault(name, f"takes no {feature}: {told}.", remedy)


def _spelling_traps(found: Capabilities, name: str) -> Iterator[Fault]:
    if found.needs_null_content:
        yield Fault(name, "drops calls beside empty content.", "Give null as the content.")
    if found.object_arguments and not found.string_arguments:
        yield Fault(
            name, "encodes arguments given as JSON text twice, or refuses them.", "Give them as an object."
        )
    if found.string_arguments and not found.object_arguments:
        yield Fault(name, "takes arguments only as JSON text.", "Encode them once.")
    if found.default_system_message:
        shown = dump_json(found.default_system_message)
        yield Fault(name, f"says this where there is no system message: {shown}.")
    if not found.generation_prompt:
        yield Fault(name, "writes nothing for add_generation_prompt.")


_TEXTS: Final = {
    "  padded  ": "trims what the user says.",
    "a /think b </think> c": "edits what the user says, where it looks like a mark of a thought.",
    "a < b & 'c'": "escapes what the user says as HTML.",
}


def _edit_traps(source: str, tokenizer: Tokenizer | None, name: str) -> Iterator[Fault]:
    days = (datetime(2020, 1, 31, 9), datetime(2021, 11, 7, 21))
    first, second = (ChatTemplate(source, tokenizer, lambda day=day: day, name=name) for day in days)  # type: ignore[misc]
    for text, problem in _TEXTS.items():
        if text not in (_prompt(first, text) or text):
            yield Fault(name, problem)
    if _prompt(first, "Q") != _prompt(second, "Q"):
        yield Fault(name, "writes the date: the same history gives another prompt on another day.", _CLOCK)
    if first.reads_tools and _prompt(first, "Q", tools=None) is None:
        yield Fault(name, "fails without functions.", "An empty list of them is given instead.")


_CLOCK: Final = "Pass a clock to JinjaTemplateChatWrapper to pin it."


def _prompt(template: ChatTemplate, text: str, *, tools: list[object] | None = None) -> str | None:
    try:
        return template.render([{"role": "user", "content": text}], tools)  # type: ignore[arg-type]
    except HistoryError:
        return None
