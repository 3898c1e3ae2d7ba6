"""Runs the installed program as a user would: in a process of its own, with pipes or a terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_MAIN = "from chatwrap.cli import main; main()"
PROGRAM = (sys.executable, "-c", _MAIN)
_IN_TERMINAL = f"import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); {_MAIN}"
FAST = ("--threads", "1", "--n-ctx", "256", "--temperature", "0")
CTRL_C, CTRL_D = "\x03", "\x04"
_ENVIRONMENT = {"COLUMNS": "100", "TERM": "xterm-256color", "NO_COLOR": "", "LC_ALL": "C.UTF-8"}


def environment(changes: Mapping[str, str]) -> dict[str, str]:
    given = {**os.environ, **_ENVIRONMENT, **changes}
    return {name: value for name, value in given.items() if value or name in changes}


def run(
    *arguments: str | Path,
    given: bytes | None = b"",
    cwd: Path | None = None,
    program: Sequence[str] = PROGRAM,
    **changes: str,
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the program; neither may ever hold a traceback."""
    done = subprocess.run(
        [*program, *map(str, arguments)],
        input=given,
        capture_output=True,
        cwd=cwd,
        env=environment(changes),
        timeout=60,
        check=False,
    )
    out, err = done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode("utf-8", "surrogateescape")
    assert "Traceback" not in out + err, out + err
    return done.returncode, out, err


class Terminal:
    """The program in a terminal: what it shows is awaited, what a person types is sent."""

    def __init__(self, *arguments: str | Path, **changes: str) -> None:
        self._screen, inner = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _IN_TERMINAL, *map(str, arguments)],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env=environment(changes),
            start_new_session=True,
        )
        os.close(inner)
        self.shown = ""
        self._n_read = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, place: TracebackType | None) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._screen)

    def until(self, text: str, timeout_s: float = 30) -> str:
        """What was shown since the last call, up to and with `text`."""
        deadline = time.monotonic() + timeout_s
        while (end := self.shown.find(text, self._n_read)) < 0:
            if time.monotonic() > deadline or not self._read(deadline):
                raise AssertionError(f"{text!r} isn't shown, but {self.shown[self._n_read :]!r}")
        start, self._n_read = self._n_read, end + len(text)
        return self.shown[start : self._n_read]

    def type(self, text: str) -> None:
        """Presses keys: ``\\n`` is Enter, `CTRL_C` and `CTRL_D` are those."""
        os.write(self._screen, text.encode())

    def ended(self, timeout_s: float = 30) -> int:
        """The exit code, once the program has ended; all that it showed is in `shown`."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self._read(deadline):
            pass
        code = self._process.wait(max(0.1, deadline - time.monotonic()))
        assert "Traceback" not in self.shown, self.shown
        return code

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._screen], [], [], max(0, deadline - time.monotonic()))
        try:
            data = os.read(self._screen, 65536) if ready else b""
        except OSError:  # the other end is closed
            return False
        self.shown += data.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(data)
