"""How calls made together are framed, and whether their results are turns of their own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from chatwrap.chat.syntax import FunctionsSyntax, ParallelCallsSyntax
from chatwrap.chat.text import LlamaText, control
from chatwrap.wrapper.reader import TemplateReader

RESULT_FORMS: Final = ("json", "text", "trimmed_text", "quoted_text")
PLACES_OF_RESULTS: Final = ("in_turn", "own_turns", "own_turns_unopened")

_TEXTS: Final = (
    "calls_prefix",
    "between_calls",
    "calls_suffix",
    "results_prefix",
    "between_results",
    "results_suffix",
    "text_before_calls",
)
_CHOICES: Final = {"result_form": RESULT_FORMS, "results": PLACES_OF_RESULTS}


@dataclass(frozen=True, slots=True)
class CallSections:
    """The texts around a group of calls and around their results.

    `result_form`: ``text`` writes a result that is a string as it is, ``trimmed_text`` without white space
    around it, ``json`` as JSON; ``quoted_text`` writes the text of any result as a JSON string. `results`
    says where they stand: in the model's turn, or in turns of their own, after which the model's turn is
    opened anew (``own_turns``) or goes on without being opened (``own_turns_unopened``). `one_by_one`
    tells that a call's result always follows before the next call.
    """

    parallel: ParallelCallsSyntax | None = None
    text_before_calls: LlamaText = field(default_factory=LlamaText)
    result_form: str = "json"
    results: str = "in_turn"
    one_by_one: bool = False

    @property
    def are_turns(self) -> bool:
        return self.results != "in_turn"

    def applied_to(self, functions: FunctionsSyntax) -> FunctionsSyntax:
        """The syntax of calls and results with these sections."""
        return FunctionsSyntax(functions.call, functions.result, None if self.one_by_one else self.parallel)


def read_sections(options: object, reader: TemplateReader) -> CallSections:
    """The sections that the option ``function_call_sections`` describes; faults go to `reader`."""
    if options is None:
        return CallSections()
    where = "function_call_sections"
    given = reader.mapping(options, where, optional=(*_TEXTS, *_CHOICES, "one_by_one"))
    one_by_one = reader.flag(given.get("one_by_one", False), f"{where}.one_by_one")
    texts = {}
    for name in _TEXTS:
        texts[name] = control(reader.text(given.get(name, ""), f"{where}.{name}"))
    chosen = {
        name: reader.choice(given.get(name, choices[0]), choices, f"{where}.{name}")
        for name, choices in _CHOICES.items()
    }
    parallel = ParallelCallsSyntax(
        section_prefix=texts["calls_prefix"],
        between_calls=texts["between_calls"],
        section_suffix=texts["calls_suffix"],
        result_section_prefix=texts["results_prefix"],
        between_results=texts["between_results"],
        result_section_suffix=texts["results_suffix"],
    )
    return CallSections(parallel, texts["text_before_calls"], **chosen, one_by_one=one_by_one)
