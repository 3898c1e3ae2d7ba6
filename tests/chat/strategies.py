"""Hypothesis strategies for what a conversation is made of."""

from __future__ import annotations

from hypothesis import strategies as st

from chatwrap import (
    ChatModelFunctionCall,
    ChatModelResponse,
    ChatModelSegment,
    ChatSystemMessage,
    ChatUserMessage,
    LlamaText,
    SpecialToken,
    SpecialTokensText,
)
from chatwrap.chat.text import SPECIAL_TOKEN_NAMES

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(words, values, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(words, json_values, max_size=3)
text_values = words | words.map(SpecialTokensText) | st.sampled_from(SPECIAL_TOKEN_NAMES).map(SpecialToken)
texts = st.lists(text_values, max_size=5).map(LlamaText)
names = st.text("abcXYZ_09", min_size=1, max_size=8)


@st.composite
def calls(draw: st.DrawFn) -> ChatModelFunctionCall:
    """Function calls; arguments, result and raw call given or not."""
    optional = {
        "description": words,
        "arguments": json_values,
        "result": json_values,
        "raw_call": texts,
        "starts_new_chunk": st.booleans(),
    }
    given = {key: draw(values) for key, values in optional.items() if draw(st.booleans())}
    return ChatModelFunctionCall(name=draw(names), **given)


@st.composite
def segments(draw: st.DrawFn) -> ChatModelSegment:
    """Thoughts and comments, open or ended."""
    return ChatModelSegment(
        segment_type=draw(st.sampled_from(["thought", "comment"])),
        text=draw(words),
        ended=draw(st.booleans()),
        raw=draw(st.none() | texts),
    )


responses = st.lists(words | calls() | segments(), max_size=5).map(
    lambda parts: ChatModelResponse(response=tuple(parts))
)
items = (
    texts.map(lambda text: ChatSystemMessage(text=text))
    | words.map(lambda text: ChatUserMessage(text=text))
    | responses
)
histories = st.lists(items, max_size=6).map(tuple)
