"""Structured answers from models that can't be held to a format: asked for in words, and parsed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from chatwrap.errors import Fault, PromptError
from chatwrap.prompts.answer_grammar import AnswerRules, marked_json
from chatwrap.prompts.compiled import RESPONSE_FORMAT_NAME, title_of
from chatwrap.prompts.conversation import as_messages
from chatwrap.prompts.json_parser import JsonOutputParser
from chatwrap.prompts.messages import Message
from chatwrap.prompts.regex_parser import PatternLike, RegexOutputParser, RegexPattern
from chatwrap.prompts.template import PromptTemplate

_INSTRUCTIONS: Final = f"""\
You answer with one JSON value that is valid by this JSON Schema:
{{{{ {RESPONSE_FORMAT_NAME} | tojson }}}}

Think first if you need to. Then write the JSON between <final_answer> and </final_answer>, and stop:
<final_answer>
the JSON value
</final_answer>"""
_OPEN: Final = "<final_answer>\n"
_CLOSE: Final = "\n</final_answer>"
_PATTERN: Final = RegexPattern(r"<final_answer>(.*?)(?:</final_answer>|\Z)", "last", re.DOTALL)


@dataclass(frozen=True)
class FinalAnswerOutputParser(RegexOutputParser):
    """What stands between the last ``<final_answer>`` marks, or the whole output where there are none."""

    regex_pattern: PatternLike | Mapping[str, PatternLike] = _PATTERN
    strict: bool = False

    def answer_grammar(self, rules: AnswerRules) -> str | None:
        """JSON that is valid by the response format, between the marks."""
        return marked_json(rules, _OPEN, _CLOSE)


def adapt_prompt_template_for_json_structured_generation(prompt_template: PromptTemplate) -> PromptTemplate:
    """A copy of a template that asks in words for what its response format says, and parses the answer.

    A message in front tells the model the schema; the answer is the JSON between ``<final_answer>``
    marks, or else in the whole output. Raises `PromptError`, which is a `ValueError`, if the template
    has no response format, or doesn't use it natively, or has an output parser already.
    """
    faults = list(_faults(prompt_template))
    if faults:
        raise PromptError(faults)
    return replace(
        prompt_template.copy(),
        messages=[Message(_INSTRUCTIONS), *as_messages(prompt_template.messages)],
        output_parser=[FinalAnswerOutputParser(), JsonOutputParser()],
        native_structured_generation=False,
    )


def _faults(template: PromptTemplate) -> list[Fault]:
    title = title_of(template.name)
    faults: list[Fault] = []
    if template.response_format is None:
        faults.append(Fault(title, "it has no response format.", "Add one with with_response_format."))
    if not template.native_structured_generation:
        problem = "it doesn't use its response format natively already."
        faults.append(Fault(title, problem, "Use it as it is."))
    if template.output_parser is not None:
        faults.append(Fault(title, "it has an output parser already.", "Take it out first."))
    return faults
