"""What a chat template can express, found by rendering probe histories and looking for their marks.

Nothing is read from the template's source: what counts is what stands in the prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Protocol

from chatwrap.chat.functions import as_functions
from chatwrap.chat.history import (
    ChatHistory,
    ChatModelFunctionCall,
    ChatModelResponse,
    ChatModelSegment,
    ChatSystemMessage,
    ChatUserMessage,
    ResponsePart,
)
from chatwrap.chat.openai import functions_to_openai
from chatwrap.chat.text import LlamaText
from chatwrap.errors import HistoryError
from chatwrap.wrapper.jinja_messages import MessageShape, messages_of

SYSTEM: Final = "Qsystemq"
USER: Final = "Quserq"
NEXT_USER: Final = "Qnextq"
ANSWER: Final = "Qanswerq"
BESIDE: Final = "Qbesideq"
THOUGHT: Final = "Qthoughtq"
NAMES: Final = ("Qfirstq", "Qsecondq")
VALUES: Final = ("Qonevalueq", "Qtwovalueq")
RESULTS: Final = ("Qoneresultq", "Qtworesultq")
TOOL: Final = "Qtoolq"
THOUGHT_KEYS: Final = ("reasoning_content", "thinking", "reasoning")
_FIRST_CALL_ID: Final = "call00000"
_NAMED_CALL_ID: Final = f"functions.{NAMES[0]}:0"


class Feature(StrEnum):
    """Something that a history may hold and a template may or may not express."""

    QUESTION = "a plain question"
    SYSTEM = "system messages"
    LATE_SYSTEM = "late system messages"
    USER_NEIGHBOURS = "two user messages in a row"
    TOOLS = "functions"
    CALLS = "function calls"
    PARALLEL_CALLS = "parallel function calls"
    TEXT_BESIDE_CALLS = "text before function calls"
    RESULTS = "function results"
    LAST_THOUGHT = "thoughts in the last answer"
    EARLIER_THOUGHT = "thoughts in earlier answers"
    CALL_THOUGHT = "thoughts before function calls"
    CONTENT_PARTS = "lists of content parts"


class Outcome(StrEnum):
    """What became of a feature: all marks in the prompt, some missing, or no prompt at all."""

    KEPT = "kept"
    LOST = "lost"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a template makes of each feature, and what else its prompts tell.

    An outcome is that of the best way to spell a history; `refusals` holds the template's words.
    `thought_key` is the message key that a thought is read from. `string_arguments` tells whether
    arguments given as JSON text are written as they are, not encoded again or refused; likewise
    `object_arguments`. `needs_null_content`: calls are lost beside empty content, kept beside null.
    `names_call_ids`: it writes a call's id as ``functions.NAME:0`` itself, but a result's as given.
    `default_system_message` is what the template says for a conversation without a system message.
    `generation_prompt` is what ``add_generation_prompt`` adds.
    """

    outcomes: Mapping[Feature, Outcome]
    refusals: Mapping[Feature, str]
    thought_key: str | None
    object_arguments: bool
    string_arguments: bool
    needs_null_content: bool
    prints_call_ids: bool
    names_call_ids: bool
    generation_prompt: str
    default_system_message: str

    def keeps(self, feature: Feature) -> bool:
        """Whether everything of a feature stands in the prompt."""
        return self.outcomes[feature] is Outcome.KEPT

    def with_calls_of(self, other: Capabilities) -> Capabilities:
        """These, but what has to do with functions as `other` has it."""
        return replace(
            self,
            outcomes=MappingProxyType({**self.outcomes, **_of_calls(other.outcomes)}),
            refusals=MappingProxyType({**_of_rest(self.refusals), **_of_calls(other.refusals)}),
            object_arguments=other.object_arguments,
            string_arguments=other.string_arguments,
            needs_null_content=other.needs_null_content,
            prints_call_ids=other.prints_call_ids,
            names_call_ids=other.names_call_ids,
        )

    @property
    def lost(self) -> tuple[Feature, ...]:
        """What the template drops in silence."""
        return tuple(feature for feature, outcome in self.outcomes.items() if outcome is Outcome.LOST)


def _of_calls(features: Mapping[Feature, Any]) -> dict[Feature, Any]:
    return {feature: value for feature, value in features.items() if _PROBES[feature].with_tools}


def _of_rest(features: Mapping[Feature, Any]) -> dict[Feature, Any]:
    return {feature: value for feature, value in features.items() if not _PROBES[feature].with_tools}


class Render(Protocol):
    """Renders messages and tools with a template; raises `HistoryError` where it refuses."""

    def __call__(
        self, messages: list[dict[str, Any]], tools: Any, *, add_generation_prompt: bool = True
    ) -> str: ...


@dataclass(frozen=True, slots=True)
class Probe:
    """A history that shows a feature, and the marks that its prompt must hold."""

    history: ChatHistory
    marks: tuple[str, ...]
    with_tools: bool = False
    generation_prompt: bool = True


def user(text: str = USER) -> ChatUserMessage:
    return ChatUserMessage(text=text)


def answer(*parts: ResponsePart) -> ChatModelResponse:
    return ChatModelResponse(response=parts)


def thought() -> ChatModelSegment:
    return ChatModelSegment(segment_type="thought", text=THOUGHT)


def call(index: int = 0) -> ChatModelFunctionCall:
    """One of the two probe calls, with one argument and a result."""
    return ChatModelFunctionCall(name=NAMES[index], arguments={"key": VALUES[index]}, result=RESULTS[index])


def tools_named(*names: str) -> list[dict[str, Any]]:
    """Functions of these names as tools, each with one text parameter."""
    schema = {"type": "object", "properties": {"key": {"type": "string", "description": "A key."}}}
    functions = {name: {"description": "A function.", "params": schema} for name in names}
    return functions_to_openai(as_functions(functions))


def called_history(*, beside_text: bool) -> tuple[ChatHistory, tuple[str, ...]]:
    """A history with a call, text right before it if `beside_text`, and the marks that must be kept."""
    parts: tuple[ResponsePart, ...] = (BESIDE,) if beside_text else ()
    return (user(), answer(*parts, call(), ANSWER), user(NEXT_USER)), (NAMES[0], VALUES[0], RESULTS[0])


OTHER_TOOLS: Final = tools_named("other")
CALLED_TOOLS: Final = tools_named("other", NAMES[0])
_SYSTEM_ITEM: Final = ChatSystemMessage(text=LlamaText(SYSTEM))
_CALLED: Final = (user(), answer(call(), ANSWER), user(NEXT_USER))
_PROBES: Final[Mapping[Feature, Probe]] = MappingProxyType(
    {
        Feature.QUESTION: Probe((user(),), (USER,)),
        Feature.SYSTEM: Probe((_SYSTEM_ITEM, user()), (SYSTEM, USER)),
        Feature.LATE_SYSTEM: Probe((user(), answer(ANSWER), _SYSTEM_ITEM, user(NEXT_USER)), (SYSTEM,)),
        Feature.USER_NEIGHBOURS: Probe((user(), user(NEXT_USER)), (USER, NEXT_USER)),
        Feature.TOOLS: Probe((user(),), (TOOL,), with_tools=True),
        Feature.CALLS: Probe(_CALLED, (NAMES[0], VALUES[0]), with_tools=True),
        Feature.PARALLEL_CALLS: Probe(
            (user(), answer(call(0), call(1), ANSWER), user(NEXT_USER)), (*NAMES, *VALUES), with_tools=True
        ),
        Feature.TEXT_BESIDE_CALLS: Probe(
            (user(), answer(BESIDE, call(), ANSWER), user(NEXT_USER)), (BESIDE, NAMES[0]), with_tools=True
        ),
        Feature.RESULTS: Probe(_CALLED, (RESULTS[0],), with_tools=True),
        Feature.LAST_THOUGHT: Probe((user(), answer(thought(), ANSWER)), (THOUGHT,), generation_prompt=False),
        Feature.EARLIER_THOUGHT: Probe((user(), answer(thought(), ANSWER), user(NEXT_USER)), (THOUGHT,)),
        Feature.CALL_THOUGHT: Probe((user(), answer(thought(), call())), (THOUGHT,), with_tools=True),
        Feature.CONTENT_PARTS: Probe((user(), answer(ANSWER), user(NEXT_USER)), (USER, ANSWER, NEXT_USER)),
    }
)
_THOUGHT_FEATURES: Final = (Feature.LAST_THOUGHT, Feature.EARLIER_THOUGHT, Feature.CALL_THOUGHT)
_BEST_FIRST: Final = (Outcome.KEPT, Outcome.LOST, Outcome.REFUSED)


@dataclass(slots=True)
class Prober:
    """Renders probes with one template. Costs about 50 renders of short histories in all."""

    render: Render
    shape: MessageShape
    _refusals: dict[Feature, str] = field(default_factory=dict)

    def capabilities(self) -> Capabilities:
        """All there is to tell of the template."""
        outcomes = {feature: self._best(feature) for feature in Feature}
        kept = set(self.shapes_with_calls())
        called = [self._text(_PROBES[Feature.CALLS], shape) for shape in kept]
        clean = {shape for shape in kept if not self._encodes_twice(shape)}
        return Capabilities(
            outcomes=MappingProxyType(outcomes),
            refusals=MappingProxyType({f: told for f, told in self._refusals.items() if f in outcomes}),
            thought_key=self._thought_key(outcomes),
            object_arguments=any(not shape.arguments_as_text for shape in clean),
            string_arguments=any(shape.arguments_as_text for shape in clean),
            needs_null_content=bool(kept) and all(shape.null_content for shape in kept),
            prints_call_ids=any(_FIRST_CALL_ID in text for text in called),
            names_call_ids=any(_FIRST_CALL_ID in text and _NAMED_CALL_ID in text for text in called),
            generation_prompt=self._generation_prompt(),
            default_system_message=self._default_system_message(),
        )

    def call_shapes(self) -> tuple[MessageShape, ...]:
        """The ways to spell a history with calls, the likeliest first."""
        shape = self.shape
        return (
            shape,
            replace(shape, null_content=True),
            replace(shape, arguments_as_text=True),
            replace(shape, arguments_as_text=True, null_content=True),
        )

    def shapes_with_calls(self) -> tuple[MessageShape, ...]:
        """The ways to spell a history with calls in which the template writes them."""
        calls = _PROBES[Feature.CALLS]
        return tuple(shape for shape in self.call_shapes() if self._outcome(calls, shape) is Outcome.KEPT)

    def _best(self, feature: Feature) -> Outcome:
        probe = _PROBES[feature]
        shapes: Iterable[MessageShape] = self.call_shapes() if probe.with_tools else (self.shape,)
        if feature is Feature.CONTENT_PARTS:
            shapes = (replace(self.shape, content_parts=True),)
        found = {self._outcome(probe, shape, feature) for shape in shapes}
        return next(outcome for outcome in _BEST_FIRST if outcome in found)

    def _outcome(self, probe: Probe, shape: MessageShape, feature: Feature | None = None) -> Outcome:
        try:
            text = self._text(probe, shape)
        except HistoryError as error:
            if feature is not None:
                self._refusals.setdefault(feature, error.faults[0].problem)
            return Outcome.REFUSED
        unpacked = feature is not Feature.CONTENT_PARTS or "'text'" not in text
        return Outcome.KEPT if unpacked and all(mark in text for mark in probe.marks) else Outcome.LOST

    def _text(
        self,
        probe: Probe,
        shape: MessageShape,
        change: Callable[[Mapping[str, Any]], dict[str, Any]] = dict,
    ) -> str:
        messages = [change(message) for message in messages_of(probe.history, shape)]
        tools = tools_named(TOOL) if probe.with_tools else None
        return self.render(messages, tools, add_generation_prompt=probe.generation_prompt)

    def _encodes_twice(self, shape: MessageShape) -> bool:
        return f'\\"{VALUES[0]}' in self._text(_PROBES[Feature.CALLS], shape)

    def _thought_key(self, outcomes: Mapping[Feature, Outcome]) -> str | None:
        """The first key that alone brings a thought into the prompt."""
        kept = [feature for feature in _THOUGHT_FEATURES if outcomes[feature] is Outcome.KEPT]
        for key in THOUGHT_KEYS if kept else ():
            others = {other for other in THOUGHT_KEYS if other != key}
            if self._holds_thought(_PROBES[kept[0]], others):
                return key
        return None

    def _holds_thought(self, probe: Probe, without: set[str]) -> bool:
        def change(message: Mapping[str, Any]) -> dict[str, Any]:
            return {key: value for key, value in message.items() if key not in without}

        try:
            return THOUGHT in self._text(probe, self.shape, change)
        except HistoryError:  # a template that takes one key of several, which this isn't
            return False

    def _generation_prompt(self) -> str:
        asked = [{"role": self.shape.user, "content": USER}]
        without = self.text_or_none(asked, add_generation_prompt=False)
        text = self.text_or_none(asked)
        if text is None or without is None:
            return ""
        return text[len(without) :] if text.startswith(without) else text.rpartition(USER)[2]

    def _default_system_message(self) -> str:
        """The text in place of a system message where there is none.

        With one the prompt reads ``a S b U c``, without ``d U c``: if d is ``a X b``, X is the answer.
        """
        asked = {"role": self.shape.user, "content": USER}
        told = {"role": self.shape.system, "content": SYSTEM}
        alone, both = self.text_or_none([asked]), self.text_or_none([told, asked])
        if alone is None or both is None or SYSTEM not in both:
            return ""
        before, _, between = both.partition(USER)[0].partition(SYSTEM)
        found = alone.partition(USER)[0]
        fits = (
            found.startswith(before) and found.endswith(between) and len(before) + len(between) < len(found)
        )
        inserted = found[len(before) : len(found) - len(between)] if fits and before.strip() else ""
        return inserted if inserted.strip() else ""

    def text_or_none(
        self, messages: Sequence[dict[str, Any]], tools: Any = None, *, add_generation_prompt: bool = True
    ) -> str | None:
        """The prompt, or None where the template refuses."""
        try:
            return self.render(list(messages), tools, add_generation_prompt=add_generation_prompt)
        except HistoryError:
            return None
