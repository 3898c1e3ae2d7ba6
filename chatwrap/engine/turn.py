"""One turn of a conversation: the model answers, its calls are run, it goes on with their results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from chatwrap.chat.events import ResponseEnd, ResponseEvent
from chatwrap.chat.history import (
    ChatHistory,
    ChatModelFunctionCall,
    ChatModelResponse,
    ChatUserMessage,
    ResponsePart,
)
from chatwrap.engine.generate import Abort, Generation, GenerationResult, is_aborted
from chatwrap.engine.handlers import FunctionCallOutcome, HandlerRunner
from chatwrap.engine.model import Model
from chatwrap.engine.prompt import Prompt
from chatwrap.engine.replay import Replay
from chatwrap.engine.request import AnswerRequest
from chatwrap.errors import OptionError

TurnEvent: TypeAlias = ResponseEvent | FunctionCallOutcome
OnFunctionCall: TypeAlias = Callable[[FunctionCallOutcome], object]

DEFAULT_MAX_ROUNDS: Final = 10


@dataclass(frozen=True, slots=True)
class Shortened:
    """A beginning of a history, and what it was shortened to, so that later turns go on from that."""

    whole: ChatHistory
    kept: ChatHistory

    def applied_to(self, history: ChatHistory) -> ChatHistory:
        """`history` with its beginning shortened, or as it is if it begins otherwise."""
        n_whole = len(self.whole)
        return (*self.kept, *history[n_whole:]) if history[:n_whole] == self.whole else history


@dataclass(slots=True)
class Turn:
    """A turn under way. `events` runs it; after that, `history` has it.

    The model's calls are run and their results are put behind them, and the model goes on in the same
    turn, until it makes no more calls. After `max_rounds` rounds of calls it is told of no functions.
    A demanded call is demanded in the first round alone.
    """

    model: Model
    base: ChatHistory
    message: ChatUserMessage
    request: AnswerRequest
    runner: HandlerRunner
    replay: Replay | None = None
    shortened: Shortened | None = None
    on_function_call: OnFunctionCall | None = None
    max_rounds: int = DEFAULT_MAX_ROUNDS
    abort: Abort | None = None
    outcomes: list[FunctionCallOutcome] = field(default_factory=list)
    results: list[GenerationResult] = field(default_factory=list)
    _parts: list[ResponsePart] = field(default_factory=list)
    _generation: Generation | None = None
    _prompt: Prompt | None = None

    def begin(self) -> None:
        """Prepares the first answer, so that what is wrong with the request is raised now."""
        if inspect.iscoroutinefunction(self.on_function_call):
            remedy = "Give a plain function; it may start a task."
            raise OptionError.of("on_function_call", "is async, so it wouldn't be awaited.", remedy)
        self._generation = self._asked()

    @property
    def generation(self) -> Generation:
        """The answer that is being generated, or was last."""
        assert self._generation is not None, "begun before it is asked for"
        return self._generation

    @property
    def text(self) -> str:
        """The turn's text so far, that of all its rounds."""
        return "".join(result.text for result in self.results)

    def events(self) -> Generator[TurnEvent, None, None]:
        """What the model writes, and what comes of its calls, as it happens."""
        for n_round in range(self.max_rounds + 1):
            if n_round:
                self._generation = self._asked()
            with closing(self._answer()) as answer:
                yield from answer
            calls = self.results[-1].function_calls
            if not calls or n_round == self.max_rounds or self._is_aborted():
                return
            yield from self._run(calls, n_round)
            is_last = n_round + 1 == self.max_rounds
            request = self.request.without_forced_call()
            self.request = replace(request, tool_choice="none") if is_last else request

    def history(self) -> ChatHistory:
        """The history with this turn. Calls that nothing was made of are left out."""
        parts = tuple(
            part for part in self._parts if not isinstance(part, ChatModelFunctionCall) or part.has_result
        )
        return (*self.base, self.message, ChatModelResponse(response=parts))

    @property
    def is_empty(self) -> bool:
        """Whether nothing came of it."""
        return not self._parts

    def _asked(self) -> Generation:
        """The generation of the next answer."""
        history: ChatHistory = (*self.base, self.message)
        if self.shortened:
            history = self.shortened.applied_to(history)
        answered = (ChatModelResponse(response=tuple(self._parts)),) if self._parts else ()
        prompt = self.model.prompt((*history, *answered), self.request, replay=self.replay)
        n_kept = len(prompt.history) - len(answered)
        if prompt.shortening and prompt.history[n_kept:] == answered:
            self.shortened = Shortened((*self.base, self.message), prompt.history[:n_kept])
        self._prompt = prompt
        return self.model.answer(prompt, self.request, abort=self.abort)

    def _answer(self) -> Generator[TurnEvent, None, None]:
        generation = self.generation
        try:
            for chunk in generation:
                yield from chunk.events
        except (GeneratorExit, KeyboardInterrupt):
            generation.close()
            self._take(generation.result)
            raise
        result = generation.result
        self._take(result)
        yield ResponseEnd(result.finish_reason, result.n_prompt_tokens, result.n_completion_tokens)

    def _take(self, result: GenerationResult) -> None:
        """Takes over the parts of an answer, and the ids that the context holds of it."""
        assert self._prompt is not None, "made with the generation"
        parts = list(result.response.response)
        first = next((i for i, part in enumerate(parts) if isinstance(part, ChatModelFunctionCall)), None)
        if self._parts and first is not None:
            parts[first] = parts[first].model_copy(update={"starts_new_chunk": True})  # type: ignore[union-attr]
        self._parts += parts
        self.results.append(result)
        text, ids = self._prompt.state.context_text, self._prompt.token_ids
        self.replay = Replay.of(text, ids, result, self.model.vocabulary)

    def _run(self, calls: tuple[ChatModelFunctionCall, ...], n_round: int) -> Iterator[FunctionCallOutcome]:
        """Runs calls and puts their results into the parts that they are."""
        places = [i for i, part in enumerate(self._parts) if isinstance(part, ChatModelFunctionCall)]
        places = places[len(places) - len(calls) :]
        outcomes = self.runner.run(calls, self._is_aborted, n_round)
        for place, outcome in zip(places, outcomes, strict=True):
            self._parts[place] = self._parts[place].with_result(outcome.result)  # type: ignore[union-attr]
            self.outcomes.append(outcome)
            if self.on_function_call is not None:
                self.on_function_call(outcome)
            yield outcome

    def _is_aborted(self) -> bool:
        return is_aborted(self.abort)
