"""What a template's variables are bound to: partial values, inputs, defaults, and the reserved names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chatwrap.errors import Fault, HistoryError, PromptError
from chatwrap.prompts.compiled import HISTORY_NAME, CompiledMessages, history_values
from chatwrap.prompts.conversation import MessageLike, as_messages
from chatwrap.prompts.messages import Message
from chatwrap.prompts.rendering import value_fault


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """How the variables of some compiled messages get their values.

    Each has the first that there is: `fixed`, the partial value, the input, the `fallback`.
    """

    compiled: CompiledMessages
    title: str
    names: tuple[str, ...]
    fixed: Mapping[str, Any]
    partial: Mapping[str, Any]
    fallback: Mapping[str, Any]

    def bind(
        self, inputs: Mapping[str, Any] | None, chat_history: Sequence[MessageLike] | None
    ) -> tuple[dict[str, Any], list[Message]]:
        """The values of the variables, as far as there are any, and the history."""
        given = self._given(inputs)
        values: dict[str, Any] = {}
        faults: list[Fault] = []
        for name in self.names:
            for source in (self.fixed, self.partial, given, self.fallback):
                if name in source:
                    values[name] = source[name]
                    if fault := value_fault(source[name], name):
                        faults.append(self._placed(fault, name))
                    break
        history = self._history(given, chat_history, faults)
        if faults:
            raise PromptError(faults)
        return values, history

    def with_history(self, values: dict[str, Any], history: Sequence[Message]) -> dict[str, Any]:
        """The values with the history among them, if a text prints it."""
        if not self.compiled.reads_history:
            return values
        printed = history_values(history)
        if fault := value_fault(printed, HISTORY_NAME):
            raise PromptError([self._placed(fault, HISTORY_NAME)])
        return {**values, HISTORY_NAME: printed}

    def _given(self, inputs: Any) -> Mapping[str, Any]:
        if isinstance(inputs, Mapping | None):
            return inputs or {}
        kind = type(inputs).__name__
        raise PromptError.of(self.title, f"the inputs are a {kind}.", "Pass a dict of values by name.")

    def _history(self, given: Mapping[str, Any], history: Any, faults: list[Fault]) -> list[Message]:
        if not (self.compiled.has_placeholder or self.compiled.reads_history):
            return []
        for source in (self.partial, given):
            if HISTORY_NAME in source:
                history = source[HISTORY_NAME]
                break
        if history is None:
            remedy = f"Pass chat_history, or a list of messages as {HISTORY_NAME!r}."
            faults.append(Fault(self.title, "the chat history is missing.", remedy))
            return []
        try:
            return as_messages(history, where=f"{self.title}, {HISTORY_NAME}")
        except HistoryError as error:
            faults += error.faults
            return []

    def _placed(self, fault: Fault, name: str) -> Fault:
        where = self.compiled.where_read(name)
        return Fault(f"{where}, variable {fault.where}", fault.problem, fault.remedy)
