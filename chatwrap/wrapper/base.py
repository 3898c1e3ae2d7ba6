"""`ChatWrapper`: renders a history as the text a model was trained on. The base of all formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final

from chatwrap.chat.functions import ChatModelFunctions, FunctionsLike, as_functions
from chatwrap.chat.history import (
    ChatHistory,
    ChatHistoryItem,
    ChatModelFunctionCall,
    ChatModelResponse,
    ChatModelSegment,
    ChatSystemMessage,
    ChatUserMessage,
    HistoryLike,
    ResponsePart,
    as_history,
)
from chatwrap.chat.json_text import dump_json
from chatwrap.chat.openai import call_id
from chatwrap.chat.slotted import Slot, SlottedText, as_slotted
from chatwrap.chat.syntax import ChatWrapperSettings, texts_of
from chatwrap.chat.text import LlamaText, LlamaTextInput
from chatwrap.errors import Fault, HistoryError
from chatwrap.wrapper.arguments import written_arguments
from chatwrap.wrapper.document import typescript_signatures
from chatwrap.wrapper.response import ResponseWriter

DEFAULT_SYSTEM_PROMPT: Final = (
    "You are a helpful assistant. Answer what is asked, clearly and truthfully, "
    "and say so when you don't know."
)


class Absent(Enum):
    """Marks arguments or a result that were never given, where null would be a value."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


@dataclass(frozen=True, slots=True)
class ContextState:
    """A rendered conversation: the prompt up to where the model writes, and what ends its turn.

    `changes` tells how the history was adapted to what the format can express. `ignore_start_text` is
    what the format itself writes between the generation prompt and a model message (a space, say): a
    model that was trained on it may begin its answer with it, and it is no part of the answer.
    """

    context_text: LlamaText
    stop_generation_triggers: tuple[LlamaText, ...]
    changes: tuple[str, ...] = ()
    ignore_start_text: str = ""


class ChatWrapper:
    """Renders histories in one chat format. Subclasses override the steps that differ.

    A wrapper holds no state: one may serve many conversations at a time. Histories and functions
    are taken as values or in their JSON form. `DefinitionError` and `HistoryError` are all it raises.
    """

    default_settings: ClassVar[ChatWrapperSettings] = ChatWrapperSettings()

    wrapper_name: str = "Base"
    settings: ChatWrapperSettings = default_settings

    @property
    def control_texts(self) -> frozenset[str]:
        """Every text that this format may write as control text; see `encode`'s `control_texts`."""
        return frozenset(filter(None, map(str, texts_of(self.settings))))

    def generate_context_state(
        self,
        chat_history: HistoryLike,
        available_functions: FunctionsLike | None = None,
        document_function_params: bool = True,  # noqa: FBT001, FBT002 - the peers' signature
    ) -> ContextState:
        """The prompt for the next turn of the model, and the triggers that end it."""
        history = self.add_available_functions_system_message_to_history(
            chat_history, available_functions, document_function_params
        )
        lines = [LlamaText(f"{item.type}: ", self.generate_item_text(item)) for item in history]
        return ContextState(LlamaText.join_values("\n", lines), ())

    def generate_item_text(self, item: ChatHistoryItem) -> LlamaText:
        """The text of one item, without the frame that the format puts around it."""
        match item:
            case ChatSystemMessage():
                return item.text
            case ChatUserMessage():
                return LlamaText(item.text)
            case ChatModelResponse():
                return self.generate_model_response_text(item.response)

    def generate_function_calls_and_results(
        self,
        function_calls: Sequence[ChatModelFunctionCall | Mapping[str, Any]],
        use_raw_call: bool = True,  # noqa: FBT001, FBT002 - the peers' signature
        *,
        n_earlier_calls: int = 0,
    ) -> LlamaText:
        """Calls made together, with their results: in sections if the format has them, else in turn.

        Formats that number calls go on from `n_earlier_calls`.
        """
        given = _read_calls(function_calls)
        if not given:
            return LlamaText()
        calls = [
            self._call_text(call, index, use_raw=use_raw_call)
            for index, call in enumerate(given, n_earlier_calls)
        ]
        results = [
            self.generate_function_call_result(
                call.name,
                call.arguments if call.has_arguments else ABSENT,
                call.result if call.has_result else ABSENT,
                **self._numbering(index),
            )
            for index, call in enumerate(given, n_earlier_calls)
        ]
        parallel = self.settings.functions.parallelism
        if parallel is None:
            return LlamaText(list(zip(calls, results, strict=True)))
        return LlamaText(
            _plain(parallel.section_prefix),
            LlamaText.join_values(_plain(parallel.between_calls), calls),
            _plain(parallel.section_suffix),
            _plain(parallel.result_section_prefix),
            LlamaText.join_values(_plain(parallel.between_results), results),
            _plain(parallel.result_section_suffix),
        )

    def _call_text(self, call: ChatModelFunctionCall, index: int, *, use_raw: bool) -> LlamaText:
        if use_raw and call.raw_call is not None:
            return call.raw_call
        arguments = call.arguments if call.has_arguments else ABSENT
        return self.generate_function_call(call.name, arguments, **self._numbering(index))

    def _numbering(self, index: int) -> dict[str, int]:
        """The option that numbers a call, for formats that do: overriding methods may do without."""
        return {"index": index} if self.settings.functions.numbers_calls else {}

    def generate_function_call(self, name: str, params: Any = ABSENT, *, index: int = 0) -> LlamaText:
        """A call of the function `name` with the arguments `params` (any JSON value).

        `index` counts the calls of the conversation, for formats that number them.
        """
        syntax = self.settings.functions.call
        placeholder, arguments = syntax.empty_call_params_placeholder, LlamaText()
        if params is not ABSENT or placeholder not in ("", None):
            given = placeholder if params is ABSENT else params
            arguments = written_arguments(syntax.arguments, given, where=f"arguments of {name}")
        filling = _call_filling(name, index)
        return LlamaText(
            as_slotted(syntax.prefix).fill(filling),
            name,
            as_slotted(syntax.params_prefix).fill(filling),
            arguments,
            as_slotted(syntax.suffix).fill(filling),
        )

    def generate_function_call_result(
        self, function_name: str, function_params: Any = ABSENT, result: Any = ABSENT, *, index: int = 0
    ) -> LlamaText:
        """The result of a call; one without a result (not the same as null) reads ``void``."""
        syntax = self.settings.functions.result
        written = "void" if result is ABSENT else self._written_result(function_name, result)
        arguments = "" if function_params is ABSENT else dump_json(function_params)
        filling = {**_call_filling(function_name, index), Slot.FUNCTION_PARAMS: arguments}
        return LlamaText(
            as_slotted(syntax.prefix).fill(filling), written, as_slotted(syntax.suffix).fill(filling)
        )

    def _written_result(self, function_name: str, result: Any) -> LlamaTextInput:
        """A result as the format writes it: by default as JSON."""
        return dump_json(result, where=f"result of {function_name}")

    def generate_model_response_text(
        self,
        model_response: Sequence[ResponsePart | Mapping[str, Any]],
        use_raw_call: bool = True,  # noqa: FBT001, FBT002 - the peers' signature
    ) -> LlamaText:
        """The text of a model item. With `use_raw_call`, calls and segments are put back as sampled."""
        parts = _read_parts(model_response, where="model_response")
        return self.response_writer(use_raw=use_raw_call).write(parts)

    def response_writer(self, *, use_raw: bool, n_earlier_calls: int = 0) -> ResponseWriter:
        """A new writer of model items in this format, which counts calls on from `n_earlier_calls`."""
        return ResponseWriter(
            segments=self.settings.segments,
            write_calls=lambda calls, n_earlier: self.generate_function_calls_and_results(
                calls, use_raw, n_earlier_calls=n_earlier
            ),
            use_raw=use_raw,
            n_calls=n_earlier_calls,
        )

    def generate_available_functions_system_text(
        self,
        available_functions: FunctionsLike,
        document_params: bool = True,  # noqa: FBT001, FBT002 - the peers' signature
    ) -> LlamaText:
        """What tells the model which functions it may call, and how; empty without functions."""
        functions = as_functions(available_functions)
        if not functions:
            return LlamaText()
        lines: list[LlamaTextInput] = [
            "You can call these functions when an answer needs what they return:",
            "```typescript",
            typescript_signatures(functions, document_params=document_params),
            "```",
            "",
            "Write a call exactly like this one, with nothing before it:",
            self.generate_function_call("getSomeInfo", {"someKey": "someValue"}),
            "",
            "The result follows your call, where only you can read it. "
            "Then answer in your own words, without naming functions or repeating this notation.",
        ]
        return LlamaText.join_values("\n", lines)

    def add_available_functions_system_message_to_history(
        self,
        history: HistoryLike,
        available_functions: FunctionsLike | None = None,
        document_params: bool = True,  # noqa: FBT001, FBT002 - the peers' signature
    ) -> ChatHistory:
        """`history` with the functions' documentation behind its leading system items."""
        items = as_history(history)
        functions: ChatModelFunctions = as_functions(available_functions)
        if not functions:
            return items
        text = self.generate_available_functions_system_text(functions, document_params)
        at = next((i for i, item in enumerate(items) if item.type != "system"), len(items))
        return (*items[:at], ChatSystemMessage(text=text), *items[at:])

    def generate_initial_chat_history(self, system_prompt: str | LlamaText | None = None) -> ChatHistory:
        """The history a conversation starts with: one system item, by default `DEFAULT_SYSTEM_PROMPT`."""
        text = DEFAULT_SYSTEM_PROMPT if system_prompt is None else system_prompt
        return (ChatSystemMessage(text=LlamaText(text)),)


def _call_filling(name: str, index: int) -> dict[Slot, LlamaTextInput]:
    return {Slot.FUNCTION_NAME: name, Slot.CALL_ID: call_id(index), Slot.CALL_INDEX: str(index)}


def _read_parts(parts: Sequence[ResponsePart | Mapping[str, Any]], *, where: str) -> tuple[ResponsePart, ...]:
    """Parts of a model item, read from their JSON form unless they are values already."""
    if all(isinstance(part, str | ChatModelFunctionCall | ChatModelSegment) for part in parts):
        return tuple(parts)  # type: ignore[arg-type]
    (item,) = as_history([{"type": "model", "response": parts}], where=where)
    assert isinstance(item, ChatModelResponse)
    return item.response


def _read_calls(
    calls: Sequence[ChatModelFunctionCall | Mapping[str, Any]],
) -> tuple[ChatModelFunctionCall, ...]:
    if all(isinstance(call, ChatModelFunctionCall) for call in calls):
        return tuple(calls)  # type: ignore[arg-type]
    parts = _read_parts(calls, where="function_calls")
    faults = [
        Fault(f"function_calls[{index}]", f"not a function call, but {part!r}.")
        for index, part in enumerate(parts)
        if not isinstance(part, ChatModelFunctionCall)
    ]
    if faults:
        raise HistoryError(faults)
    return tuple(part for part in parts if isinstance(part, ChatModelFunctionCall))


def _plain(text: str | LlamaText | SlottedText) -> LlamaText:
    return as_slotted(text).fill({})
