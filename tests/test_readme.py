"""The README's Python blocks run, in order, as one program; its formats load; its commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chatwrap.cli.commands import app
from chatwrap.wrapper.definition import chat_wrapper_names, parse_definition

README = Path(__file__).parent.parent / "README.md"
TEXT = README.read_text(encoding="utf-8")


def blocks(language: str) -> list[tuple[int, str]]:
    """The fenced blocks of a language, each with the number of its first line."""
    found = re.finditer(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    return [(TEXT.count("\n", 0, match.start(1)) + 1, match[1]) for match in found]


def test_the_python_blocks_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    python = blocks("python")
    assert len(python) >= 6
    scope: dict[str, object] = {"__name__": "readme"}
    for line, block in python:
        # Blank lines in front make a traceback name the README's own lines.
        exec(compile("\n" * (line - 1) + block, str(README), "exec", dont_inherit=True), scope)
    assert "The capital of France is Paris." in capsys.readouterr().out
    assert (tmp_path / "talk.json").exists()


def test_the_format_file_loads() -> None:
    (formats,) = [block for _, block in blocks("toml") if "history_template" in block]
    assert parse_definition(formats, path=Path("my-format.toml")).description == "A format of mine."


def test_the_built_in_formats_are_named() -> None:
    (table,) = re.findall(r"^Built in are these formats.*?\n\n(.*?)\n\n", TEXT, re.MULTILINE | re.DOTALL)
    assert tuple(sorted(re.findall(r"`(.*?)`", table))) == chat_wrapper_names()


def test_every_command_is_named() -> None:
    names = {command.name or command.callback.__name__ for command in app.registered_commands}  # type: ignore[union-attr]
    assert set(re.findall(r"\| `chatwrap (\w+)", TEXT)) == names
