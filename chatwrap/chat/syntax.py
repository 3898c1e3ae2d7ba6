"""How a chat format writes function calls, their results, and segments. Data only.

Renderer, call grammar and output parser are all derived from these values, so they can't disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from pydantic import JsonValue

from chatwrap.chat.text import LlamaText, LlamaTextInput, LlamaTextValue, SpecialTokensText


class Slot(StrEnum):
    """A place in a format's text that a value fills, under the name it has in template strings."""

    SYSTEM_PROMPT = "systemPrompt"
    HISTORY = "history"
    COMPLETION = "completion"
    MESSAGE = "message"
    FUNCTION_NAME = "functionName"
    FUNCTION_PARAMS = "functionParams"
    FUNCTION_CALL_RESULT = "functionCallResult"
    CONTENT = "content"
    FUNCTIONS = "functions"
    DATE = "date"


@dataclass(frozen=True, slots=True)
class SlottedText:
    """A text of the format with slots in it, kept as values and never searched for.

    >>> text = SlottedText((SpecialTokensText("<fn="), Slot.FUNCTION_NAME, SpecialTokensText(">")))
    >>> text.fill({Slot.FUNCTION_NAME: "now"})
    LlamaText(SpecialTokensText('<fn='), 'now', SpecialTokensText('>'))
    """

    parts: tuple[LlamaTextValue | Slot, ...]

    @property
    def is_empty(self) -> bool:
        return not self.parts

    @property
    def leading_text(self) -> LlamaText:
        """The text before the first slot."""
        return LlamaText(*self._until_slot(self.parts))

    def fill(self, values: Mapping[Slot, LlamaTextInput]) -> LlamaText:
        """The text with its slots filled; a slot that `values` lacks becomes nothing."""
        return LlamaText(*(values.get(part, "") if isinstance(part, Slot) else part for part in self.parts))

    @staticmethod
    def _until_slot(parts: Iterable[LlamaTextValue | Slot]) -> Iterable[LlamaTextValue]:
        for part in parts:
            if isinstance(part, Slot):
                return
            yield part


SyntaxText: TypeAlias = "str | LlamaText | SlottedText"


def as_slotted(text: SyntaxText) -> SlottedText:
    """`text` as a `SlottedText`; plain strings and `LlamaText` hold no slots."""
    return text if isinstance(text, SlottedText) else SlottedText(LlamaText(text).values)


@dataclass(frozen=True, slots=True)
class FunctionCallSyntax:
    """``prefix name params_prefix arguments suffix``; the function's name may recur in the suffix.

    `optional_prefix_space` allows a space before the prefix in the model's output.
    `prefix_alternate_matches` are prefixes recognised in output but never rendered.
    `empty_call_params_placeholder` stands for arguments that were never given ("" writes nothing).
    """

    prefix: SyntaxText
    params_prefix: SyntaxText
    suffix: SyntaxText
    optional_prefix_space: bool = True
    empty_call_params_placeholder: JsonValue = ""
    prefix_alternate_matches: tuple[SyntaxText, ...] = ()


@dataclass(frozen=True, slots=True)
class FunctionResultSyntax:
    """``prefix result suffix``; name and arguments of the call may stand in both."""

    prefix: SyntaxText
    suffix: SyntaxText


@dataclass(frozen=True, slots=True)
class ParallelCallsSyntax:
    """How calls made together are framed: a section of calls, then a section of results."""

    section_prefix: SyntaxText = ""
    between_calls: SyntaxText = ""
    section_suffix: SyntaxText = ""
    result_section_prefix: SyntaxText = ""
    between_results: SyntaxText = ""
    result_section_suffix: SyntaxText = ""


@dataclass(frozen=True, slots=True)
class FunctionsSyntax:
    """Calls, results, and (where the format has it) parallel calls."""

    call: FunctionCallSyntax
    result: FunctionResultSyntax
    parallelism: ParallelCallsSyntax | None = None


@dataclass(frozen=True, slots=True)
class SegmentSyntax:
    """The marks around a segment. Without a `suffix` only `close_all_segments` ends it."""

    prefix: SyntaxText
    suffix: SyntaxText | None = None
    reopen_after_function_calls: bool = False


@dataclass(frozen=True, slots=True)
class SegmentsSyntax:
    """The segments a format knows.

    `close_all_segments` ends every open segment. `reiterate_stack_after_function_calls` writes the
    marks of the segments still open again after a function call.
    """

    thought: SegmentSyntax | None = None
    comment: SegmentSyntax | None = None
    close_all_segments: SyntaxText | None = None
    reiterate_stack_after_function_calls: bool = False

    def of(self, segment_type: str) -> SegmentSyntax | None:
        """The syntax of one segment type, None where the format has none."""
        return self.thought if segment_type == "thought" else self.comment


def default_functions() -> FunctionsSyntax:
    """The syntax for formats that have none of their own."""
    return FunctionsSyntax(
        call=FunctionCallSyntax(
            prefix="||call: ",
            params_prefix=LlamaText(SpecialTokensText("(")),
            suffix=LlamaText(SpecialTokensText(")")),
            prefix_alternate_matches=("||call:",),
        ),
        result=FunctionResultSyntax(
            prefix=LlamaText(SpecialTokensText("\n"), "||result: "),
            suffix=LlamaText(SpecialTokensText("\n")),
        ),
    )


@dataclass(frozen=True, slots=True)
class ChatWrapperSettings:
    """What a chat wrapper can write besides plain messages."""

    supports_system_messages: bool = True
    functions: FunctionsSyntax = field(default_factory=default_functions)
    segments: SegmentsSyntax = field(default_factory=SegmentsSyntax)
