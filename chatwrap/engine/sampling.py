"""How the next token is chosen, and when an answer has to end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, TypeAlias

from chatwrap.errors import Fault, OptionError, UnknownNameError
from chatwrap.grammar.grammar import Grammar

LogitsProcessor: TypeAlias = Callable[[Any, Any], Any]
"""``(input_ids, logits) -> logits``, numpy arrays of the ids so far and of one logit a token."""

_LARGEST_BIAS: Final = 1e9


@dataclass(frozen=True, slots=True)
class NumberRange:
    """The values a numeric option may have; both ends belong to it unless `above` excludes the lower."""

    lowest: float = -math.inf
    highest: float = math.inf
    above: bool = False
    integral: bool = False

    def fault(self, name: str, value: object) -> Fault | None:
        """What is wrong with an option's value; None if nothing is. NaN and booleans aren't numbers."""
        kinds = int if self.integral else (int, float)
        fits = isinstance(value, kinds) and not isinstance(value, bool) and self._holds(value)
        return None if fits else Fault(name, f"must be {self}, not {value!r}.")

    def _holds(self, value: float) -> bool:
        return self.lowest <= value <= self.highest and not (self.above and value == self.lowest)

    def __str__(self) -> str:
        kind = "a whole number" if self.integral else "a number"
        if self.highest < math.inf:
            return f"{kind} from {self._shown(self.lowest)} to {self._shown(self.highest)}"
        if self.lowest == -math.inf:
            return kind
        return f"{kind} {'above' if self.above else 'of at least'} {self._shown(self.lowest)}"

    @staticmethod
    def _shown(value: float) -> str:
        return str(value) if isinstance(value, int) else f"{value:g}"


_FLOAT_MAX: Final = 3.4e38
_RANGES: Final[Mapping[str, NumberRange]] = {
    "temperature": NumberRange(0, _FLOAT_MAX),
    "top_k": NumberRange(-1, 2**31 - 1, integral=True),
    "top_p": NumberRange(0, 1),
    "min_p": NumberRange(0, 1),
    "typical_p": NumberRange(0, 1),
    "repeat_penalty": NumberRange(0, above=True),
    "frequency_penalty": NumberRange(-_FLOAT_MAX, _FLOAT_MAX),
    "presence_penalty": NumberRange(-_FLOAT_MAX, _FLOAT_MAX),
    "mirostat_mode": NumberRange(0, 2, integral=True),
    "mirostat_tau": NumberRange(0, _FLOAT_MAX),
    "mirostat_eta": NumberRange(0, _FLOAT_MAX),
}
SEEDS: Final = NumberRange(-(2**63), 2**64 - 1, integral=True)
_OPTIONAL_RANGES: Final[Mapping[str, NumberRange]] = {
    "seed": SEEDS,
    "max_tokens": NumberRange(1, integral=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """Options of one answer, with llama-cpp-python's names and its defaults for chats.

    `temperature` 0 takes the likeliest token. `top_k` below 1 means no limit. `seed` None goes on with
    the model's own random numbers, -1 asks for fresh ones; a seed repeats an answer exactly only where
    as much of the prompt is evaluated anew, since llama.cpp rounds by batch size. `max_tokens` None
    means as many as the context holds. `stop` adds strings to the chat format's own stop triggers.
    `logit_bias` adds to the logits of token ids. `grammar` is a `Grammar`, GBNF text or a
    `llama_cpp.LlamaGrammar`; under it no control token is sampled but one that ends the answer.
    `logits_processor` is one ``(input_ids, logits) -> logits`` or several; an error it raises ends the
    answer.

    Raises `OptionError` with every fault.
    """

    temperature: float = 0.2
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    typical_p: float = 1.0
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    mirostat_mode: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    seed: int | None = None
    max_tokens: int | None = None
    stop: str | Sequence[str] | None = ()
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    grammar: Any = None
    logits_processor: Any = None

    def __post_init__(self) -> None:
        faults = tuple(self._faults())
        if faults:
            raise OptionError(faults)

    def _faults(self) -> Iterator[Fault]:
        for name, allowed in _RANGES.items():
            if fault := allowed.fault(name, getattr(self, name)):
                yield fault
        for name, allowed in _OPTIONAL_RANGES.items():
            value = getattr(self, name)
            if value is not None and (fault := allowed.fault(name, value)):
                yield fault
        if not all(isinstance(text, str) for text in self._stop_values()):
            yield Fault("stop", f"must be a string or a list of strings, not {self.stop!r}.")
        yield from _bias_faults(self.logit_bias)
        if not isinstance(getattr(self.grammar, "_grammar", self.grammar), Grammar | str | None):
            yield Fault("grammar", f"must be a Grammar, GBNF text or a LlamaGrammar, not {self.grammar!r}.")
        for processor in self.logits_processors:
            if not callable(processor):
                yield Fault("logits_processor", f"must be callable, not {processor!r}.")

    def _stop_values(self) -> tuple[Any, ...]:
        if self.stop is None or isinstance(self.stop, str):
            return () if self.stop is None else (self.stop,)
        return tuple(self.stop) if isinstance(self.stop, Sequence) else (self.stop,)

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """The caller's stop strings, also if only one was given."""
        return self._stop_values()

    @property
    def checked_grammar(self) -> Grammar | None:
        """The grammar, known to do llama.cpp no harm; None without one.

        Raises `GrammarError` with line and column of all that is wrong.
        """
        if self.grammar is None or isinstance(self.grammar, Grammar):
            return self.grammar
        return Grammar.from_gbnf(getattr(self.grammar, "_grammar", self.grammar), name="grammar")

    @property
    def seed_bits(self) -> int | None:
        """The seed as llama.cpp takes it, 32 bits; -1 is the one that means a random seed."""
        return None if self.seed is None else seed_bits(self.seed)

    @property
    def logits_processors(self) -> tuple[LogitsProcessor, ...]:
        """The caller's logits processors, also if only one was given."""
        if self.logits_processor is None:
            return ()
        several = isinstance(self.logits_processor, Sequence)
        return tuple(self.logits_processor) if several else (self.logits_processor,)


def seed_bits(seed: int) -> int:
    """A seed as llama.cpp takes it: 32 bits."""
    return seed & 0xFFFF_FFFF


def sampling_options(options: SamplingOptions | None, changes: Mapping[str, Any]) -> SamplingOptions:
    """`options` (or the defaults) with `changes`, by name.

    Raises `OptionError` for a bad value and `UnknownNameError` for a name that isn't an option.

    >>> sampling_options(None, {"temperature": 0, "max_tokens": 5}).max_tokens
    5
    """
    known = [entry.name for entry in fields(SamplingOptions)]
    for name in changes:
        if name not in known:
            raise UnknownNameError("sampling option", name, known, "help(chatwrap.SamplingOptions)")
    return replace(options or SamplingOptions(), **changes)


def clamped_biases(logit_bias: Mapping[int, float]) -> dict[int, float]:
    """Biases kept finite: with a grammar, infinite ones can leave no token at all, which llama.cpp
    answers by ending the process."""
    return {token_id: max(-_LARGEST_BIAS, min(_LARGEST_BIAS, bias)) for token_id, bias in logit_bias.items()}


def _bias_faults(logit_bias: object) -> Iterator[Fault]:
    if not isinstance(logit_bias, Mapping):
        yield Fault("logit_bias", f"must map token ids to numbers, not {logit_bias!r}.")
        return
    token_ids, biases = NumberRange(0, 2**31 - 1, integral=True), NumberRange()
    for token_id, bias in logit_bias.items():
        if token_ids.fault("logit_bias", token_id):
            yield Fault("logit_bias", f"must have token ids as keys, not {token_id!r}.")
        if fault := biases.fault(f"logit_bias[{token_id!r}]", bias):
            yield fault
