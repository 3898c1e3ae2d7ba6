"""How a chat format writes function calls, their results, and segments. Data only.

Renderer, call grammar and output parser are all derived from these values, so they can't disagree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import chain

from pydantic import JsonValue

from chatwrap.chat.notation import ArgumentNotation, JsonNotation
from chatwrap.chat.slotted import Slot, SlottedText, SyntaxText, as_slotted
from chatwrap.chat.text import LlamaText, SpecialTokensText


@dataclass(frozen=True, slots=True)
class FunctionCallSyntax:
    """``prefix name params_prefix arguments suffix``; the function's name may recur in the suffix.

    `optional_prefix_space` allows a space before the prefix in the model's output.
    `prefix_alternate_matches` are prefixes recognised in output but never rendered, and likewise
    `params_prefix_alternate_matches`; any prefix may go with any params prefix.
    `empty_call_params_placeholder` stands for arguments that were never given ("" writes nothing).
    """

    prefix: SyntaxText
    params_prefix: SyntaxText
    suffix: SyntaxText
    optional_prefix_space: bool = True
    empty_call_params_placeholder: JsonValue = ""
    prefix_alternate_matches: tuple[SyntaxText, ...] = ()
    params_prefix_alternate_matches: tuple[SyntaxText, ...] = ()
    arguments: ArgumentNotation = field(default_factory=JsonNotation)


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

    @property
    def numbers_calls(self) -> bool:
        """Whether a call's id or number stands in calls or results."""
        texts = (self.call.prefix, self.call.params_prefix, self.call.suffix)
        parts = (as_slotted(text).parts for text in (*texts, self.result.prefix, self.result.suffix))
        return any(part in (Slot.CALL_ID, Slot.CALL_INDEX) for part in chain.from_iterable(parts))


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

    `text` are the marks around plain text, for formats whose model writes each part of its turn as a
    message of its own (Harmony's channels, Functionary's recipients); `between_parts` then stands
    between any two parts, calls included: text, thought, comment and call each have only their own
    marks.
    """

    thought: SegmentSyntax | None = None
    comment: SegmentSyntax | None = None
    text: SegmentSyntax | None = None
    between_parts: SyntaxText = ""
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


def texts_of(value: object) -> Iterator[str | SpecialTokensText]:
    """All texts of the format in a settings value, plain or special, everywhere in it."""
    match value:
        case SpecialTokensText():
            yield value
        case Slot():
            return
        case str():
            yield value
        case LlamaText():
            yield from texts_of(value.values)
        case SlottedText():
            yield from texts_of(value.parts)
        case tuple():
            for member in value:
                yield from texts_of(member)
        case _ if is_dataclass(value):
            for entry in fields(value):
                yield from texts_of(getattr(value, entry.name))
