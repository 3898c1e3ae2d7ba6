from __future__ import annotations

import inspect
from typing import Any

import llama_cpp
import pytest

from chatwrap.engine.sampling import SamplingOptions, sampling_options
from chatwrap.errors import ChatwrapError, OptionError


def test_defaults_are_those_of_create_chat_completion() -> None:
    theirs = inspect.signature(llama_cpp.Llama.create_chat_completion).parameters
    ours = SamplingOptions()
    for name in SamplingOptions.__dataclass_fields__:
        if name not in ("stop", "logit_bias"):
            assert getattr(ours, name) == theirs[name].default, name


def test_all_faults_are_reported_together() -> None:
    with pytest.raises(OptionError) as error:
        SamplingOptions(temperature=-1, top_p=float("nan"), top_k=1.5, max_tokens=0, seed=True)  # type: ignore[arg-type]
    assert str(error.value).splitlines() == [
        "temperature: must be a number from 0 to 3.4e+38, not -1.",
        "top_k: must be a whole number from -1 to 2147483647, not 1.5.",
        "top_p: must be a number from 0 to 1, not nan.",
        "seed: must be a whole number from -9223372036854775808 to 18446744073709551615, not True.",
        "max_tokens: must be a whole number of at least 1, not 0.",
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stop": [1]}, "stop: must be a string or a list of strings, not [1]."),
        ({"stop": 1}, "stop: must be a string or a list of strings, not 1."),
        ({"repeat_penalty": 0}, "repeat_penalty: must be a number above 0, not 0."),
        ({"grammar": 5}, "grammar: must be a Grammar, GBNF text or a LlamaGrammar, not 5."),
        ({"logits_processor": [5]}, "logits_processor: must be callable, not 5."),
        ({"logit_bias": [5]}, "logit_bias: must map token ids to numbers, not [5]."),
        ({"logit_bias": {"a": 1}}, "logit_bias: must have token ids as keys, not 'a'."),
        ({"logit_bias": {3: "x"}}, "logit_bias[3]: must be a number, not 'x'."),
        (
            {"temprature": 1},
            "No sampling option named 'temprature'. Did you mean 'temperature'? "
            "help(chatwrap.SamplingOptions) lists all.",
        ),
    ],
)
def test_a_bad_option_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ChatwrapError) as error:
        sampling_options(None, changes)
    assert str(error.value) == message


def test_one_stop_string_may_stand_alone() -> None:
    assert SamplingOptions(stop="a").stop_strings == ("a",)
    assert SamplingOptions(stop=["a", "b"]).stop_strings == ("a", "b")
