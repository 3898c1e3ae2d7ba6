"""Prompts of the built-in formats and of formats with every option, compared with golden files.

After a wanted change: CHATWRAP_WRITE_GOLDEN=1 pytest tests/wrapper/test_prompts.py, and read the diff.
"""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path

import pytest

from chatwrap import TemplateChatWrapper, chat_wrapper_names, load_chat_wrapper
from chatwrap.errors import HistoryError
from tests.wrapper.golden import written

CASES = Path(__file__).parents[1] / "cases"
HISTORIES = sorted(path.stem for path in (CASES / "histories").glob("*.json"))
ROLES = ("system", "user", "model")

FRAMED = TemplateChatWrapper(
    "[<<systemPrompt>>]\n--\n<<history>>M: <<completion>>|end|\n",
    {role: f"{role[0].upper()}: {{{{message}}}}|end|\n" for role in ROLES},
    function_call_message_template={
        "call": '<tool_call>{"name": "{{functionName}}", "arguments": {{functionParams}}}</tool_call>',
        "result": "<result of='{{functionName}}'>{{functionCallResult}}</result>",
    },
    segments={
        "thought_template": "<think>{{content}}</think>",
        "comment_template": "<note>{{content}}",
        "close_all_segments_template": "<close>",
        "reopen_thought_after_function_calls": True,
        "reiterate_stack_after_function_calls": True,
    },
)
APART = TemplateChatWrapper(
    "{{history}}M: {{completion}}|end|",
    {role: f"{role[0].upper()}: {{{{message}}}}\n" for role in ROLES},
    join_adjacent_messages_of_the_same_type=False,
)
WRAPPERS = {
    name: load_chat_wrapper(name).with_clock(lambda: datetime(2026, 2, 3, 4, 5))
    for name in chat_wrapper_names()
} | {
    "framed": FRAMED,
    "apart": APART,
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_prompts(name: str) -> None:
    prompts = [_prompt(WRAPPERS[name], history) for history in HISTORIES]
    golden = CASES / "prompts" / f"{name}.txt"
    if os.environ.get("CHATWRAP_WRITE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text("\n".join(prompts), "utf-8")
    assert "\n".join(prompts) == golden.read_text("utf-8")


def _prompt(wrapper: TemplateChatWrapper, history: str) -> str:
    chat_history = json.loads((CASES / "histories" / f"{history}.json").read_text("utf-8"))
    try:
        return f"# {history}\n{written(wrapper.generate_context_state(chat_history))}"
    except HistoryError as error:
        return f"# {history}\nerror {error}\n"


def test_every_golden_file_has_a_format() -> None:
    assert {path.stem for path in (CASES / "prompts").iterdir()} == set(WRAPPERS)
