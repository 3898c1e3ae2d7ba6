"""The command ``chatwrap``: talk to a model, see a prompt, list formats and models, examine the build."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import Any, Final

from chatwrap.cli.streams import prepare_streams
from chatwrap.errors import ChatwrapError, Fault, ModelError, OptionError

USER_FAULT: Final = 2
RUN_FAULT: Final = 1

_FLAGS: Final = {"n_threads": "--threads", "chat_wrapper": "--format"}


def main() -> None:
    """Runs the program and ends it. A user's mistake is one message on stderr, never a traceback.

    Exit codes: 0; 2 for a mistake of the user's; 1 if the model can't be loaded or run, or the output
    can't be written; 130 for an answer that Ctrl-C ended.
    """
    _die_of_interrupts()
    prepare_streams()
    from chatwrap.cli.commands import UsageError, app

    try:
        try:
            code = app(prog_name="chatwrap", standalone_mode=False) or 0
        finally:
            sys.stdout.flush()
        sys.exit(code)
    except UsageError as error:
        _fail(_usage_message(error), USER_FAULT)
    except ModelError as error:
        _fail(str(error), RUN_FAULT)
    except OptionError as error:
        _fail("\n".join(map(str, map(_in_flags, error.faults))), USER_FAULT)
    except ChatwrapError as error:
        _fail(str(error), USER_FAULT)
    except BrokenPipeError:
        _drop_output()
        sys.exit(RUN_FAULT)
    except OSError as error:
        _drop_output()
        _fail(f"{error.filename or 'output'}: {error.strerror or error}.", RUN_FAULT)


def _die_of_interrupts() -> None:
    """Lets Ctrl-C end the process at once and silently, until a conversation catches it.

    Python's own handler waits for C code to return, and loading a large model takes minutes. Where
    the signal is ignored (``nohup``), it stays so.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _usage_message(error: Any) -> str:
    """What is wrong with a command line, on one line, and where to read on; empty if help was printed."""
    message = " ".join(error.format_message().split())
    command = error.ctx.command_path if error.ctx else "chatwrap"
    ended = message if message.endswith("?") else f"{message.rstrip('.')}."
    return message and f"{ended} `{command} --help` tells more."


def _in_flags(fault: Fault) -> Fault:
    """A fault of an option, by the name that it has on the command line."""
    flag = _FLAGS.get(fault.where, f"--{fault.where.replace('_', '-')}" if fault.where else "")
    return Fault(flag, fault.problem, fault.remedy, fault.excerpt)


def _fail(message: str, code: int) -> None:
    if message:
        sys.stderr.write(f"chatwrap: {message}\n")
    sys.exit(code)


def _drop_output() -> None:
    """Python flushes stdout once more at its end; that must not fail again."""
    with contextlib.suppress(OSError):  # a stdout without a descriptor has nothing to drop
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
