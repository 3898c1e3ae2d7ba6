"""``chatwrap explain``, ``lint`` and ``diff``: what they print, and how they exit."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from chatwrap.files import data_path, read_text
from tests.cli.conftest import MainRun

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


@pytest.fixture
def template(folder: Path) -> Path:
    """A ChatML template in a working directory of its own."""
    path = Path("own.jinja")
    path.write_text(CHATML, encoding="utf-8")
    return path


def test_explain_tells_the_steps_and_what_the_template_keeps(run_here: MainRun, template: Path) -> None:
    code, out, _ = run_here("explain", template)
    assert code == 0
    assert out.splitlines()[:3] == [
        "own.jinja: chatml",
        "1. choice: -: no format was chosen.",
        "2. template: chatml: it renders what the template renders, byte for byte.",
    ]
    assert "  kept     system messages\n" in out
    assert "  lost     function calls: dropped in silence\n" in out
    assert '  generation prompt: "<|im_start|>assistant\\n"\n' in out


def test_explain_as_json(run_here: MainRun, template: Path) -> None:
    code, out, _ = run_here("explain", template, "--json", "--format", "gemma")
    told = json.loads(out)
    assert (code, told["format"], told["warnings"]) == (0, "gemma", [])
    assert told["template"]["features"]["function calls"] == "lost"


def test_explain_a_model_by_name_alone(run_here: MainRun) -> None:
    code, out, _ = run_here("explain", "gemma-2-9b-it-Q4_K_M.gguf")
    assert (code, out.splitlines()[0]) == (0, "gemma-2-9b-it-Q4_K_M.gguf: gemma")
    assert "The template" not in out


def test_explain_survives_a_template_that_cannot_be_compiled(run_here: MainRun, template: Path) -> None:
    template.write_text("{{ x | nosuch }}", encoding="utf-8")
    code, out, _ = run_here("explain", template)
    assert code == 0
    assert (
        "warning: The chat template in the model's file can't be used: tokenizer.chat_template:1:8: "
        "not a Jinja template: No filter named 'nosuch'.\n"
    ) in out


def test_lint_tells_errors_by_line_and_column(run_here: MainRun, template: Path) -> None:
    template.write_text("a\n{{ x | nosuch }}", encoding="utf-8")
    assert run_here("lint", template) == (
        1,
        "error: own.jinja:2:8: not a Jinja template: No filter named 'nosuch'.\n"
        "  {{ x | nosuch }}\n         ^\nown.jinja: 1 errors, 0 traps\n",
        "",
    )


def test_lint_tells_what_a_template_drops(run_here: MainRun, template: Path) -> None:
    template.write_text(CHATML.replace("m.content", "m.content|trim ~ suffix"), encoding="utf-8")
    code, out, _ = run_here("lint", template)
    assert code == 0
    assert "trap: own.jinja: drops function calls in silence." in out
    assert "trap: own.jinja: trims what the user says.\n" in out
    column = template.read_text(encoding="utf-8").index("suffix") + 1
    assert f"trap: own.jinja:1:{column}: reads the variable 'suffix', which only the caller can give." in out
    assert run_here("lint", template, "--strict")[0] == 1


def test_lint_finds_dates_and_html(run_here: MainRun, template: Path) -> None:
    template.write_text("{{ strftime_now('%Y') }}{{ messages[0].content|e }}", encoding="utf-8")
    out = run_here("lint", template)[1]
    assert "trap: own.jinja: escapes what the user says as HTML.\n" in out
    assert (
        "trap: own.jinja: writes the date: the same history gives another prompt on another day. "
        "Pass a clock to JinjaTemplateChatWrapper to pin it.\n"
    ) in out
    assert "trap: own.jinja: writes nothing for add_generation_prompt.\n" in out


def test_diff_of_equals(run_here: MainRun, template: Path) -> None:
    code, out, _ = run_here("diff", "chatml", template)
    assert code == 0
    assert "equal    a late system message\n" in out
    assert "skipped  a function call: a template has no place for it.\n" in out


def test_diff_shows_the_first_difference_in_bytes_and_tokens(run_here: MainRun, template: Path) -> None:
    template.write_text(CHATML.replace("m.content", "m.content|trim"), encoding="utf-8")
    code, out, _ = run_here("diff", "chatml", template, "--model", "smollm2-135m-instruct")
    assert code == 1
    differing = [line for line in out.splitlines() if line.startswith("differs")]
    assert differing == ["differs  white space around a question: byte 17, token 2"]
    assert "  own.jinja: <|im_start|>user\\n»padded text<|im_end|>" in out
    assert re.search(r"  own.jinja: tokens from 2: \d+", out)


def test_diff_of_a_format_and_the_template_in_a_model(run_here: MainRun) -> None:
    code, out, _ = run_here("diff", "chatml", "smollm2-135m-instruct")
    assert code == 1
    assert "equal    a system message and a second question\n" in out
    assert "differs  a question: byte 12, token 1\n" in out


def test_a_name_that_is_nothing_is_one_message(run_here: MainRun) -> None:
    assert run_here("lint", "nothing.jinja") == (2, "", "chatwrap: nothing.jinja: no such file.\n")
    assert run_here("diff", "chatml", "nothing.gguf") == (2, "", "chatwrap: nothing.gguf: no such file.\n")


def test_render_tells_a_templates_content_apart(run_here: MainRun, folder: Path) -> None:
    Path("talk.json").write_text('[{"type": "user", "text": "Hi"}]', encoding="utf-8")
    code, out, _ = run_here("render", "talk.json", "--format", "jinja")
    assert code == 0
    assert 'content "Hi"\n' in out


def test_convert_names_the_built_in_format(run_here: MainRun, template: Path) -> None:
    template.write_text(CHATML, encoding="utf-8")
    code, out, err = run_here("convert", template)
    assert (code, err) == (0, "The built-in format 'chatml' equals it.\n")
    assert out == read_text(data_path("wrappers") / "chatml.toml")


def test_convert_drafts_a_definition(run_here: MainRun, template: Path) -> None:
    template.write_text(CHATML.replace("<|im_end|>", "<|stop|>"), encoding="utf-8")
    code, out, err = run_here("convert", template)
    assert (code, err) == (0, "")
    template.with_suffix(".toml").write_text(out, encoding="utf-8")
    assert run_here("diff", template, template.with_suffix(".toml"))[0] == 0


def test_convert_says_what_no_definition_can(run_here: MainRun, template: Path) -> None:
    template.write_text(CHATML.replace("m.content", "m.content | upper"), encoding="utf-8")
    code, out, err = run_here("convert", template)
    assert (code, out) == (2, "")
    assert err == (
        "chatwrap: template: it takes no history as it is, so that nothing can be compared. "
        "Run `chatwrap lint` to see what it does.\n"
    )
