"""``chatwrap chat`` with a question: answers, files, and each mistake that a user can make."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import chatwrap.cli.chat as chat_module
from chatwrap.cli.commands import app
from chatwrap.engine.model import Model, load_model
from chatwrap.errors import ChatwrapError

from .program import CTRL_C, FAST, PROGRAM, Terminal, environment, run

CAPITAL = "What is the capital of France?"
ANSWER = "The capital of France is Paris."
FORMAT = """\
template = "{{history}}<|im_start|>assistant\\n{{completion}}<|im_end|>"
[history_template]
system = "<|im_start|>system\\n{{message}}<|im_end|>\\n"
user = "<|im_start|>user\\n{{message}}<|im_end|>\\n"
model = "<|im_start|>assistant\\n{{message}}<|im_end|>\\n"
"""


@pytest.fixture(scope="module")
def runner() -> CliRunner:
    return CliRunner()


def answered(runner: CliRunner, *arguments: str | Path) -> str:
    """What the command prints, run in this process."""
    result = runner.invoke(app, ["chat", *FAST, *map(str, arguments)], catch_exceptions=False)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def refused(*arguments: str | Path) -> str:
    """The message for a user's mistake."""
    code, out, err = run("chat", "-p", "Hi", *FAST, *arguments)
    assert (code, out) == (2, "")
    return err.removeprefix("chatwrap: ").removesuffix("\n")


def test_it_answers_and_prints_nothing_else() -> None:
    code, out, err = run("chat", "-p", CAPITAL, "--temperature", "0", "--system", "", "--threads", "1")
    assert (code, out, err) == (0, f"{ANSWER}\n", "")


def test_a_prompt_may_come_from_a_file(runner: CliRunner, tmp_path: Path) -> None:
    file = tmp_path / "question.txt"
    file.write_text(CAPITAL, encoding="utf-8")
    assert answered(runner, "--prompt-file", file) == f"{ANSWER}\n"


def test_answers_end_where_they_are_told_to(runner: CliRunner) -> None:
    assert answered(runner, "-p", CAPITAL, "--max-tokens", "3") == "The capital of\n"
    assert answered(runner, "-p", CAPITAL, "--stop", " of", "--stop", "Paris") == "The capital\n"


def test_a_format_goes_by_name_by_file_or_by_the_models_own_template(
    runner: CliRunner, tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(FORMAT, encoding="utf-8")
    for chat_format in ("chatml", str(file), "jinja"):
        assert answered(runner, "-p", CAPITAL, "--format", chat_format, "--system", "Be exact.") == (
            f"{ANSWER}\n"
        )
    assert answered(runner, "-p", CAPITAL, "--format", "general", "--max-tokens", "2") != "The capital\n"


def test_a_history_is_saved_and_gone_on_from(runner: CliRunner, tmp_path: Path) -> None:
    talk = tmp_path / "talk.json"
    answered(runner, "-p", CAPITAL, "--history", talk)
    said = [{"type": "user", "text": CAPITAL}, {"type": "model", "response": [ANSWER]}]
    assert json.loads(talk.read_text(encoding="utf-8")) == said
    assert "Rome" in answered(runner, "-p", "And of Italy?", "--history", talk, "--system", "Be brief.")
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
        (["-f", "bad.toml"], "bad.toml: not TOML: Invalid value (at line 1, column 12)."),
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
    arguments: list[str], message: str, in_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_of_main("chat", "-p", "Hi", *FAST, *arguments) == 2
    assert capsys.readouterr() == ("", f"chatwrap: {message}\n")


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
