"""The house: who may import whom, how long files and functions may be, what lies at the top."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "chatwrap"
MODULES = sorted(PACKAGE.rglob("*.py"))

# Each room with the rooms below it; a module may import from its own room and from these.
GROUND = {"errors", "files"}
ROOMS: dict[str, set[str]] = {
    "errors": set(),
    "files": {"errors"},
    "models": GROUND,
    "chat": GROUND,
    "wrapper": GROUND | {"chat"},
    "grammar": GROUND | {"chat"},
    "output": GROUND | {"chat"},
    "tokens": GROUND | {"chat"},
    "engine": GROUND | {"models", "chat", "wrapper", "grammar", "output", "tokens"},
}
ROOMS["prompts"] = GROUND | {"chat", "wrapper", "grammar", "output", "tokens"}
ROOMS["dotprompt"] = GROUND | {"chat", "wrapper", "grammar", "output", "tokens"}
FOUR_NEIGHBOURS_AND_BELOW = set(ROOMS)
ROOMS["__init__"] = FOUR_NEIGHBOURS_AND_BELOW
ROOMS["cli"] = FOUR_NEIGHBOURS_AND_BELOW | {"__init__"}
# `Grammar.to_llama` hands out llama-cpp-python's own type, imported when it is called.
MAY_NAME_LLAMA_CPP = {"grammar/grammar.py"}

TOP = {
    "pyproject.toml",
    "chatwrap",
    "wrappers",
    "grammars",
    "benchmarks",
    "tests",
    "models.txt",
    "README.md",
    "uv.lock",
    "LICENSE",
}


def room_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, inside functions and for type checking too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield node.module or ""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_from_its_own_room_and_the_floors_below(path: Path) -> None:
    room = room_of(path)
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "chatwrap":
            target = parts[1] if len(parts) > 1 else "__init__"
            assert target == room or target in ROOMS[room], f"{room} imports {name}"
        if parts[0] == "llama_cpp":
            assert room == "engine" or str(path.relative_to(PACKAGE)) in MAY_NAME_LLAMA_CPP


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.body[0].lineno < 60, node.name


def test_nothing_else_lies_at_the_top() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    tops = {line.split("/")[0] for line in listed.stdout.splitlines()}
    assert {top for top in tops if not top.startswith(".")} == TOP


# What may be loaded besides Python's own modules.
BUDGETS: dict[str, set[str]] = {
    "import chatwrap": {"chatwrap"},
    "from chatwrap.cli import main; main()": {
        "chatwrap",
        "typer",
        "annotated_doc",
        "shellingham",
        "colorama",
    },
}


@pytest.mark.parametrize("code", BUDGETS)
def test_a_start_loads_no_more_modules_than_it_needs(code: str) -> None:
    program = "import atexit, sys; sys.argv = ['chatwrap', '--help']; before = set(sys.modules); "
    program += "atexit.register(lambda: print(*(set(sys.modules) - before), file=sys.stderr)); "
    result = subprocess.run(
        [sys.executable, "-c", program + code], capture_output=True, text=True, check=True
    )
    loaded = {name.split(".")[0] for name in result.stderr.split()} - sys.stdlib_module_names
    assert loaded <= BUDGETS[code]


def test_every_public_name_is_there() -> None:
    import chatwrap

    assert [name for name in chatwrap.__all__ if getattr(chatwrap, name, None) is None] == []
    assert sorted(chatwrap.__all__) == sorted(chatwrap._MODULES) == sorted(set(chatwrap.__all__))
    assert set(chatwrap.__all__) < set(dir(chatwrap))
    with pytest.raises(AttributeError) as caught:
        chatwrap.nothing  # noqa: B018
    assert str(caught.value) == "module 'chatwrap' has no attribute 'nothing'"
