"""What a format can say beyond its frames: openings, sections of calls, thoughts, white space."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from chatwrap import TemplateChatWrapper, load_chat_wrapper
from chatwrap.chat.text import LlamaText, SpecialTokensText

FRAMES = {
    "template": "{{history}}<m>{{completion}}</m>",
    "history_template": {
        "system": "<s>{{message}}</s>",
        "user": "<u>{{message}}</u>",
        "model": "<m>{{message}}</m>",
    },
}
CALLS = {
    "call": "<call {{functionName}}>{{functionParams}}</call>",
    "result": "<r>{{functionCallResult}}</r>",
}
SYSTEM = {"type": "system", "text": "S"}
USER = {"type": "user", "text": "U"}
USER2 = {"type": "user", "text": "V"}
CALL = {"type": "functionCall", "name": "f", "params": {}, "result": "ok"}
THOUGHT = {"type": "segment", "segmentType": "thought", "text": "T", "ended": True}
FUNCTIONS = {"f": {"description": "F.", "params": {"type": "object"}}, "g": {}}


def model(*parts: Any) -> dict[str, Any]:
    return {"type": "model", "response": list(parts)}


def prompt(
    history: list[dict[str, Any]],
    functions: Any = None,
    *,
    document: bool = True,
    **words: Any,
) -> str:
    wrapper = TemplateChatWrapper(**FRAMES, **words, clock=lambda: datetime(2026, 2, 3))  # type: ignore[arg-type]
    return str(wrapper.generate_context_state(history, functions, document).context_text)


def test_an_opening_for_each_case() -> None:
    words = {
        "opening": {
            "plain": "[{{date}}]",
            "system": "[{{systemPrompt}}]",
            "functions": "[{{functions}}]",
            "system_and_functions": "[{{functions}}|{{systemPrompt}}]",
        },
        "function_documentation": {"template": "F:{{functions}}.", "form": "bare_json_lines"},
        "date_format": "%d %b %Y",
    }
    told = 'F:{"name": "f", "description": "F.", "parameters": {"type": "object"}}\n{"name": "g"}.'
    assert prompt([USER], **words) == "[03 Feb 2026]<u>U</u><m>"
    assert prompt([SYSTEM, USER, SYSTEM], **words) == "[S]<u>U</u><s>S</s><m>"
    assert prompt([USER], FUNCTIONS, **words) == f"[{told}]<u>U</u><m>"
    assert prompt([SYSTEM, USER], FUNCTIONS, **words) == f"[{told}|S]<u>U</u><m>"
    without = told.replace(', "parameters": {"type": "object"}', "")
    assert prompt([USER], FUNCTIONS, document=False, **words) == f"[{without}]<u>U</u><m>"


def test_a_case_that_is_not_given_keeps_the_frames() -> None:
    words = {"opening": {"functions": "[{{functions}}]"}, "function_documentation": {"form": "typescript"}}
    assert prompt([SYSTEM, USER], **words) == "<s>S</s><u>U</u><m>"
    functions = {"g": {"description": "G."}}
    assert prompt([SYSTEM, USER], functions, **words) == "[// G.\nfunction g();]<s>S</s><u>U</u><m>"


def test_an_opening_in_the_frame_of_a_user_message() -> None:
    first = {"opening": {"system": "<u>{{systemPrompt}}: {{message}}</u>"}}
    last = {"opening": {"at": "last_user", **first["opening"]}}
    history = [SYSTEM, USER, model("M"), USER2]
    assert prompt(history, **first) == "<u>S: U</u><m>M</m><u>V</u><m>"
    assert prompt(history, **last) == "<u>U</u><m>M</m><u>S: V</u><m>"
    assert prompt([*history, model("N")], **last) == "<u>U</u><m>M</m><u>S: V</u><m>N"
    assert prompt([SYSTEM, model("M"), SYSTEM], **last) == "<u>S: </u><m>M</m><s>S</s><m>"
    assert prompt([SYSTEM], **first) == "<u>S: </u><m>"


def test_functions_as_an_array_are_content() -> None:
    wrapper = TemplateChatWrapper(
        **FRAMES,  # type: ignore[arg-type]
        opening={"functions": "<t>{{functions}}</t>"},
        function_documentation={"form": "json_array"},
    )
    text = wrapper.generate_context_state([USER], {"g": {"description": "</t>"}}).context_text
    assert text == LlamaText(
        SpecialTokensText("<t>"),
        '[{"type": "function", "function": {"name": "g", "description": "</t>"}}]',
        SpecialTokensText("</t><u>"),
        "U",
        SpecialTokensText("</u><m>"),
    )
    assert {"<t>", "</t>"} <= wrapper.control_texts


def test_results_in_turns_of_their_own() -> None:
    words: dict[str, Any] = {
        "function_call_message_template": CALLS,
        "function_call_sections": {
            "calls_prefix": "<c>",
            "between_calls": ",",
            "calls_suffix": "</c></m>",
            "results_prefix": "<rs>",
            "between_results": ";",
            "results_suffix": "</rs>",
            "text_before_calls": " ",
            "result_form": "text",
            "results": "own_turns",
        },
    }
    calls = "<c><call f>{}</call></c></m><rs><r>ok</r></rs>"
    both = "<c><call f>{}</call>,<call f>{}</call></c></m><rs><r>ok</r>;<r>ok</r></rs>"
    assert prompt([USER, model(CALL)], **words) == f"<u>U</u><m>{calls}<m>"
    assert prompt([USER, model("M", CALL, CALL, "N")], **words) == f"<u>U</u><m>M {both}<m>N"
    assert prompt([model(CALL), USER], **words) == f"<m>{calls}<u>U</u><m>"
    assert prompt([model(CALL), model("M"), USER], **words) == f"<m>{calls}<m>M</m><u>U</u><m>"
    words["function_call_sections"]["results"] = "own_turns_unopened"
    assert prompt([USER, model(CALL)], **words) == f"<u>U</u><m>{calls}"
    assert prompt([model(CALL, "N"), USER], **words) == f"<m>{calls}N</m><u>U</u><m>"
    words["function_call_sections"]["results"] = "in_turn"
    assert prompt([model(CALL), USER], **words) == f"<m>{calls}</m><u>U</u><m>"


def test_old_thoughts_are_left_out_and_told() -> None:
    segments = {"thought_template": "<t>{{content}}</t>"}
    history = [USER, model(THOUGHT, "M"), USER2, model(THOUGHT, "N"), model(THOUGHT)]
    words = {"segments": segments, "join_adjacent_messages_of_the_same_type": False}
    assert prompt(history, **words) == "<u>U</u><m><t>T</t>M</m><u>V</u><m><t>T</t>N</m><m><t>T</t>"
    after = "<u>U</u><m>M</m><u>V</u><m><t>T</t>N</m><m><t>T</t>"
    assert prompt(history, kept_thoughts="after_last_user", **words) == after
    none = "<u>U</u><m>M</m><u>V</u><m>N</m><m><t>T</t>"
    assert prompt(history, kept_thoughts="none", **words) == none
    wrapper = TemplateChatWrapper(**FRAMES, kept_thoughts="none", segments=segments)  # type: ignore[arg-type]
    assert wrapper.generate_context_state(history[:3]).changes == (
        "history[1]: thoughts left out, as the format does with earlier turns.",
    )


def test_system_messages_first_and_white_space_off() -> None:
    history = [USER, SYSTEM, {"type": "user", "text": " V\n"}, SYSTEM, model(" M", "N ")]
    assert prompt(history, hoist_system_messages=True) == "<s>S\n\nS</s><u>U\n\n V\n</u><m> MN "
    assert prompt(history, trim_messages=True) == "<u>U</u><s>S</s><u>V</u><s>S</s><m>MN "
    assert prompt([*history, USER], trim_messages=True).endswith("<m>MN</m><u>U</u><m>")


def test_stop_texts_end_the_turn_too() -> None:
    wrapper = TemplateChatWrapper(**FRAMES, stop_texts=["<u>"])  # type: ignore[arg-type]
    triggers = wrapper.generate_context_state([USER]).stop_generation_triggers
    assert [str(trigger) for trigger in triggers] == ["EOS", "</m>", "</m>", "<u>", "<u>"]


def test_an_answer_begun_goes_on_without_the_thought_that_the_prompt_opens() -> None:
    wrapper = load_chat_wrapper("deepseek-r1")
    begun = wrapper.generate_context_state([USER, model("M")]).context_text
    assert str(begun) == "<｜User｜>U<｜Assistant｜>M"
    wrapper = load_chat_wrapper("qwen-3.5")
    begun = wrapper.generate_context_state([USER, model("M")]).context_text
    assert str(begun) == "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nM"
    thought = wrapper.generate_context_state([USER, model(THOUGHT, "M")]).context_text
    assert str(thought).endswith("<|im_start|>assistant\n<think>\nT\n</think>\n\nM")


class TestArguments:
    def test_tagged_with_ids(self) -> None:
        wrapper = TemplateChatWrapper(
            "{{history}}M{{completion}}|",
            {"system": "{{message}}", "user": "{{message}}", "model": "{{message}}"},
            function_call_message_template={
                "call": "<c {{callId}} {{functionName}} {{callIndex}}>{{functionParams}}</c>",
                "result": "<r {{callIndex}} {{callId}}>{{functionCallResult}}</r>",
            },
            function_call_arguments={
                "form": "tagged",
                "prefix": "<{{parameterName}} s={{isString}}>",
                "suffix": "</{{parameterName}}>",
                "between": ",",
                "literals": "python",
            },
        )
        call = {"type": "functionCall", "name": "f", "params": {"a": "x", "b": True}, "result": 1}
        bare = {"type": "functionCall", "name": "g"}
        history = [
            {"type": "model", "response": [call, bare]},
            {"type": "user", "text": "U"},
            {"type": "model", "response": [call]},
        ]
        assert str(wrapper.generate_context_state(history).context_text) == (
            "<c call00000 f 0><a s=true>x</a>,<b s=false>True</b></c><r 0 call00000>1</r>"
            "<c call00001 g 1></c><r 1 call00001>void</r>U"
            "M<c call00002 f 2><a s=true>x</a>,<b s=false>True</b></c><r 2 call00002>1</r>"
        )

    @pytest.mark.parametrize(
        ("call", "arguments", "written"),
        [
            ('{"n": "{{functionName}}", "a": {{functionParams}}}', None, '{"n": "f", "a": }'),
            (
                '{"n": "{{functionName}}", "a": {{functionParams}}}',
                {"form": "json", "absent": "empty_object"},
                '{"n": "f", "a": {}}',
            ),
            ("[{{functionName}}({{functionParams}})]", None, "[f()]"),
            ("[{{functionName}}({{functionParams}})]", {"form": "json"}, "[f()]"),
            (
                "[{{functionName}}({{functionParams}})]",
                {"form": "json", "absent": "empty_object"},
                "[f({})]",
            ),
            (
                '{"{{functionName}}": {{functionParams}}}',
                {"form": "json", "absent": "nothing"},
                '{"f": }',
            ),
            (
                "[{{functionName}}({{functionParams}})]",
                {"form": "bare_keys", "quote": "'", "absent": "empty_object"},
                "[f({})]",
            ),
        ],
    )
    def test_absent_ones(self, call: str, arguments: dict[str, str] | None, written: str) -> None:
        wrapper = TemplateChatWrapper(
            "{{history}}M{{completion}}|",
            {"system": "{{message}}", "user": "{{message}}", "model": "{{message}}"},
            function_call_message_template={"call": call, "result": "<{{functionCallResult}}>"},
            function_call_arguments=arguments,
        )
        assert str(wrapper.generate_function_call("f")) == written
