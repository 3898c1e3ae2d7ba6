from __future__ import annotations

import pickle
import tomllib
from pathlib import Path
from typing import Any

import pytest

from chatwrap import TemplateChatWrapper
from chatwrap.errors import TemplateError

CASES = tomllib.loads((Path(__file__).parents[1] / "cases/template_faults.toml").read_text("utf-8"))["cases"]
GOOD = {
    "template": "{{history}}model: {{completion}}\nuser: ",
    "history_template": {role: f"{role}: {{{{message}}}}\n" for role in ("system", "user", "model")},
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_all_faults_are_told_at_once(case: dict[str, Any]) -> None:
    with pytest.raises(TemplateError) as caught:
        TemplateChatWrapper(**{**GOOD, **case["options"]})
    assert str(caught.value) == case["error"]
    assert len(caught.value.faults) == len(case["error"].splitlines())
    assert isinstance(caught.value, ValueError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == case["error"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"template": "{{ history }}{{\tcompletion\n}}x"},
        {"template": "<<systemPrompt>><<history>><< completion >>x"},
        {"template": "{{history}}{{completion}}<<SYS>>{user}{x}"},
        {"template": "{{{history}}}{{completion}}x"},
        {"template": "{{history}}{{completion}}\n"},
        {"segments": {}},
        {"segments": {"thought_template": None, "comment_template": "<c>{{content}}"}},
        {
            "function_call_message_template": {
                "call": "[{{functionName}}{{functionParams}}]",
                "result": "r{{functionCallResult}}r",
            }
        },
        {
            "function_call_message_template": {
                "call": "<{{functionName}}>{{functionParams}}</{{functionName}}>",
                "result": "<r>{{functionCallResult}}{{functionParams}}{{functionName}}",
            }
        },
    ],
)
def test_what_is_allowed(options: dict[str, Any]) -> None:
    TemplateChatWrapper(**{**GOOD, **options})
