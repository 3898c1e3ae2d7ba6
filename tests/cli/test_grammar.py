"""``chatwrap grammar`` and ``chatwrap chat --json-schema``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chatwrap.grammar.grammar import Grammar

from .conftest import MainRun
from .program import FAST, run

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 5, "maximum": 7}},
    "required": ["n"],
}
LOOKAHEAD = {"type": "string", "pattern": "(?=a)b"}
TOOLS = [{"type": "function", "function": {"name": "now", "parameters": SCHEMA}}]


def saved(folder: Path, name: str, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    (folder / name).write_text(text, encoding="utf-8")
    return name


def test_a_schema_is_printed_as_a_grammar(run_here: MainRun, folder: Path) -> None:
    file = saved(folder, "s.json", SCHEMA)
    code, out, err = run_here("grammar", file)
    assert (code, err) == (0, "")
    assert Grammar.from_gbnf(out).accepts('{"n": 6, "more": 1}')
    assert not Grammar.from_gbnf(run_here("grammar", file, "--closed")[1]).accepts('{"n": 6, "more": 1}')


def test_the_report_stands_in_front_as_comments(run_here: MainRun, folder: Path) -> None:
    out = run_here("grammar", saved(folder, "s.json", SCHEMA), "--report")[1]
    assert out.startswith("# $.properties: enforced\n")
    assert Grammar.from_gbnf(out).accepts('{"n": 7}')


def test_what_is_left_open_is_always_told(run_here: MainRun, folder: Path) -> None:
    file = saved(folder, "s.json", LOOKAHEAD)
    code, out, err = run_here("grammar", file)
    assert (code, out) == (2, "") and err.startswith("chatwrap: $.pattern: ") and "relax" in err
    code, out, err = run_here("grammar", file, "--unsupported", "relax")
    assert (code, err) == (0, "") and out.startswith("# $.pattern: unsupported: ")


def test_functions_are_closed_and_written_in_a_format(run_here: MainRun, folder: Path) -> None:
    file = saved(folder, "f.json", TOOLS)
    calls = ["grammar", "--functions", file, "--format", "chatml"]
    assert run_here(*calls, "--accepts", '||call: now({"n": 5})') == (0, "accepted\n", "")
    more = '||call: now({"n": 5, "m": 1})'
    assert run_here(*calls, "--accepts", more)[0] == 2
    assert run_here(*calls, "--accepts", more, "--open")[0] == 0
    written = Grammar.from_gbnf(run_here(*calls)[1])
    assert written.accepts('||call: now({"n": 5})') and not written.accepts(more)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"n": 8}', "accepts:1:7: the grammar refuses '8' here.\n  {\"n\": 8}\n        ^"),
        ('{"n": 7', 'accepts:1:8: the text ends before the grammar is complete.\n  {"n": 7\n         ^'),
    ],
)
def test_a_refused_text_is_shown_where(run_here: MainRun, folder: Path, text: str, told: str) -> None:
    file = saved(folder, "s.json", SCHEMA)
    assert run_here("grammar", file, "--accepts", text) == (2, "", f"chatwrap: {told}\n")


def test_a_file_of_gbnf_is_checked(run_here: MainRun, folder: Path) -> None:
    good, bad = saved(folder, "a.gbnf", 'root ::= "a" b\nb ::= "b"'), saved(folder, "b.gbnf", "root ::= root")
    assert run_here("grammar", "check", good) == (0, "a.gbnf: rules: 2, safe to run.\n", "")
    assert run_here("grammar", "check", good, "--accepts", "ab") == (0, "accepted\n", "")
    code, out, err = run_here("grammar", "check", bad)
    assert (code, out) == (2, "")
    assert err.startswith("chatwrap: b.gbnf:1:1: root: it can never match")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "A JSON Schema file is missing. `chatwrap grammar -h` shows the ways."),
        (["check"], "A GBNF file is missing. `chatwrap grammar -h` shows the ways."),
        (["s.json", "t.json"], "'t.json' given together with a schema. Give one of them."),
        (["none.json"], "none.json: no such file."),
        (["s.json", "--format", "chatml"], "--format: given without --functions. Add them."),
        (["s.json", "--functions", "f.json"], "'s.json' given together with --functions. Give one of them."),
        (
            ["--functions", "f.json"],
            "--format: missing: which format writes the calls? `chatwrap wrappers` lists them.",
        ),
        (
            ["--functions", "f.json", "--format", "chatml", "--name", "nw"],
            "No function named 'nw'. Did you mean 'now'? The functions given lists all.",
        ),
    ],
)
def test_mistakes(run_here: MainRun, folder: Path, arguments: list[str], message: str) -> None:
    saved(folder, "s.json", SCHEMA), saved(folder, "f.json", TOOLS)
    assert run_here("grammar", *arguments) == (2, "", f"chatwrap: {message}\n")


def test_a_pipe_is_read() -> None:
    code, out, err = run("grammar", "-", "--accepts", "6", given=b'{"const": 6}')
    assert (code, out, err) == (0, "accepted\n", "")
    code, out, err = run("grammar", "-", given=b'{"const": ')
    assert (code, out) == (2, "") and err.startswith("chatwrap: stdin:1:11: not JSON: ")


def test_a_chat_answers_with_json(run_here: MainRun, folder: Path) -> None:
    asked = ["chat", *FAST, "-p", "A number.", "--json-schema", saved(folder, "s.json", SCHEMA)]
    code, out, err = run_here(*asked)
    assert (code, err) == (0, "") and json.loads(out)["n"] in (5, 6, 7)
    code, out, err = run_here(*asked, "--max-tokens", "2")
    assert code == 2 and err.startswith(
        "chatwrap: answer: it was cut after 2 tokens, before it was complete."
    )


def test_a_chat_refuses_a_schema_before_it_loads_a_model(run_here: MainRun, folder: Path) -> None:
    file = saved(folder, "s.json", LOOKAHEAD)
    code, out, err = run_here("chat", "no-model.gguf", "-p", "Hi", "--json-schema", file)
    assert (code, out) == (2, "") and err.startswith("chatwrap: $.pattern: ")
