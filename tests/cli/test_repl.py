"""The conversation in the terminal, with a real model, and with a pipe in a person's place."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

from .program import CTRL_C, CTRL_D, FAST, PROGRAM, Terminal, environment, run

CAPITAL = "What is the capital of France?"
ANSWER = "The capital of France is Paris."
GREETING = (
    "Smollm2 135M 8k Lc100K Mix1 Ep2, format chatml, 256 tokens. /help lists commands, Ctrl-D leaves.\n"
)
PROMPT = f"""\
special "<|im_start|>"
control "system\\n"
content "Be brief."
special "<|im_end|>"
control "\\n"
special "<|im_start|>"
control "user\\n"
content "{CAPITAL}"
special "<|im_end|>"
control "\\n"
special "<|im_start|>"
control "assistant\\n"
content "{ANSWER}"
special "<|im_end|>"
control "\\n"
special "<|im_start|>"
control "user\\n"
content "..."
special "<|im_end|>"
control "\\n"
special "<|im_start|>"
control "assistant\\n"
"""
ALPACA = f"""\
content "Be brief."
control "\\n\\n### Instruction:\\n"
content "{CAPITAL}"
control "\\n\\n### Response:\\n"
content "{ANSWER}"
control "\\n\\n### Instruction:\\n"
content "..."
control "\\n\\n### Response:\\n"
"""
HELP = """\
/help     this list
/exit     leave (Ctrl-D does too)
/reset    forget the conversation
/history  show the conversation
/prompt   show the prompt that the model would get now
/system   TEXT: set the system message; without a text, remove it
/format   NAME or FILE: go on in another chat format
/save     FILE: save the conversation
/load     FILE: go on from a saved conversation
Ctrl-C    stop the answer
"""


def asked(terminal: Terminal, line: str) -> str:
    """What the program shows after a line, without the line itself and the next prompt."""
    terminal.type(f"{line}\n")
    terminal.until(f"{line}\n")
    return terminal.until("> ").removesuffix("> ")


def test_a_conversation_in_a_terminal(tmp_path: Path, smollm_path: Path) -> None:
    saved = tmp_path / "talk.json"
    with Terminal("chat", smollm_path, *FAST, TERM="dumb") as terminal:
        assert terminal.until("> ") == f"{GREETING}> "
        assert asked(terminal, "/help") == HELP
        assert asked(terminal, "/hlep") == "chatwrap: No command /hlep. /help lists all.\n"
        assert asked(terminal, CAPITAL) == f"{ANSWER}\n"
        assert asked(terminal, f"/save {saved}") == ""
        assert asked(terminal, "/save") == "chatwrap: no file named. Write, for example: /save talk.json\n"
        assert asked(terminal, "/reset") == asked(terminal, "/history") == ""
        assert asked(terminal, "/load no.json") == "chatwrap: no.json: no such file.\n"
        assert "Could not determine home" in asked(terminal, "/load ~nobody-here/talk.json")
        assert asked(terminal, f"/load {saved}") == ""
        assert asked(terminal, "/history") == f"user: {CAPITAL}\nmodel: {ANSWER}\n"
        assert asked(terminal, "/system Be brief.") == ""
        assert asked(terminal, "/prompt") == PROMPT
        assert asked(terminal, "/format alpaca") == ""
        assert asked(terminal, "/prompt") == ALPACA
        assert asked(terminal, "/format chatlm") == (
            "chatwrap: No chat wrapper named 'chatlm'. Did you mean 'chatml'? "
            "`chatwrap wrappers` lists all.\n"
        )
        assert asked(terminal, "/format") == (
            "chatwrap: no format named. Write, for example: /format chatml\n"
        )
        assert asked(terminal, "/system") == ""
        assert "system" not in asked(terminal, "/history")
        terminal.type(CTRL_D)
        assert terminal.ended() == 0
    assert json.loads(saved.read_text(encoding="utf-8")) == [
        {"type": "user", "text": CAPITAL},
        {"type": "model", "response": [ANSWER]},
    ]


def test_ctrl_c_stops_the_answer_and_not_the_program(smollm_path: Path) -> None:
    options = ("--threads", "1", "--n-ctx", "2048", "--temperature", "0")
    with Terminal("chat", smollm_path, *options, TERM="dumb") as terminal:
        terminal.until("> ")
        terminal.type("Write a very long story about the sea.\n")
        terminal.until("sea.\n")
        terminal.until(" ")
        terminal.type(CTRL_C)
        told = terminal.until("\n[stopped]\n> ")
        assert len(told) < 2000
        terminal.type("half a line")
        terminal.until("half a line")
        time.sleep(0.2)  # Python loses a signal that comes just before it waits for a key
        terminal.type(CTRL_C)
        terminal.until("\n> ")
        assert asked(terminal, "/reset") == ""
        assert asked(terminal, CAPITAL) == f"{ANSWER}\n"
        terminal.type("/exit\n")
        assert terminal.ended() == 0


def test_a_terminal_never_obeys_an_answer(tmp_path: Path, smollm_path: Path) -> None:
    talk = tmp_path / "talk.json"
    talk.write_text('[{"type":"user","text":"\\u001b[31mred\\r\\u009b2J"}]', encoding="utf-8")
    with Terminal("chat", smollm_path, *FAST, "--history", talk, TERM="dumb") as terminal:
        terminal.until("> ")
        assert asked(terminal, "/history") == "user: \\x1b[31mred\\x0d\\x9b2J\n"
        assert "\\u001b[31mred\\r\\u009b2J" in asked(terminal, "/prompt")


def test_lines_from_a_pipe_are_answered_without_noise(smollm_path: Path) -> None:
    lines = f"{CAPITAL}\n\n/nonsense\n/reset\n/usr/bin is what? \udcff\n{CAPITAL}"
    code, out, err = run("chat", smollm_path, *FAST, given=lines.encode("utf-8", "surrogateescape"))
    assert (code, out) == (0, f"{ANSWER}\n{ANSWER}\n")
    assert err == (
        "chatwrap: No command /nonsense. /help lists all.\n"
        "chatwrap: text[23]: lone surrogate U+DCFF after 'r\\n/usr/bin is what? '. "
        "Replace it, for example with text.encode('utf-8', 'replace').decode().\n"
    )


def test_ctrl_c_ends_a_program_that_waits_for_a_pipe(smollm_path: Path) -> None:
    command = [*PROGRAM, "chat", str(smollm_path), *FAST]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment({})
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(f"{CAPITAL}\n".encode())
        process.stdin.flush()
        assert process.stdout.readline() == f"{ANSWER}\n".encode()
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == -signal.SIGINT
        assert process.stderr.read() == b""
