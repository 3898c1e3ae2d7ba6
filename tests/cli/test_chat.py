"""``chatwrap chat`` with a question: answers, files, and each mistake that a user can make."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chatwrap.engine.model import load_model

from .conftest import MainRun
from .program import CTRL_C, FAST, Terminal, environment, run

CAPITAL = "What is the capital of France?"
ANSWER = "The capital of France is Paris."
FORMAT = """\
template = "{{history}}<|im_start|>assistant\\n{{completion}}<|im_end|>"
[history_template]
system = "<|im_start|>system\\n{{message}}<|im_end|>\\n"
user = "<|im_start|>user\\n{{message}}<|im_end|>\\n"
model = "<|im_start|>assistant\\n{{message}}<|im_end|>\\n"
"""


def answered(run_here: MainRun, *arguments: str | Path) -> str:
    """What the command prints, run in this process."""
    code, out, err = run_here("chat", *FAST, *arguments)
    assert (code, err) == (0, "")
    return out


def test_it_answers_and_prints_nothing_else() -> None:
    code, out, err = run("chat", "-p", CAPITAL, "--temperature", "0", "--system", "", "--threads", "1")
    assert (code, out, err) == (0, f"{ANSWER}\n", "")


def test_a_prompt_may_come_from_a_file(run_here: MainRun, tmp_path: Path) -> None:
    file = tmp_path / "question.txt"
    file.write_text(CAPITAL, encoding="utf-8")
    assert answered(run_here, "--prompt-file", file) == f"{ANSWER}\n"


def test_answers_end_where_they_are_told_to(run_here: MainRun) -> None:
    assert answered(run_here, "-p", CAPITAL, "--max-tokens", "3") == "The capital of\n"
    assert answered(run_here, "-p", CAPITAL, "--stop", " of", "--stop", "Paris") == "The capital\n"


def test_a_format_goes_by_name_by_file_or_by_the_models_own_template(
    run_here: MainRun, tmp_path: Path, smollm_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(FORMAT, encoding="utf-8")
    for chat_format in ("chatml", str(file), "jinja", "general"):
        with load_model(smollm_path, n_ctx=256, n_threads=1, chat_wrapper=chat_format) as model:
            expected = model.complete([{"type": "user", "text": "Hi"}], temperature=0, max_tokens=4).text
        asked = ("-p", "Hi", "--max-tokens", "4", "--format", chat_format)
        assert answered(run_here, smollm_path, *asked) == f"{expected}\n"


def test_a_history_is_saved_and_gone_on_from(run_here: MainRun, tmp_path: Path) -> None:
    talk = tmp_path / "talk.json"
    answered(run_here, "-p", CAPITAL, "--history", talk)
    said = [{"type": "user", "text": CAPITAL}, {"type": "model", "response": [ANSWER]}]
    assert json.loads(talk.read_text(encoding="utf-8")) == said
    assert "Rome" in answered(run_here, "-p", "And of Italy?", "--history", talk, "--system", "Be brief.")
    assert json.loads(talk.read_text(encoding="utf-8"))[:-1] == [
        {"type": "system", "text": "Be brief."},
        *said,
        {"type": "user", "text": "And of Italy?"},
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["smollm"], "No model named 'smollm'. `chatwrap models` lists all."),
        (
            ["smollm2-135m-instrukt"],
            "No model named 'smollm2-135m-instrukt'. Did you mean 'smollm2-135m-instruct'? "
            "`chatwrap models` lists all.",
        ),
        ([""], "No model named ''. `chatwrap models` lists all."),
        (["no.gguf"], "no.gguf: no such file."),
        (["folder"], "folder: is a directory. Name the GGUF file in it."),
        (["text.gguf"], "text.gguf: not a GGUF file: it starts with b'Hell', not b'GGUF'."),
        (["hf:owner"], "hf:owner: not a file on the hub. Write hf:OWNER/REPOSITORY/FILE.gguf."),
        (
            ["-f", "chatlm"],
            "No chat wrapper named 'chatlm'. Did you mean 'chatml'? `chatwrap wrappers` lists all.",
        ),
        (["-f", "no.toml"], "no.toml: no such file."),
        (["-f", "folder/"], "folder: is a directory. Name a file in it."),
        (
            ["-f", "bad.toml"],
            "bad.toml: history_template: missing. A definition needs template and history_template.",
        ),
        (["--history", "folder"], "folder: is a directory. Name a file in it."),
        (
            ["--history", "no/talk.json"],
            "no/talk.json: there is no folder no to save it in. Make it first.",
        ),
        (
            ["--history", "bad.json"],
            "bad.json:1:18: not JSON: Expecting ',' delimiter.\n"
            '  [{"type": "user" "text": "Hi"}]\n'
            "                   ^",
        ),
        (["--prompt-file", "text.gguf"], "--prompt-file: given together with --prompt. Give one of them."),
        (["--temperature", "nan"], "--temperature: must be a number from 0 to 3.4e+38, not nan."),
        (
            ["--top-p", "2", "--max-tokens", "0"],
            "--top-p: must be a number from 0 to 1, not 2.0.\n"
            "--max-tokens: must be a whole number of at least 1, not 0.",
        ),
        (["--threads", "0"], "--threads: must be a whole number from 1 to 512, not 0."),
        (["--n-ctx", "0"], "--n-ctx: must be a whole number from 1 to 2147483647, not 0."),
        (
            ["--n-ctx", "8"],
            "prompt: 10 tokens, but the context holds 8 and needs one free to answer. "
            "Shorten the conversation, or load the model with a larger n_ctx.",
        ),
    ],
)
def test_a_users_mistake_is_one_message(
    arguments: list[str], message: str, folder: Path, run_here: MainRun
) -> None:
    (folder / "folder").mkdir()
    (folder / "text.gguf").write_text("Hello", encoding="utf-8")
    (folder / "bad.toml").write_text("template = '{{history}}{{completion}}.'", encoding="utf-8")
    (folder / "bad.json").write_text('[{"type": "user" "text": "Hi"}]', encoding="utf-8")
    assert run_here("chat", "-p", "Hi", *FAST, *arguments) == (2, "", f"chatwrap: {message}\n")


def test_a_truncated_model_is_a_failure_of_the_model(tmp_path: Path, smollm_path: Path) -> None:
    whole = smollm_path.read_bytes()
    for n_bytes, reason in (
        (10, "gguf_init_from_reader: failed to read header."),
        (1_000_000, "gguf_init_from_reader: failed to read key-value pairs."),
        (
            60_000_000,
            "llama_model_load: error loading model: tensor 'blk.2.ffn_up.weight' data is not within the "
            "file bounds, model is corrupted or incomplete.",
        ),
    ):
        cut = tmp_path / "cut.gguf"
        cut.write_bytes(whole[:n_bytes])
        remedy = "If the file was cut short, download it again."
        assert run("chat", "-p", "Hi", *FAST, cut) == (
            1,
            "",
            f"chatwrap: {cut}: llama.cpp can't load it: {reason} {remedy}\n",
        )


def test_an_option_that_is_no_number_is_refused(run_here: MainRun) -> None:
    code, out, err = run_here("chat", "--temperature", "warm")
    assert (code, out) == (2, "")
    assert "Invalid value for '--temperature'" in err


def test_ctrl_c_ends_an_answer_with_its_own_exit_code(tmp_path: Path, smollm_path: Path) -> None:
    talk = tmp_path / "talk.json"
    options = ("--threads", "1", "--n-ctx", "2048", "--temperature", "0", "--history", talk)
    with Terminal("chat", smollm_path, "-p", "Write a very long story.", *options) as terminal:
        terminal.until(" ")
        terminal.type(CTRL_C)
        assert terminal.ended() == 130
    answer = json.loads(talk.read_text(encoding="utf-8"))[1]["response"][0]
    assert terminal.shown.replace("^C", "") == f"{answer}\n"
    assert len(answer) < 2000


@pytest.mark.parametrize("delay_s", [0, 0.15, 0.4, 0.8])
def test_ctrl_c_before_the_answer_ends_the_program_silently(delay_s: float, smollm_path: Path) -> None:
    program = "from chatwrap.cli import main; print('started', flush=True); main()"
    command = [sys.executable, "-c", program, "chat", str(smollm_path), *FAST]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment({})) as process:
        assert process.stdout and process.stderr
        assert process.stdout.readline() == b"started\n"
        time.sleep(0.02 + delay_s)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == -signal.SIGINT
        assert process.stderr.read() == process.stdout.read() == b""


def test_a_terminal_without_a_character_gets_its_escape(smollm_path: Path) -> None:
    answer = "ChatSession.stream = lambda *_, **__: (text for text in ['Gr\\u00fc\\u00dfe ', '\\U0001f600'])"
    main = f"from chatwrap import ChatSession; {answer}; from chatwrap.cli import main; main()"
    program = (sys.executable, "-c", main)
    asked = ("chat", smollm_path, "-p", "Grüße 😀", *FAST)
    assert run(*asked, program=program, PYTHONIOENCODING="ascii") == (0, "Gr\\xfc\\xdfe \\U0001f600\n", "")
    assert run(*asked, program=program, LC_ALL="C") == (0, "Grüße 😀\n", "")


def test_a_question_is_utf8_in_any_locale(smollm_path: Path) -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    code, out, err = run("chat", smollm_path, "-p", "Say: 😀", *FAST, "--max-tokens", "4", **ascii_only)
    assert (code, err) == (0, "") and out.isascii()
    code, out, err = run(
        "chat", smollm_path, *FAST, "--max-tokens", "4", given="Say: 😀".encode(), **ascii_only
    )
    assert (code, err) == (0, "") and out.isascii()


def test_a_build_that_cannot_be_loaded_is_told(run_here: MainRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    reason = "can't be loaded: import of llama_cpp halted; None in sys.modules"
    remedy = "Run: pip install --force-reinstall --no-cache-dir llama-cpp-python"
    assert run_here("chat", "-p", "Hi") == (1, "", f"chatwrap: llama-cpp-python: {reason}. {remedy}\n")
