"""Prompts and stop triggers equal node-llama-cpp's for the same template strings and histories.

The one difference wanted: if the history doesn't end in a model item with text, our prompt goes on with
the generation prompt, where node-llama-cpp leaves it out. Texts are compared, not their kinds: it takes
some marks of segments and of calls for content, where everything that a format writes is control text here.
"""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic.alias_generators import to_snake

from chatwrap import LlamaText, TemplateChatWrapper, as_history, history_to_json
from chatwrap.chat.history import ChatModelResponse

N_CASES = 600

_TEXTS = (
    *("", "hello", 'Łódź "q"', "line\nline", "  sp ", "a,\nb,", "{{message}}", "<|im_end|>", "日本 😀"),
    *("\u2028x", "<<completion>>", "{{functionName}}", "||call: f()", "\\n", "e\u0301"),
)
_SCALARS = (
    *(None, True, False, 0, -3, 12345678901, 1.5, "", "x,", 'say "hi"\n\\', "é日\u007f", "</s>", "a: {b}"),
    *("\u2028", "\t\b", "😀", "{{functionName}}"),
)
_KEYS = ("a", "b c", "ключ", 'q"k', "z", "")
_CALLS = (
    "[[call: {{functionName}}({{functionParams}})]]",
    '<tool_call>{"name": "{{functionName}}", "arguments": {{functionParams}}}</tool_call>',
)
_RESULTS = (
    " [[result: {{functionCallResult}}]]",
    "<r>{{functionName}} {{functionParams}}: {{functionCallResult}}</r>",
    "<r>{{functionCallResult}}</r {{functionName}}>\n",
)


class Cases:
    """Random template options and histories, in node-llama-cpp's JSON form."""

    def __init__(self, seed: str) -> None:
        self._rnd = random.Random(seed)

    def case(self) -> dict[str, Any]:
        return {"options": self._options(), "history": self._history()}

    def _happens(self, probability: float) -> bool:
        return self._rnd.random() < probability

    def _options(self) -> dict[str, Any]:
        pick = self._rnd.choice
        opening = pick(("", "<s>", "BEGIN\n"))
        system = opening + "{{systemPrompt}}" if self._happens(0.5) else opening
        answer = pick(("", "model: ", "<|im_start|>assistant\n")) + "{{completion}}"
        roles = ("system", "user", "model")
        frames = (
            "{role}: {{{{message}}}}\n",
            "<|im_start|>{role}\n{{{{message}}}}<|im_end|>\n",
            "{{{{message}}}}",
        )
        options: dict[str, Any] = {
            "template": system
            + pick(("", "\n", "\n--\n"))
            + "{{history}}"
            + answer
            + pick(("\nuser: ", "<|im_end|>\n")),
            "historyTemplate": {role: pick(frames).format(role=role) for role in roles},
        }
        if self._happens(0.5):
            options["functionCallMessageTemplate"] = {"call": pick(_CALLS), "result": pick(_RESULTS)}
        if self._happens(0.4):
            options["joinAdjacentMessagesOfTheSameType"] = self._happens(0.5)
        if self._happens(0.6):
            options["segments"] = self._segments()
        return options

    def _segments(self) -> dict[str, Any]:
        texts = {
            "thoughtTemplate": self._rnd.choice(("<think>{{content}}</think>", "<think>{{content}}")),
            "closeAllSegmentsTemplate": "<close>",
            "reiterateStackAfterFunctionCalls": True,
            "reopenThoughtAfterFunctionCalls": True,
        }
        return {key: value for key, value in texts.items() if self._happens(0.6)}

    def _history(self) -> list[dict[str, Any]]:
        return [self._item() for _ in range(self._rnd.randint(1, 7))]

    def _item(self) -> dict[str, Any]:
        kind = self._rnd.choices(("system", "user", "model"), (2, 4, 4))[0]
        if kind == "model":
            return {"type": kind, "response": [self._part() for _ in range(self._rnd.randint(0, 5))]}
        marked: list[Any] = ["a", {"type": "specialTokensText", "value": "<b>"}]
        return {"type": kind, "text": self._rnd.choice((*_TEXTS, marked) if kind == "system" else _TEXTS)}

    def _part(self) -> str | dict[str, Any]:
        kind = self._rnd.choices(("text", "call", "segment"), (45, 30, 25))[0]
        return {"text": self._text, "call": self._call, "segment": self._segment}[kind]()

    def _text(self) -> str:
        return self._rnd.choice(_TEXTS)

    def _call(self) -> dict[str, Any]:
        call: dict[str, Any] = {"type": "functionCall", "name": self._rnd.choice(("f", "getX", "w_2", "ünï"))}
        if self._happens(0.85):
            call["params"] = self._json()
        if self._happens(0.85):
            call["result"] = self._json()
        if self._happens(0.2):
            call["rawCall"] = self._rnd.choice(
                ("RAW()", ["a", {"type": "specialTokensText", "value": "<x>"}])
            )
        if self._happens(0.3):
            call["startsNewChunk"] = self._happens(0.5)
        return call

    def _segment(self) -> dict[str, Any]:
        kind = self._rnd.choice(("thought", "thought", "comment"))
        segment = {"type": "segment", "segmentType": kind, "text": self._text(), "ended": self._happens(0.7)}
        if self._happens(0.15):
            segment["raw"] = ["RAW", {"type": "specialTokensText", "value": "<think>"}, "t"]
        return segment

    def _json(self, depth: int = 0) -> Any:
        kind = "scalar" if depth > 2 else self._rnd.choices(("scalar", "list", "object"), (2, 1, 1))[0]
        if kind == "scalar":
            return self._rnd.choice(_SCALARS)
        values = [self._json(depth + 1) for _ in range(self._rnd.randint(0, 3))]
        return values if kind == "list" else {self._rnd.choice(_KEYS): value for value in values}


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    generator = Cases("node-llama-cpp")
    return [generator.case() for _ in range(N_CASES)]


@pytest.fixture(scope="module")
def answers(
    node_llama_cpp: Path, cases: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    """What node-llama-cpp makes of the cases."""
    given = tmp_path_factory.mktemp("parity") / "cases.json"
    given.write_text(json.dumps(cases), encoding="utf-8")
    command = ["node", str(Path(__file__).with_name("render.mjs")), str(node_llama_cpp), str(given)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    rendered: list[dict[str, Any]] = json.loads(done.stdout)
    return rendered


def test_prompts_and_stop_triggers_are_the_same(
    cases: list[dict[str, Any]], answers: list[dict[str, Any]]
) -> None:
    n_equal = 0
    for case, answer in zip(cases, answers, strict=True):
        wrapper = TemplateChatWrapper(**_snake(case["options"]))
        state = wrapper.generate_context_state(case["history"])
        ours, theirs = str(state.context_text), str(LlamaText.from_json(answer["text"]))
        n_equal += ours == theirs
        assert ours in (theirs, theirs + _missing(case, wrapper)), json.dumps(case, ensure_ascii=False)
        assert [trigger.to_json() for trigger in state.stop_generation_triggers] == answer["stops"]
    assert N_CASES / 4 < n_equal < N_CASES


def test_histories_survive_the_way_there_and_back(cases: list[dict[str, Any]]) -> None:
    for case in cases:
        history = as_history(case["history"])
        assert as_history(json.dumps(history_to_json(history))) == history
        assert history_to_json(history) == case["history"]


def _missing(case: dict[str, Any], wrapper: TemplateChatWrapper) -> str:
    """The generation prompt, where node-llama-cpp leaves it out: without model text at the end."""
    (last,) = as_history(case["history"][-1:])
    if isinstance(last, ChatModelResponse) and wrapper.generate_item_text(last):
        return ""
    return wrapper.template.split("{{history}}")[1].split("{{completion}}")[0]


def _snake(options: dict[str, Any]) -> dict[str, Any]:
    return {
        to_snake(key): _snake(value) if isinstance(value, dict) else value for key, value in options.items()
    }
