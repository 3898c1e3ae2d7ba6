"""``chatwrap render``: what goes in, what comes out, and each mistake that a user can make."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import chatwrap
from chatwrap.engine.vocabulary import Vocabulary

from .conftest import MainRun
from .program import PROGRAM, Terminal, run

HISTORY = [{"type": "user", "text": "a<|im_end|>b 😀"}]
SPANS = """\
special "<|im_start|>"
control "user\\n"
content "a<|im_end|>b 😀"
special "<|im_end|>"
control "\\n"
special "<|im_start|>"
control "assistant\\n"
stop: special "EOS" | content "<|im_end|>\\n" | control "<|im_end|>\\n"
"""
WITHOUT_VOCABULARY = """\
control "<|im_start|>user\\n"
content "a<|im_end|>b 😀"
control "<|im_end|>\\n<|im_start|>assistant\\n"
stop: special "EOS" | content "<|im_end|>\\n" | control "<|im_end|>\\n"
"""
TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": {}}}


@pytest.fixture
def history(folder: Path) -> Path:
    return written(folder, "history.json", HISTORY)


def written(folder: Path, name: str, value: object) -> Path:
    file = folder / name
    file.write_text(json.dumps(value), encoding="utf-8")
    return Path(name)


def test_control_text_special_tokens_and_content_are_told_apart(run_here: MainRun, history: Path) -> None:
    assert run_here("render", history) == (0, SPANS, "")


def test_a_named_format_needs_no_model_and_no_engine(history: Path) -> None:
    engine_left_out = "import sys; sys.modules['llama_cpp'] = sys.modules['numpy'] = None"
    program = (sys.executable, "-c", f"{engine_left_out}; from chatwrap.cli import main; main()")
    assert run("render", history, "--format", "chatml", program=program) == (0, WITHOUT_VOCABULARY, "")


def test_token_ids_are_those_of_encode(run_here: MainRun, history: Path, smollm: Vocabulary) -> None:
    wrapper = chatwrap.load_chat_wrapper("chatml")
    text = wrapper.generate_context_state(HISTORY).context_text
    ids = chatwrap.encode(text, smollm, control_texts=wrapper.control_texts)
    code, out, err = run_here("render", history, "--tokens", "--json")
    assert (code, err) == (0, "")
    value = json.loads(out)
    assert value["token_ids"] == ids
    assert value["prompt"] == str(text) == "".join(span["text"] for span in value["spans"])
    assert value["format"] == "chatml" and value["changes"] == []
    assert [chatwrap.LlamaText.from_json(trigger) for trigger in value["stop"]] == list(
        wrapper.generate_context_state(HISTORY).stop_generation_triggers
    )
    code, out, err = run_here("render", history, "--tokens")
    assert (code, err) == (0, "")
    assert f"\n{len(ids)} tokens: {' '.join(map(str, ids))}\n" in out
    assert out.splitlines()[8:10] == ['       1 "<|im_start|>"', '    4093 "user"']


def test_openai_messages_and_requests_are_recognised(run_here: MainRun, folder: Path) -> None:
    messages = [{"role": "user", "content": HISTORY[0]["text"]}]
    assert run_here("render", written(folder, "messages.json", messages)) == (0, SPANS, "")
    assert run_here("render", written(folder, "own.json", {"messages": HISTORY})) == (0, SPANS, "")
    request = written(folder, "request.json", {"model": "any", "messages": messages, "tools": [TOOL]})
    code, out, err = run_here("render", request)
    assert (code, err) == (0, "")
    assert "// The weather.\\nfunction weather(" in out


def test_functions_come_in_three_forms(run_here: MainRun, folder: Path, history: Path) -> None:
    forms = {
        "own": {"weather": {"description": "The weather."}},
        "tools": [TOOL],
        "request": {"tools": [TOOL]},
    }
    for name, value in forms.items():
        code, out, err = run_here("render", history, "--functions", written(folder, f"{name}.json", value))
        assert (code, err) == (0, "")
        assert "// The weather.\\nfunction weather(" in out


def test_stdin_is_read(history: Path) -> None:
    given = json.dumps(HISTORY).encode()
    assert run("render", "-f", "chatml", given=given) == run("render", "-", "-f", "chatml", given=given)
    assert run("render", "-f", "chatml", given=given) == (0, WITHOUT_VOCABULARY, "")


def test_a_terminal_shows_colours(history: Path) -> None:
    with Terminal("render", history, NO_COLOR="") as terminal:
        assert terminal.ended() == 0
    assert terminal.shown == (
        "\x1b[1;35m<|im_start|>\x1b[0m\x1b[36muser\x1b[0m\na<|im_end|>b 😀\x1b[1;35m<|im_end|>\x1b[0m\n"
        "\x1b[1;35m<|im_start|>\x1b[0m\x1b[36massistant\x1b[0m\n\n"
        "-- \x1b[36mcontrol  \x1b[0m\x1b[1;35mspecial  \x1b[0mcontent  \n"
        'stop: special "EOS" | content "<|im_end|>\\n" | control "<|im_end|>\\n"\n'
    )


def test_without_colours_the_kinds_are_named(history: Path) -> None:
    for arguments, changes in (
        ([], {"NO_COLOR": "1"}),
        ([], {"TERM": "dumb"}),
        (["--plain"], {"NO_COLOR": ""}),
    ):
        with Terminal("render", history, *arguments, **changes) as terminal:
            assert terminal.ended() == 0
        assert terminal.shown == SPANS


def test_content_cannot_pose_as_colours(folder: Path) -> None:
    file = written(folder, "sly.json", [{"type": "user", "text": "\x1b[1;35m<|im_end|>\x1b[0m\x9b2J\r"}])
    with Terminal("render", file, "-f", "chatml") as terminal:
        assert terminal.ended() == 0
    assert "\\x1b[1;35m<|im_end|>\\x1b[0m\\x9b2J\\x0d" in terminal.shown


def test_a_lone_surrogate_is_shown_but_not_encoded(run_here: MainRun, folder: Path) -> None:
    (folder / "half.json").write_text('[{"type": "user", "text": "\\ud800"}]', encoding="utf-8")
    for arguments in ((), ("--json",)):
        code, out, err = run("render", "half.json", "-f", "chatml", *arguments)
        assert (code, err) == (0, "")
        assert '"\\ud800' in out or "\\ud800<|im_end|>" in out
    assert json.loads(out)["spans"][1] == {"kind": "content", "text": "\ud800"}
    assert run_here("render", "half.json", "--tokens") == (
        2,
        "",
        "chatwrap: text[5]: lone surrogate U+D800 after 'user\\n'. "
        "Replace it, for example with text.encode('utf-8', 'replace').decode().\n",
    )


def test_json_stays_json_on_an_ascii_terminal(history: Path) -> None:
    code, out, err = run("render", history, "-f", "chatml", "--json", PYTHONIOENCODING="ascii")
    assert (code, err) == (0, "") and out.isascii()
    assert json.loads(out)["spans"][1]["text"] == HISTORY[0]["text"]
    code, out, err = run("render", history, "-f", "chatml", PYTHONIOENCODING="ascii")
    assert (code, err) == (0, "")
    assert out == WITHOUT_VOCABULARY.replace("😀", "\\ud83d\\ude00")


def test_an_empty_history_is_the_generation_prompt(run_here: MainRun, folder: Path) -> None:
    code, out, err = run_here("render", written(folder, "none.json", []), "-f", "chatml")
    assert (code, err, out.splitlines()[0]) == (0, "", 'control "<|im_start|>assistant\\n"')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[\n {"type": "user", text: "Hi"}\n]',
            "given.json:2:19: not JSON: Expecting property name enclosed in double quotes.\n"
            '   {"type": "user", text: "Hi"}\n'
            "                    ^",
        ),
        ("", "given.json: empty. Give it a JSON text."),
        (" \n", "given.json: empty. Give it a JSON text."),
        ("[" * 100_000, "given.json: JSON nested too deep to read. Flatten it."),
        ("1" * 5000, "given.json: a number in it has too many digits to read. Shorten it."),
        (
            '"Hi"',
            "given.json: a str, not a list of messages. Put it in a list, or read it with json.loads first.",
        ),
        (
            '{"messages": "[]"}',
            "given.json.messages: a str, not a list of messages. "
            "Put it in a list, or read it with json.loads first.",
        ),
        ('{"type": "user"}', "given.json: a dict, not a list of messages. Put it in a list."),
        ('{"messages": 3}', "given.json.messages: a int, not a list of messages. Put it in a list."),
        ('[{"type": "user"}]', "given.json[0].text: missing."),
        ("[1]", "given.json[0]: must be an object, not 1. Its type is 'system', 'user' or 'model'."),
        (
            '[{"role": "usr", "content": "Hi"}]',
            "given.json[0].role: no role 'usr'. "
            "Known are system, developer, user, assistant, tool, function.",
        ),
        (
            '{"messages": [{"type": "user", "text": "Hi"}], "tools": [3]}',
            "given.json.tools[0]: not a function: 3. Give it a function's name.",
        ),
    ],
)
def test_what_is_no_history_is_refused(text: str, message: str, folder: Path, run_here: MainRun) -> None:
    (folder / "given.json").write_text(text, encoding="utf-8")
    assert run_here("render", "given.json") == (2, "", f"chatwrap: {message}\n")


def test_what_is_no_text_is_refused(folder: Path, history: Path, run_here: MainRun) -> None:
    (folder / "latin.json").write_bytes('["\xe9"]'.encode("latin-1"))
    for arguments, message in (
        (["latin.json"], "latin.json: byte 2 is 0xe9, which isn't UTF-8. Save it as UTF-8."),
        (["no.json"], "no.json: no such file."),
        ([folder], f"{folder}: is a directory. Name a file in it."),
        ([history, "--functions", "no.json"], "no.json: no such file."),
        ([history, "--model", "no"], "No model named 'no'. `chatwrap models` lists all."),
        ([history, "-m", ""], "No model named ''. `chatwrap models` lists all."),
        ([history, "-f", "no.toml"], "no.toml: no such file."),
    ):
        assert run_here("render", *arguments) == (2, "", f"chatwrap: {message}\n")


def test_functions_named_twice_are_refused(folder: Path, run_here: MainRun) -> None:
    request = written(folder, "request.json", {"messages": HISTORY, "tools": [TOOL]})
    message = "chatwrap: --functions: given, but request.json has functions, too. Give one of them.\n"
    assert run_here("render", request, "--functions", request) == (2, "", message)


def test_stdin_may_be_empty_or_closed(folder: Path) -> None:
    empty = (2, "", "chatwrap: stdin: empty. Give it a JSON text.\n")
    assert run("render", "-") == empty
    closed = ("sh", "-c", 'exec "$@" <&-', "sh", *PROGRAM)
    assert run("render", "-", program=closed) == empty
    assert run("render", given=b"\xff")[1:] == (
        "",
        "chatwrap: stdin: byte 0 is 0xff, which isn't UTF-8. Save it as UTF-8.\n",
    )
