"""What a model's answer says, as it is read: texts, segments, function calls, and what can't be read.

Law: the `raw` of all events, joined, is the model's output, markers included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from chatwrap.chat.history import ChatModelFunctionCall, SegmentType

FinishReason: TypeAlias = Literal["stop", "length", "abort"]


DiagnosticKind: TypeAlias = Literal[
    "call_in_segment",
    "cut_call",
    "missing_mark",
    "repaired_arguments",
    "stray_mark",
    "stray_result",
    "stray_token",
    "unended_segment",
    "unknown_function",
    "unreadable_call",
]


@dataclass(frozen=True, slots=True)
class TextEvent:
    """A piece of the answer's text. `raw` is what was read for it: more than `text` where white space
    that belongs to a mark stood by it, and with an empty `text` nothing but that.
    """

    text: str
    raw: str


@dataclass(frozen=True, slots=True)
class SegmentStart:
    """A thought or comment opens; `raw` is its mark, empty if the prompt had opened it."""

    segment_type: SegmentType
    raw: str


@dataclass(frozen=True, slots=True)
class SegmentText:
    """A piece of the open segment's text."""

    segment_type: SegmentType
    text: str
    raw: str


@dataclass(frozen=True, slots=True)
class SegmentEnd:
    """The open segment ends; `raw` is its mark, empty where something else ended it."""

    segment_type: SegmentType
    raw: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """A function call opens. `index` counts the answer's calls from 0; `call_id` is what the model wrote."""

    index: int
    name: str
    call_id: str | None
    raw: str


@dataclass(frozen=True, slots=True)
class ArgumentsText:
    """A piece of a call's arguments, as JSON whatever the format's notation is.

    Law: the texts of one call, joined, are JSON of the arguments that its `CallEnd` has.
    """

    index: int
    text: str
    raw: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """A function call is complete: its name and its arguments as values."""

    index: int
    call: ChatModelFunctionCall
    raw: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something that couldn't be read as the format means it. `message` is for a person.

    `raw` is the text concerned, if no other event has it. The kinds:

    - ``call_in_segment``: a call stands in a thought or comment that wasn't ended before it.
    - ``cut_call``: the answer ends in the middle of a call; it has no `CallEnd`.
    - ``missing_mark``: a mark that the format writes isn't there.
    - ``repaired_arguments``: arguments weren't as the notation has them, and were read nevertheless.
    - ``stray_mark``: a mark stands where it means nothing, such as a closing mark written twice.
    - ``stray_result``: the result of a call stands in the answer, which a model can only have made up.
    - ``stray_token``: a special token that is none of the format's marks.
    - ``unended_segment``: the answer ends in a thought or comment.
    - ``unknown_function``: the call behind it is of a function that isn't there.
    - ``unreadable_call``: a mark opens a call that has no name; `raw` is what was taken for a call.
    """

    kind: DiagnosticKind
    message: str
    raw: str


ParserEvent: TypeAlias = (
    TextEvent | SegmentStart | SegmentText | SegmentEnd | CallStart | ArgumentsText | CallEnd | Diagnostic
)


@dataclass(frozen=True, slots=True)
class ResponseEnd:
    """The answer has ended, and why; the last event of a model's answer."""

    finish_reason: FinishReason
    n_prompt_tokens: int
    n_completion_tokens: int


ResponseEvent: TypeAlias = ParserEvent | ResponseEnd
