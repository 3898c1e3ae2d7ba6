"""One function call while it is read: its name, and its arguments as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from chatwrap.chat.functions import ChatModelFunctions
from chatwrap.chat.history import ChatModelFunctionCall
from chatwrap.output.writer import EventWriter


@dataclass(slots=True)
class Call:
    """Holds arguments back until the name is known, then hands them on as they come.

    `functions` are those that may be called, None if any may. `repairs` and `missing` collect what is told
    before the end: what wasn't as the notation has it, and the marks that weren't there. `is_object` tells
    that name and arguments stand in a JSON object.
    """

    writer: EventWriter
    index: int
    functions: ChatModelFunctions | None
    name: str = ""
    call_id: str | None = None
    is_started: bool = False
    is_object: bool = False
    pieces: list[str] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def is_known(self) -> bool:
        return self.functions is None or self.name in self.functions

    @property
    def parameters(self) -> dict[str, Any] | None:
        """The schema of the function's parameters, None if there is none."""
        function = (self.functions or {}).get(self.name)
        return function.parameters if function else None

    def set_name(self, name: str) -> None:
        """Sets the name; where only a part of what is written names a function, that part is the name."""
        name = name.strip().strip("\"'`")
        for part in (name, name.partition(":")[0], name.rpartition(".")[2], _middle(name)):
            if self.functions and part in self.functions:
                name = part
                break
        self.name = name

    def put(self, text: str) -> None:
        """A piece of the arguments' JSON."""
        self.pieces.append(text)
        if self.is_started:
            self.writer.arguments(self.index, text)
        elif self.name:
            self.start()

    def start(self) -> None:
        """Tells that the call begins, with what there is of its arguments."""
        if not self.is_known:
            self.writer.diagnose("unknown_function", f"There is no function {self.name!r} to call.")
        self.writer.start_call(self.index, self.name, self.call_id)
        self.is_started = True
        if self.pieces:
            self.writer.arguments(self.index, "".join(self.pieces))

    def end(self) -> None:
        """Tells that the call is complete."""
        if not self.is_started:
            self.start()
        if self.repairs:
            problems = "; ".join(dict.fromkeys(self.repairs))
            self.writer.diagnose(
                "repaired_arguments", f"The arguments of {self.name!r} had to be repaired: {problems}."
            )
        self.tell_missing()
        given: dict[str, Any] = {"arguments": json.loads("".join(self.pieces))} if self.pieces else {}
        self.writer.end_call(self.index, ChatModelFunctionCall(name=self.name, **given))

    def tell_missing(self) -> None:
        for word in self.missing:
            self.writer.diagnose("missing_mark", f"{word!r} is missing in the call of {self.name!r}.")

    def cut(self) -> None:
        """Tells that the answer ended in the middle of the call."""
        which = f"the call of {self.name!r}" if self.name else "a call"
        self.writer.diagnose("cut_call", f"The answer ends in the middle of {which}.", takes_raw=True)


def _middle(name: str) -> str:
    return name.partition(":")[0].rpartition(".")[2]
