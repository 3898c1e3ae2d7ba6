from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chatwrap.cli import main

MainRun = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[MainRun]:
    """Runs the program in this process: exit code, stdout, stderr. Cheap, but without real streams."""
    handler = signal.getsignal(signal.SIGINT)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr("typer.rich_utils.FORCE_TERMINAL", None)

    def run_main(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["chatwrap", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        code = exit_.value.code
        assert isinstance(code, int)
        return code, *capsys.readouterr()

    yield run_main
    signal.signal(signal.SIGINT, handler)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
