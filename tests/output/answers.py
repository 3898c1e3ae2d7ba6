"""Answers to read: strategies for their parts, and the text that a wrapper writes for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from hypothesis import strategies as st

from chatwrap.chat.events import Diagnostic, ParserEvent
from chatwrap.chat.functions import ChatModelFunctions, as_functions
from chatwrap.chat.history import ChatModelFunctionCall, ChatModelSegment, ResponsePart
from chatwrap.chat.notation import JsonNotation
from chatwrap.chat.slotted import as_slotted
from chatwrap.chat.syntax import ChatWrapperSettings, SegmentsSyntax
from chatwrap.chat.text import LlamaText, LlamaTextInput, SpecialTokensText
from chatwrap.output.marks import Mark
from chatwrap.output.parser import OutputParser
from chatwrap.output.parts import control_texts
from chatwrap.output.response import response_of
from chatwrap.wrapper.base import ChatWrapper

_characters = st.one_of(st.sampled_from(" \n\n\"'\\<>{}|`,:=é漢😀"), st.characters(exclude_categories=["Cs"]))
texts = st.text(_characters, max_size=12)
identifiers = st.from_regex(r"[a-zé漢_][a-z0-9é漢_]{0,5}", fullmatch=True)
_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
)


def _values(keys: st.SearchStrategy[str], strings: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        _scalars | strings,
        lambda v: st.lists(v, max_size=3) | st.dictionaries(keys, v, max_size=3),
        max_leaves=8,
    )


def parts_of(settings: ChatWrapperSettings) -> st.SearchStrategy[list[ResponsePart]]:
    """Model items that a format can express: JSON takes any keys, other notations take identifiers."""
    marks = {word for text in control_texts(settings) for word in Mark.of(text).words if len(word) > 2}
    free_texts = texts.filter(lambda text: not any(mark in text for mark in (*marks, "||call:")))
    keys = free_texts if isinstance(settings.functions.call.arguments, JsonNotation) else identifiers
    calls = st.builds(
        ChatModelFunctionCall,
        name=st.sampled_from(["get_weather", "get", "lookUp-2"]),
        arguments=st.dictionaries(keys, _values(keys, free_texts), max_size=3),
    )
    kinds: list[st.SearchStrategy[Any]] = [free_texts, calls]
    if settings.segments.thought:
        kinds.append(free_texts.map(lambda text: ChatModelSegment(segment_type="thought", text=text)))
    usual = st.tuples(
        st.lists(kinds[-1], max_size=1), st.lists(free_texts, max_size=1), st.lists(calls, max_size=4)
    )
    return usual.map(lambda groups: [part for group in groups for part in group]) | st.lists(
        st.one_of(kinds), max_size=5
    )


def written(wrapper: ChatWrapper, parts: Sequence[ResponsePart]) -> LlamaText:
    """What a model writes to say `parts`: as the wrapper does, but without results."""
    writer = wrapper.response_writer(use_raw=False)
    writer.reopening = None

    def write_calls(calls: Sequence[ChatModelFunctionCall], n_earlier: int) -> LlamaText:
        parallel = wrapper.settings.functions.parallelism
        texts = [
            wrapper.generate_function_call(call.name, call.arguments, index=index)
            for index, call in enumerate(calls, n_earlier)
        ]
        if parallel is None:
            return LlamaText(texts)
        marks = (parallel.section_prefix, parallel.between_calls, parallel.section_suffix)
        before, between, behind = (as_slotted(mark).fill({}) for mark in marks)
        return LlamaText(before, LlamaText.join_values(between, texts), behind)

    writer.write_calls = write_calls
    return writer.write(parts)


def readable(parts: Sequence[ResponsePart], segments: SegmentsSyntax) -> list[ResponsePart]:
    """`parts` but for what the format can't tell apart.

    Texts without a mark between them are one. White space between a text and a call belongs to neither,
    and alone beside a mark it is no text, unless the format marks texts. An empty thought is none.
    """
    joined = _joined(parts)
    kept = [part for part in joined if part and not (isinstance(part, ChatModelSegment) and not part.text)]
    if len(kept) < len(joined):
        return readable(kept, segments)
    trimmed = [*_trimmed(kept, segments)]
    return trimmed if len(trimmed) == len(kept) else readable(trimmed, segments)


def _joined(parts: Sequence[ResponsePart]) -> list[ResponsePart]:
    joined: list[ResponsePart] = []
    for is_text, group in groupby(parts, key=lambda part: isinstance(part, str)):
        members = list(group)
        joined += ["".join(map(str, members))] if is_text else members
    return joined


def _trimmed(parts: Sequence[ResponsePart], segments: SegmentsSyntax) -> Iterator[ResponsePart]:
    for index, part in enumerate(parts):
        before, behind = (
            parts[index - 1] if index else None,
            parts[index + 1] if index + 1 < len(parts) else None,
        )
        if not isinstance(part, str):
            yield part
            continue
        is_before_call = isinstance(behind, ChatModelFunctionCall) and not segments.between_parts
        text = part.rstrip() if is_before_call else part
        text = text.lstrip() if isinstance(before, ChatModelFunctionCall) and not segments.text else text
        if text.strip() or (text and segments.text) or (before is None and behind is None):
            yield text


_KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


def functions_of(parts: Sequence[ResponsePart]) -> ChatModelFunctions:
    """Functions whose parameters have the types of the arguments in `parts`."""
    properties: dict[str, dict[str, Any]] = {}
    for part in parts:
        if isinstance(part, ChatModelFunctionCall):
            own = properties.setdefault(part.name, {})
            assert isinstance(part.arguments, dict)
            for key, value in part.arguments.items():
                kind = {"type": _KINDS.get(type(value), "null")}
                own[key] = kind if own.get(key, kind) == kind else {"anyOf": [own[key], kind]}
    return as_functions(
        {name: {"params": {"type": "object", "properties": own}} for name, own in properties.items()}
    )


def tags_of(settings: ChatWrapperSettings) -> list[str]:
    """The tags in a format's marks: what a vocabulary made for it may hold as special tokens."""
    return sorted(
        {tag for text in control_texts(settings) for tag in re.findall(r"<[|｜/]?\w[^<>\s]*>", text)}
    )


def as_tokens(text: LlamaText, special_tokens: Sequence[str]) -> list[LlamaTextInput]:
    """`text` as characters, and as special tokens where those stand in control text."""
    pattern = re.compile("|".join(map(re.escape, special_tokens)) or "(?!)")
    chunks: list[LlamaTextInput] = []
    for value in text.values:
        if not isinstance(value, SpecialTokensText):
            chunks += str(value)
            continue
        at = 0
        for found in pattern.finditer(value.value):
            chunks += [*value.value[at : found.start()], SpecialTokensText(found[0])]
            at = found.end()
        chunks += value.value[at:]
    return chunks


def in_chunks(tokens: Sequence[LlamaTextInput], size: int) -> list[LlamaTextInput]:
    return [LlamaText(list(tokens[at : at + size])) for at in range(0, len(tokens), size)]


def read(chunks: Sequence[LlamaTextInput], parser: OutputParser) -> list[ParserEvent]:
    """All events; checks that nothing of the output is lost."""
    events = [event for chunk in chunks for event in parser.feed(chunk)] + parser.flush()
    assert "".join(event.raw for event in events) == "".join(str(LlamaText(chunk)) for chunk in chunks)
    return events


def joined(events: Sequence[ParserEvent]) -> list[ParserEvent]:
    """The events with neighbouring pieces of one text in one."""
    result: list[Any] = []
    for event in events:
        if result and hasattr(event, "text") and _kind(event) == _kind(result[-1]):
            last = result[-1]
            result[-1] = replace(last, text=last.text + event.text, raw=last.raw + event.raw)
        else:
            result.append(event)
    return result


def _kind(event: Any) -> tuple[Any, ...]:
    return type(event), getattr(event, "index", None), getattr(event, "segment_type", None)


def diagnostics(events: Sequence[ParserEvent]) -> list[Diagnostic]:
    return [event for event in events if isinstance(event, Diagnostic)]


def parts_read(events: Sequence[ParserEvent]) -> list[ResponsePart]:
    """The parts of the response; an empty thought is none."""
    parts = response_of(events).response
    kept = [part for part in parts if not (isinstance(part, ChatModelSegment) and not part.text)]
    return kept if len(kept) == len(parts) else _joined(kept)
