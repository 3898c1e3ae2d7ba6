"""Golden prompts: one span a line, so that white space and trust show in a diff.

control "<|im_start|>user\\n"
content "Hi"
special EOS
"""

from __future__ import annotations

import json

from chatwrap import LlamaText, SpecialToken, SpecialTokensText
from chatwrap.wrapper.base import ContextState


def written(state: ContextState) -> str:
    """A prompt, and below it what ends the model's turn."""
    triggers = [f"stop {' '.join(map(_span, trigger.values))}" for trigger in state.stop_generation_triggers]
    return "\n".join([*_spans(state.context_text), *triggers, ""])


def _spans(text: LlamaText) -> list[str]:
    return [_span(value) for value in text.values]


def _span(value: str | SpecialTokensText | SpecialToken) -> str:
    match value:
        case SpecialToken():
            return f"special {value.value}"
        case SpecialTokensText():
            return f"control {json.dumps(value.value, ensure_ascii=False)}"
        case str():
            return f"content {json.dumps(value, ensure_ascii=False)}"
