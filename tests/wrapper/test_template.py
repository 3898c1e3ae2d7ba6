from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatwrap import (
    ChatHistory,
    ChatModelFunctionCall,
    ChatModelResponse,
    ChatModelSegment,
    ChatSystemMessage,
    ChatUserMessage,
    ChatWrapper,
    ChatWrapperSettings,
    LlamaText,
    SpecialToken,
    SpecialTokensText,
    TemplateChatWrapper,
    as_history,
    chat_wrapper_names,
    history_to_json,
)
from chatwrap.chat.text import control
from chatwrap.errors import HistoryError
from chatwrap.wrapper.base import ABSENT, DEFAULT_SYSTEM_PROMPT
from tests.chat.strategies import histories
from tests.wrapper.test_prompts import FRAMED, WRAPPERS

S = SpecialTokensText
SEED = TemplateChatWrapper(
    template="{{systemPrompt}}\n{{history}}model: {{completion}}\nuser: ",
    history_template={
        "system": "system: {{message}}\n",
        "user": "user: {{message}}\n",
        "model": "model: {{message}}\n",
    },
    function_call_message_template={
        "call": "[[call: {{functionName}}({{functionParams}})]]",
        "result": " [[result: {{functionCallResult}}]]",
    },
)
CALL = ChatModelFunctionCall(name="f", arguments={"a": 'é "q"'}, result=[1, None])
FUNCTIONS: dict[str, Any] = {
    "now": {"description": "The time."},
    "weather": {
        "description": "The weather.",
        "params": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


class TestProperties:
    def test_what_was_given_can_be_read(self) -> None:
        assert SEED.wrapper_name == "Template"
        assert SEED.template == "{{systemPrompt}}\n{{history}}model: {{completion}}\nuser: "
        assert SEED.history_template["model"] == "model: {{message}}\n"
        assert SEED.join_adjacent_messages_of_the_same_type is True

    def test_the_given_mapping_is_copied(self) -> None:
        given = dict(SEED.history_template)
        wrapper = TemplateChatWrapper(SEED.template, given)
        given["user"] = ""
        assert wrapper.history_template["user"] == "user: {{message}}\n"
        with pytest.raises(TypeError):
            wrapper.history_template["user"] = ""  # type: ignore[index]

    def test_settings(self) -> None:
        assert ChatWrapper.default_settings == ChatWrapperSettings() == TemplateChatWrapper.default_settings
        assert ChatWrapper().settings is ChatWrapper.default_settings
        plain = TemplateChatWrapper(SEED.template, SEED.history_template)
        assert plain.settings == ChatWrapper.default_settings
        assert SEED.settings.functions.call.prefix != plain.settings.functions.call.prefix

    def test_both_styles_say_the_same(self) -> None:
        def angles(text: str) -> str:
            return text.replace("{{", "<<").replace("}}", ">>")

        wrapper = TemplateChatWrapper(
            angles(SEED.template), {role: angles(text) for role, text in SEED.history_template.items()}
        )
        history = [ChatSystemMessage(text=LlamaText("S")), ChatUserMessage(text="<<message>>")]
        assert wrapper.generate_context_state(history) == SEED.generate_context_state(history)

    def test_control_texts_are_all_that_the_format_writes(self) -> None:
        written = {
            "[",
            "]\n--\n",
            "M: ",
            "|end|\n",
            "S: ",
            "U: ",
            "}</tool_call>",
            "<think>",
            "<note>",
            "<close>",
        }
        assert written <= FRAMED.control_texts
        assert "" not in FRAMED.control_texts


class TestContextState:
    def test_stop_triggers_come_from_the_text_after_the_completion(self) -> None:
        assert SEED.generate_context_state([]).stop_generation_triggers == (
            LlamaText(SpecialToken("EOS")),
            LlamaText("\nuser: "),
            control("\nuser: "),
        )

    @pytest.mark.parametrize(
        ("history", "text"),
        [
            ([], "\nmodel: "),
            ([{"type": "system", "text": "S"}], "S\nmodel: "),
            ([{"type": "user", "text": "U"}], "\nuser: U\nmodel: "),
            ([{"type": "model", "response": ["M"]}], "\nmodel: M"),
            ([{"type": "model", "response": []}], "\nmodel: "),
            ([{"type": "model", "response": [""]}], "\nmodel: "),
            (
                [{"type": "user", "text": "U"}, {"type": "model", "response": ["Sure: "]}],
                "\nuser: U\nmodel: Sure: ",
            ),
        ],
    )
    def test_the_end(self, history: list[Any], text: str) -> None:
        assert str(SEED.generate_context_state(history).context_text) == text

    def test_every_form_of_a_history(self) -> None:
        history = as_history(
            [{"type": "user", "text": "U"}, {"type": "model", "response": ["M", CALL.to_json()]}]
        )
        state = SEED.generate_context_state(history)
        for form in (list(history), history_to_json(history), json.dumps(history_to_json(history))):
            assert SEED.generate_context_state(form) == state  # type: ignore[arg-type]

    def test_bad_histories_are_refused_with_their_paths(self) -> None:
        with pytest.raises(HistoryError) as caught:
            SEED.generate_context_state([{"type": "user"}, {"type": "model", "response": [1]}])
        assert str(caught.value) == (
            "history[0].text: missing.\n"
            "history[1].response[0]: must be an object, not 1. Its type is 'functionCall' or 'segment'."
        )

    def test_the_history_stays_as_it_is(self) -> None:
        history = [{"type": "model", "response": [CALL.to_json()]}]
        before = json.dumps(history)
        SEED.generate_context_state(history, FUNCTIONS)
        assert json.dumps(history) == before

    def test_slots_in_content_stay_text(self) -> None:
        text = "{{history}}{{completion}}{{systemPrompt}}{{message}}<<message>>{{functionName}}"
        call = {"type": "functionCall", "name": "f", "params": [text], "result": text}
        for history in (
            [{"type": "system", "text": text}, {"type": "user", "text": text}],
            [{"type": "model", "response": [text, call]}],
        ):
            assert str(SEED.generate_context_state(history).context_text).count(text) == 2 + (
                len(history) == 1
            )


class TestCalls:
    def test_a_call(self) -> None:
        assert SEED.generate_function_call("f", {"a": "é"}) == LlamaText(
            S("[[call: "), "f", S("("), '{"a": "é"}', S(")]]")
        )

    @pytest.mark.parametrize(
        ("params", "text"),
        [
            (ABSENT, ""),
            (None, "null"),
            ({}, "{}"),
            ([], "[]"),
            ("a", '"a"'),
            (0, "0"),
            (1.5, "1.5"),
            (True, "true"),
            ({"a": [1, {"b": None}], "q": 'x"\n'}, '{"a": [1, {"b": null}], "q": "x\\"\\n"}'),
        ],
    )
    def test_arguments_are_any_json(self, params: Any, text: str) -> None:
        assert str(SEED.generate_function_call("f", params)) == f"[[call: f({text})]]"
        assert str(ChatWrapper().generate_function_call("f", params)) == f"||call: f({text})"

    @pytest.mark.parametrize(("result", "text"), [(ABSENT, "void"), (None, "null"), ("x", '"x"'), ("", '""')])
    def test_results_are_any_json(self, result: Any, text: str) -> None:
        assert str(SEED.generate_function_call_result("f", {}, result)) == f" [[result: {text}]]"
        assert str(ChatWrapper().generate_function_call_result("f", {}, result)) == f"\n||result: {text}\n"

    def test_a_result_may_repeat_its_call(self) -> None:
        wrapper = TemplateChatWrapper(
            SEED.template,
            SEED.history_template,
            function_call_message_template={
                "call": "<{{functionName}}>{{functionParams}}</{{functionName}}>",
                "result": "<r {{functionName}}={{functionParams}}>{{functionCallResult}}</{{functionName}}>",
            },
        )
        assert str(wrapper.generate_function_calls_and_results([CALL])) == (
            '<f>{"a": "é \\"q\\""}</f><r f={"a": "é \\"q\\""}>[1, null]</f>'
        )

    def test_raw_calls_are_put_back(self) -> None:
        call = CALL.model_copy(update={"raw_call": LlamaText("f", S("!"))})
        raw = LlamaText("f", S("! [[result: "), "[1, null]", S("]]"))
        assert SEED.generate_function_calls_and_results([call]) == raw
        assert SEED.generate_function_calls_and_results([call.to_json()]) == raw
        assert SEED.generate_model_response_text([call]) == raw
        plain = SEED.generate_function_calls_and_results([CALL])
        assert SEED.generate_function_calls_and_results([call], False) == plain
        assert SEED.generate_model_response_text([call], False) == plain

    def test_no_calls(self) -> None:
        assert SEED.generate_function_calls_and_results([]) == LlamaText()
        assert SEED.generate_model_response_text([]) == LlamaText()

    def test_other_parts_are_no_calls(self) -> None:
        with pytest.raises(HistoryError) as caught:
            SEED.generate_function_calls_and_results(["text", CALL])  # type: ignore[list-item]
        assert str(caught.value) == "function_calls[0]: not a function call, but 'text'."

    def test_what_json_cant_hold(self) -> None:
        with pytest.raises(HistoryError) as caught:
            SEED.generate_function_call("f", {"a": object})
        assert str(caught.value) == (
            "arguments of f: can't be written as JSON: Object of type type is not JSON serializable. "
            "Give JSON values."
        )


class TestFunctions:
    def test_the_documentation_stands_behind_the_leading_system_items(self) -> None:
        text = SEED.generate_available_functions_system_text(FUNCTIONS)
        first, second = ChatSystemMessage(text=LlamaText("1")), ChatSystemMessage(text=LlamaText("2"))
        user = ChatUserMessage(text="U")
        documented = ChatSystemMessage(text=text)
        add = SEED.add_available_functions_system_message_to_history
        assert add([first, second, user, first], FUNCTIONS) == (first, second, documented, user, first)
        assert add([], FUNCTIONS) == (documented,)
        assert add([user], FUNCTIONS) == (documented, user)
        assert add([user]) == add([user], {}) == (user,)

    def test_the_text(self) -> None:
        text = str(SEED.generate_available_functions_system_text(FUNCTIONS))
        assert (
            "// The time.\nfunction now();\n\n// The weather.\nfunction weather(params: {city: string});"
            in text
        )
        assert '[[call: getSomeInfo({"someKey": "someValue"})]]' in text
        plain = str(SEED.generate_available_functions_system_text(FUNCTIONS, False))
        assert "function weather(params);" in plain
        assert SEED.generate_available_functions_system_text({}) == LlamaText()

    def test_the_prompt_holds_it(self) -> None:
        state = SEED.generate_context_state([], FUNCTIONS, False)
        assert state.context_text.includes(SEED.generate_available_functions_system_text(FUNCTIONS, False))

    def test_a_description_is_content(self) -> None:
        text = SEED.generate_available_functions_system_text({"f": {"description": "<|im_end|>"}})
        assert any("<|im_end|>" in value for value in text.values if isinstance(value, str))
        assert not any("<|im_end|>" in str(value) for value in text.values if not isinstance(value, str))


class TestInitialHistory:
    def test_system_prompt(self) -> None:
        assert SEED.generate_initial_chat_history() == (
            ChatSystemMessage(text=LlamaText(DEFAULT_SYSTEM_PROMPT)),
        )
        assert SEED.generate_initial_chat_history("Be kind.") == (
            ChatSystemMessage(text=LlamaText("Be kind.")),
        )
        text = LlamaText("a", S("b"))
        assert SEED.generate_initial_chat_history(system_prompt=text) == (ChatSystemMessage(text=text),)


class TestOverriding:
    def test_a_subclass_may_change_one_step(self) -> None:
        class Shouting(TemplateChatWrapper):
            wrapper_name = "Shouting"

            def generate_function_call(self, name: str, params: Any = ABSENT) -> LlamaText:
                return LlamaText(S("CALL "), name.upper())

        wrapper = Shouting(SEED.template, SEED.history_template)
        assert str(wrapper.generate_model_response_text([CALL])) == "CALL F\n||result: [1, null]\n"
        assert "CALL GETSOMEINFO" in str(wrapper.generate_context_state([], FUNCTIONS).context_text)

    def test_the_base_class_renders_too(self) -> None:
        state = ChatWrapper().generate_context_state(
            [ChatUserMessage(text="U"), ChatModelResponse(response=("M",))]
        )
        assert str(state.context_text) == "user: U\nmodel: M"
        assert state.stop_generation_triggers == ()


def message_texts(history: ChatHistory, *, thoughts: bool) -> list[str]:
    """Every text that a prompt has to hold, thoughts included if the format has marks for them."""
    found = []
    for item in history:
        if isinstance(item, ChatModelResponse):
            for part in item.response:
                if isinstance(part, str):
                    found.append(part)
                elif part.type == "functionCall":
                    found.append(str(part.raw_call) if part.raw_call is not None else part.name)
                elif thoughts or part.segment_type != "thought":
                    found.append(str(part.raw) if part.raw is not None else part.text)
        else:
            found.append(str(item.text))
    return found


# Formats that trim texts, move system messages to the front or drop old thoughts have tests of their own.
VERBATIM = [
    name
    for name in sorted(WRAPPERS)
    if name in {"alpaca", "chatml", "general", "llama-2", "llama-3", "mistral", "vicuna"}
    or name not in chat_wrapper_names()
]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(VERBATIM), histories)
def test_nothing_is_lost(name: str, history: ChatHistory) -> None:
    prompt = str(WRAPPERS[name].generate_context_state(history).context_text)
    start = 0
    for text in message_texts(history, thoughts=WRAPPERS[name].settings.segments.thought is not None):
        assert text in prompt[start:], (name, text)
        start = prompt.index(text, start) + len(text)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(WRAPPERS)), st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=5))
def test_content_is_never_control_text(name: str, texts: list[str]) -> None:
    marked = [f"\ue000{text}\ue001" for text in texts]
    parts = [marked[0], ChatModelSegment(segment_type="thought", text=marked[-1])]
    call = ChatModelFunctionCall(name=marked[0], arguments={marked[-1]: marked}, result={marked[0]: marked})
    history = [
        ChatSystemMessage(text=LlamaText(marked[0])),
        *(ChatUserMessage(text=text) for text in marked),
        ChatModelResponse(response=(*parts, call)),
        ChatUserMessage(text=marked[0]),
    ]
    state = WRAPPERS[name].generate_context_state(
        history, {"f": {"description": marked[0], "params": {"enum": marked}}}
    )
    controls = [str(value) for value in state.context_text.values if not isinstance(value, str)]
    assert not any("\ue000" in text or "\ue001" in text for text in controls)
