"""``run``, ``render`` and ``lint`` with .prompt files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import MainRun
from .program import Terminal

GREET = """---
model: smollm2-135m-instruct
config: {temperature: 0, maxOutputTokens: 12}
input:
  default: {name: Guest}
  schema: {name: string, n?: integer}
---
{{role "system"}}Be {{> tone}}.
{{role "user"}}Greet {{name}}{{#if n}} {{n}} times{{/if}}."""
FAST = ("--threads", "1", "--n-ctx", "512")


@pytest.fixture
def greet(folder: Path) -> str:
    return written(folder, "greet.prompt", GREET, **{"_tone.prompt": "kind"})


def written(folder: Path, name: str, text: str, **others: str) -> str:
    for file, content in {name: text, **others}.items():
        (folder / file).write_text(content, encoding="utf-8")
    return name


def test_render_shows_messages_and_prompt(run_here: MainRun, greet: str) -> None:
    told = """\
system: {"text": "Be kind.\\n"}
user: {"text": "Greet Ada 3 times."}
special "<|im_start|>"
control "system\\n"
content "Be kind.\\n"
special "<|im_end|>"
control "\\n"
special "<|im_start|>"
control "user\\n"
content "Greet Ada 3 times."
special "<|im_end|>"
control "\\n"
special "<|im_start|>"
control "assistant\\n"
stop: special "EOS" | content "<|im_end|>\\n" | control "<|im_end|>\\n"
"""
    assert run_here("render", greet, "name=Ada", "n=3") == (0, told, "")
    assert run_here("render", greet, "name=Ada", "n=3", "--model", "smollm2-135m-instruct") == (0, told, "")


def test_variables_from_a_file_and_from_the_command_line(run_here: MainRun, greet: str, folder: Path) -> None:
    written(folder, "input.json", '{"name": "File", "n": 2}')
    code, out, err = run_here("render", greet, "--input", "input.json", "name=żółw=x", "--json")
    assert (code, err) == (0, "")
    assert "Greet żółw=x 2 times." in json.loads(out)["prompt"]


def test_run_answers(run_here: MainRun, greet: str, folder: Path) -> None:
    code, out, err = run_here("run", greet, "name=Ada", *FAST)
    assert (code, err) == (0, "") and len(out) > 5
    written(folder, "input.json", '{"name": "Ada"}')
    assert run_here("run", greet, "--json", "input.json", *FAST) == (0, out, "")


def test_run_answers_in_json(run_here: MainRun, folder: Path) -> None:
    source = "---\nconfig: {temperature: 0}\noutput: {schema: {ok: boolean}}\n---\nAll well?"
    code, out, err = run_here("run", written(folder, "a.prompt", source), *FAST)
    assert (code, err) == (0, "") and list(json.loads(out)) == ["ok"]


def test_what_a_terminal_would_obey_is_shown(folder: Path) -> None:
    source = "---\nconfig: {temperature: 0, maxOutputTokens: 3}\n---\nHi {{x}}"
    with Terminal(
        "render", folder / written(folder, "a.prompt", source), "x=\x1b[31m", NO_COLOR="1"
    ) as terminal:
        assert "\x1b[31m" not in terminal.until("stop:")


TOOLS = '''
import json

def clock(city: str) -> str:
    """The time of day."""
    return "noon"

def _own() -> None:
    pass
'''


def test_tools_from_a_python_file(run_here: MainRun, folder: Path) -> None:
    source = "---\ntools: [clock]\nconfig: {temperature: 0, maxOutputTokens: 8}\n---\nTime in {{city}}?"
    file = written(folder, "t.prompt", source, **{"tools.py": TOOLS, "bad.py": "1/0"})
    code, out, err = run_here("render", file, "city=Rome", "--tools", "tools.py", "--format", "chatml")
    assert (code, err) == (0, "") and "The time of day." in out
    assert run_here("run", file, "city=Rome", "--tools", "tools.py", *FAST)[0] == 0
    for options, message in (
        ((), "tools: no tool 'clock'. Register it: tools=[...], or --tools FILE.py."),
        (("--tools", "gone.py"), "gone.py: no such file."),
        (("--tools", "bad.py"), "bad.py: can't be run: ZeroDivisionError: division by zero."),
    ):
        assert run_here("run", file, "city=Rome", *options, *FAST) == (2, "", f"chatwrap: {message}\n")


@pytest.mark.parametrize(
    ("source", "arguments", "message"),
    [
        ("{{x", (), "a.prompt:1:1: a tag that isn't closed. Close it with }}.\n  {{x\n  ^"),
        ("---\na: [\n---\n", (), "a.prompt:2:5: not YAML: "),
        ("Hi", ("name",), "'name' is no variable. Write name=value."),
        ("Hi", ("=x",), "'=x' is no variable. Write name=value."),
        (
            "---\ninput: {schema: {n: integer}}\n---\nHi",
            ("n=x",),
            "n:1:1: not JSON: Expecting value.\n  x\n  ^",
        ),
        ("---\ninput: {schema: {n: integer}}\n---\nHi", ("n=1.5",), "input.n: 1.5 is not of type 'integer'."),
        ("---\ninput: {schema: {n: integer}}\n---\nHi", (), "input: 'n' is a required property."),
        ("---\nmodel: no-such\n---\nHi", (), "No model named 'no-such'."),
        ("---\nconfig: {topZ: 1}\n---\nHi", (), "No sampling option named 'top_z'. Did you mean 'top_p'?"),
        (
            "---\nconfig: {temperature: hot}\n---\nHi",
            (),
            "config.temperature: must be a number from 0 to 3.4e+38, not 'hot'.",
        ),
        ("Hi", ("--json", "gone.json"), "gone.json: no such file."),
        ("Hi", ("--json", "list.json"), "--json: list.json holds a list. Give an object of variables."),
    ],
)
def test_mistakes(
    run_here: MainRun, folder: Path, source: str, arguments: tuple[str, ...], message: str
) -> None:
    written(folder, "a.prompt", source, **{"list.json": "[1]"})
    code, out, err = run_here("run", "a.prompt", *arguments, *FAST)
    assert (code, out.strip()) == (2, "")
    assert err.startswith(f"chatwrap: {message}")


def test_no_file(run_here: MainRun) -> None:
    for command in ("run", "render", "lint"):
        assert run_here(command, "gone.prompt") == (2, "", "chatwrap: gone.prompt: no such file.\n")
    assert run_here("render", "gone.json", "name=Ada") == (
        2,
        "",
        "chatwrap: variables, but gone.json isn't a .prompt file. Leave them out.\n",
    )


LINTED = """---
modle: x
input:
  default: {n: a}
  schema: {n: integer}
output: {format: xml}
---
{{> tone}}{{> gone}}{{#*inline "own"}}{{/inline}}{{> own}}{{#> maybe}}{{/maybe}}"""
FINDINGS = """\
error: a.prompt:8:11: no partial 'gone'. Put it into the folder as a file.
  {{> tone}}{{> gone}}{{#*inline "own"}}{{/inline}}{{> own}}{{#> maybe}}{{/maybe}}
            ^
trap: a.prompt:2:1: 'modle' is no field, and ignored. Did you mean 'model'?
  modle: x
  ^
trap: a.prompt:6:10: the format 'xml' can't be run. Use json or text.
  output: {format: xml}
           ^
trap: a.prompt:4:3: input.default.n: 'a' is not of type 'integer'.
    default: {n: a}
    ^
a.prompt: 1 errors, 3 traps
"""


def test_lint(run_here: MainRun, folder: Path, greet: str) -> None:
    assert run_here("lint", greet) == (0, "greet.prompt: 0 errors, 0 traps\n", "")
    file = written(folder, "a.prompt", LINTED)
    assert run_here("lint", file) == (1, FINDINGS, "")
    written(folder, "a.prompt", "---\nother: 1\n---\nHi")
    told = "trap: a.prompt:2:1: 'other' is no field, and ignored. Put it under metadata.\n  other: 1\n  ^\n"
    assert run_here("lint", file) == (0, told + "a.prompt: 0 errors, 1 traps\n", "")
    assert run_here("lint", file, "--strict")[0] == 1
    written(folder, "a.prompt", "---\noutput: {schema: strin}\ntools: [a]\n---\n{{#if}}")
    code, out, _ = run_here("lint", file)
    assert (code, out.count("error: ")) == (1, 2)


def test_lint_tells_where_a_partial_is_named(run_here: MainRun, folder: Path) -> None:
    file = written(folder, "a.prompt", "Hi\n{{> ../x}} {{> bad}}", **{"_bad.prompt": "one\n{{#if}}"})
    code, out, _ = run_here("lint", file)
    told = """\
error: a.prompt:2:1: partial '../x': name: '../x' has an empty segment, or one of dots alone. \
Use letters, digits, - _ . and /.
  {{> ../x}} {{> bad}}
  ^
error: _bad.prompt:2:"""
    assert (code, out.startswith(told)) == (1, True)
    assert out.endswith("a.prompt: 2 errors, 0 traps\n")


CONFIG = """---
config:
  temperatur: 1
  topK: x
  maxOutputToken: 3
  stopSequences: [1]
  toolChoice: auto
  weather: mild
  version: v1
  topP: 0.5
---
Hi"""
CONFIG_FINDINGS = """\
error: a.prompt:3:3: config.temperatur: no sampling option. Did you mean 'temperature'?
    temperatur: 1
    ^
error: a.prompt:4:3: config.topK: must be a whole number from -1 to 2147483647, not 'x'.
    topK: x
    ^
error: a.prompt:5:3: config.maxOutputToken: no sampling option. Did you mean 'maxOutputTokens'?
    maxOutputToken: 3
    ^
error: a.prompt:6:3: config.stopSequences: must be a string or a list of strings, not [1].
    stopSequences: [1]
    ^
error: a.prompt:7:3: config.toolChoice: no sampling option. Remove it.
    toolChoice: auto
    ^
error: a.prompt:8:3: config.weather: no sampling option. Remove it.
    weather: mild
    ^
a.prompt: 6 errors, 0 traps
"""


def test_lint_names_what_a_model_refuses_of_config(run_here: MainRun, folder: Path) -> None:
    assert run_here("lint", written(folder, "a.prompt", CONFIG)) == (1, CONFIG_FINDINGS, "")
    file = written(folder, "a.prompt", "---\nconfig: {toolChoice: auto}\n---\nHi")
    told = "chatwrap: config.toolChoice: no sampling option. Remove it.\n"
    code, out, err = run_here("run", file, *FAST)
    assert (code, out.strip(), err) == (2, "", told)
