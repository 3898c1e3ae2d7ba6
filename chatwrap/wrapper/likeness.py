"""Whether two chat formats write the same prompts, over a set of histories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from chatwrap.chat.functions import ChatModelFunctions, as_functions
from chatwrap.chat.history import (
    ChatHistory,
    ChatModelFunctionCall,
    ChatModelResponse,
    ChatModelSegment,
    ChatSystemMessage,
    ChatUserMessage,
)
from chatwrap.chat.text import LlamaText, SpecialToken
from chatwrap.chat.tokenizer import Tokenizer
from chatwrap.errors import ChatwrapError
from chatwrap.wrapper.base import ChatWrapper


@dataclass(frozen=True, slots=True)
class Case:
    """A history to compare two formats on, with the functions the model may call."""

    name: str
    history: ChatHistory
    functions: ChatModelFunctions = field(default_factory=dict)

    @property
    def starts_with_system(self) -> bool:
        return bool(self.history) and isinstance(self.history[0], ChatSystemMessage)

    @property
    def holds_thoughts(self) -> bool:
        return any(isinstance(part, ChatModelSegment) for part in self._parts)

    @property
    def holds_calls(self) -> bool:
        return bool(self.functions) or any(isinstance(part, ChatModelFunctionCall) for part in self._parts)

    @property
    def _parts(self) -> Iterator[Any]:
        for item in self.history:
            yield from item.response if isinstance(item, ChatModelResponse) else ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two formats made of a case: two prompts, or why one of them made none of the history as it is.

    `problems` holds an error's text or a told change for either side, empty where there is none.
    """

    case: Case
    texts: tuple[LlamaText | None, LlamaText | None]
    prompts: tuple[str, str]
    problems: tuple[str, str]

    @property
    def both_express(self) -> bool:
        """Whether either format takes the history as it is."""
        return not any(self.problems)

    @property
    def equal(self) -> bool:
        """Whether either format has a prompt and they are the same, byte for byte."""
        return None not in self.texts and self.prompts[0] == self.prompts[1]

    @property
    def byte_offset(self) -> int:
        """Where the prompts first differ, in bytes of UTF-8 from their start."""
        first, second = (prompt.encode("utf-8", "surrogatepass") for prompt in self.prompts)
        return first_difference(first, second)


def first_difference(first: Sequence[Any], second: Sequence[Any]) -> int:
    """The index of the first element that differs; the shorter length if one begins the other."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(first), len(second)))


def compare(
    first: ChatWrapper, second: ChatWrapper, cases: Iterable[Case], tokenizer: Tokenizer | None = None
) -> Iterator[Comparison]:
    """Renders each case in both formats. A BOS at the start counts for nothing if encoding adds one."""
    for case in cases:
        texts, prompts, problems = zip(
            *(_rendered(wrapper, case, tokenizer) for wrapper in (first, second)), strict=True
        )
        yield Comparison(case, texts, prompts, problems)


def _rendered(
    wrapper: ChatWrapper, case: Case, tokenizer: Tokenizer | None
) -> tuple[LlamaText | None, str, str]:
    try:
        state = wrapper.generate_context_state(case.history, case.functions)
    except ChatwrapError as error:
        return None, "", str(error)
    return state.context_text, prompt_of(state.context_text, tokenizer), " ".join(state.changes)


def prompt_of(text: LlamaText, tokenizer: Tokenizer | None) -> str:
    """The prompt as a string, tokens named by role spelled out, without the BOS that encoding adds."""
    spelled = "".join(
        _role_text(value, tokenizer) if isinstance(value, SpecialToken) else str(value)
        for value in text.values
    )
    if tokenizer is None or not tokenizer.adds_bos:
        return spelled
    return spelled.removeprefix(_role_text(SpecialToken("BOS"), tokenizer))


def _role_text(token: SpecialToken, tokenizer: Tokenizer | None) -> str:
    token_id = tokenizer.role_id(token.value) if tokenizer else None
    entry = tokenizer.special_tokens.get(token_id) if tokenizer and token_id is not None else None
    return entry.text if entry else ""


_SYSTEM: Final = ChatSystemMessage(text=LlamaText("Be brief."))
_USER: Final = ChatUserMessage(text="What is the weather in Köln? <3")
_NEXT: Final = ChatUserMessage(text="And in Rome?")
_ANSWER: Final = ChatModelResponse(response=("It rains.",))
_PADDED: Final = ChatUserMessage(text="  padded text \n")
_THOUGHT: Final = ChatModelSegment(segment_type="thought", text="I should look.")
_CALL: Final = ChatModelFunctionCall(
    name="get_weather", arguments={"city": "Köln", "days": 2}, result={"celsius": 7}
)
_OTHER_CALL: Final = ChatModelFunctionCall(name="get_weather", arguments={"city": "Rome"}, result="sunny")
_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "The city's name."},
        "days": {"type": "integer"},
    },
    "required": ["city"],
}
_FUNCTIONS: Final = as_functions({"get_weather": {"description": "The weather.", "params": dict(_SCHEMA)}})


def _model(*parts: Any) -> ChatModelResponse:
    return ChatModelResponse(response=parts)


CASES: Final = (
    Case("a question", (_USER,)),
    Case("a system message", (_SYSTEM, _USER)),
    Case("a second question", (_USER, _ANSWER, _NEXT)),
    Case("a system message and a second question", (_SYSTEM, _USER, _ANSWER, _NEXT)),
    Case("an answer to go on with", (_SYSTEM, _USER, _ANSWER)),
    Case("white space around a question", (_PADDED, _ANSWER, _NEXT)),
    Case("two user messages in a row", (_SYSTEM, _USER, _NEXT)),
    Case("a late system message", (_USER, _ANSWER, _SYSTEM, _NEXT)),
    Case("a thought in an earlier answer", (_SYSTEM, _USER, _model(_THOUGHT, "It rains."), _NEXT)),
    Case("functions", (_SYSTEM, _USER), _FUNCTIONS),
    Case("a function call", (_SYSTEM, _USER, _model(_CALL, "It rains."), _NEXT), _FUNCTIONS),
    Case("a function's result", (_SYSTEM, _USER, _model(_CALL)), _FUNCTIONS),
    Case("parallel function calls", (_SYSTEM, _USER, _model(_CALL, _OTHER_CALL, "So."), _NEXT), _FUNCTIONS),
)
"""What formats are compared on: short histories, each with one thing more than the plain question."""
