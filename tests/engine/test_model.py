from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import llama_cpp
import pytest

from chatwrap.engine.model import DEFAULT_N_CTX, Model, load_model
from chatwrap.errors import ChatwrapError, FileError, ModelError, OptionError, UnknownNameError
from chatwrap.wrapper.definition import load_chat_wrapper

from .conftest import CAPITAL

QUESTION = [{"type": "user", "text": CAPITAL}]


def test_greedy_answer(model: Model) -> None:
    result = model.complete(QUESTION, temperature=0)
    assert result.text == "The capital of France is Paris."
    assert (result.finish_reason, result.n_prompt_tokens, result.n_completion_tokens) == ("stop", 16, 8)
    assert result.stop is not None and result.stop.text == "<|im_end|>"


def test_the_prompt_starts_with_control_tokens(model: Model) -> None:
    assert model.prompt_ids(QUESTION)[:3] == [1, 4093, 198]


def test_auto_finds_the_wrapper_by_the_vocabulary(model: Model) -> None:
    found = Model(model.llama).chat_wrapper
    history = [*QUESTION, {"type": "model", "response": ["Paris."]}]
    expected = load_chat_wrapper("chatml").generate_context_state(history)
    assert found.generate_context_state(history) == expected


def test_the_context_is_the_trained_one_unless_that_is_large(smollm_path: Path) -> None:
    with load_model(smollm_path) as loaded:
        assert loaded.n_ctx == DEFAULT_N_CTX == 8192
        begun = loaded.generate(QUESTION)
        next(begun)
        loaded.close()
        with pytest.raises(ModelError, match="the model was closed"):
            next(begun)
        with pytest.raises(ModelError) as error:
            loaded.complete(QUESTION)
    assert str(error.value) == f"{smollm_path}: the model was closed. Load it again."


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileError) as missing:
        load_model(tmp_path / "no.gguf")
    assert str(missing.value) == f"{tmp_path / 'no.gguf'}: no such file."
    with pytest.raises(FileError) as directory:
        load_model(tmp_path)
    assert str(directory.value) == f"{tmp_path}: is a directory. Name the GGUF file in it."


@pytest.mark.parametrize("n_bytes", [4, 20, 100_000, 60_000_000])
def test_a_truncated_file_is_refused_with_the_reason(smollm_path: Path, tmp_path: Path, n_bytes: int) -> None:
    broken = tmp_path / "broken.gguf"
    with smollm_path.open("rb") as whole:
        broken.write_bytes(whole.read(n_bytes))
    with pytest.raises(ModelError, match=r"broken\.gguf: llama\.cpp can't load it: .*\w.*\.$") as error:
        load_model(broken, n_ctx=64)
    assert "no reason" not in str(error.value)


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(b"PK\x03\x04 and so on")
    with pytest.raises(FileError) as error:
        load_model(other)
    assert str(error.value) == f"{other}: not a GGUF file: it starts with b'PK\\x03\\x04', not b'GGUF'."


def test_wrong_options_are_named_before_loading(smollm_path: Path) -> None:
    with pytest.raises(OptionError) as sizes:
        load_model(smollm_path, n_ctx=0, n_batch=True, n_gpu_layers=-2, seed="x")  # type: ignore[arg-type]
    assert str(sizes.value).splitlines() == [
        "n_ctx: must be a whole number from 1 to 2147483647, not 0.",
        "n_gpu_layers: must be a whole number from -1 to 2147483647, not -2.",
        "n_batch: must be a whole number from 1 to 2147483647, not True.",
        "seed: must be a whole number from -9223372036854775808 to 18446744073709551615, not 'x'.",
    ]
    with pytest.raises(UnknownNameError) as unknown:
        load_model(smollm_path, n_gpu_layer=3)
    assert str(unknown.value) == (
        "No model option named 'n_gpu_layer'. Did you mean 'n_gpu_layers'? help(llama_cpp.Llama) lists all."
    )
    with pytest.raises(OptionError, match=r"^load_model: llama_cpp\.Llama refuses an option: "):
        load_model(smollm_path, n_ctx=64, rope_freq_base="high")
    with pytest.raises(UnknownNameError) as name:
        load_model(smollm_path, chat_wrapper="chatlm")
    assert str(name.value).startswith("No chat wrapper named 'chatlm'. Did you mean 'chatml'?")


def test_a_context_that_llama_cpp_rounds_up_and_small_batches(smollm_path: Path) -> None:
    with load_model(smollm_path, n_ctx=100, n_batch=7, n_threads=1, n_threads_batch=1) as loaded:
        assert loaded.llama.n_ctx() > loaded.n_ctx == 100
        assert loaded.complete(QUESTION, temperature=0).text == "The capital of France is Paris."
        endless = {"temperature": 0, "logit_bias": {0: -100, 2: -100}}
        result = loaded.complete(QUESTION, **endless)
    assert (result.finish_reason, result.n_prompt_tokens + result.n_completion_tokens) == ("length", 100)


def test_loading_restores_the_logger(model: Model) -> None:
    current = llama_cpp.llama_log_callback()
    user_data = llama_cpp.ctypes.c_void_p()
    llama_cpp.llama_log_get(llama_cpp.ctypes.byref(current), llama_cpp.ctypes.byref(user_data))
    expected = llama_cpp.ctypes.cast(llama_cpp._logger.llama_log_callback, llama_cpp.ctypes.c_void_p).value
    assert llama_cpp.ctypes.cast(current, llama_cpp.ctypes.c_void_p).value == expected


@pytest.mark.parametrize("history", [[], [{"type": "system", "text": "Be kind."}]])
def test_histories_without_a_question_still_make_a_prompt(
    model: Model, history: list[dict[str, str]]
) -> None:
    assert model.complete(history, max_tokens=2, temperature=0).n_completion_tokens == 2


def test_a_lone_surrogate_is_refused(model: Model) -> None:
    with pytest.raises(ChatwrapError, match=r"^text\[\d+\]: lone surrogate U\+D800 after "):
        model.generate([{"type": "user", "text": "a\ud800"}])


def test_importing_chatwrap_loads_no_model_code() -> None:
    code = "import sys, chatwrap; sys.exit('llama_cpp' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
