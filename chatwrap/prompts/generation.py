"""`LlmGenerationConfig`: how the answer to a prompt is generated, as far as the prompt says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Self, TypeAlias

from chatwrap.errors import Fault, OptionError

_RANGES: Final = {"temperature": (0.0, None), "top_p": (0.0, 1.0), "frequency_penalty": (-2.0, 2.0)}


@dataclass(frozen=True, slots=True)
class LlmGenerationConfig:
    """Parameters of the generation; None leaves one to the model. `extra_args` are further sampling options.

    Raises `OptionError` with every fault.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: Sequence[str] | str | None = None
    frequency_penalty: float | None = None
    top_logprobs: int | None = None
    extra_args: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        faults = list(self._faults())
        if faults:
            raise OptionError(faults)

    @classmethod
    def of(cls, config: GenerationConfigLike | None) -> Self | None:
        """The config that `config` is, or that its dict form says; unknown keys are extra arguments."""
        if config is None or isinstance(config, cls):
            return config
        if not isinstance(config, Mapping):
            kind = type(config).__name__
            raise OptionError.of(
                "generation_config", f"of type {kind}.", "Give an LlmGenerationConfig or a dict."
            )
        known = {entry.name for entry in fields(cls)}
        extra = {key: value for key, value in config.items() if key not in known}
        given = {key: value for key, value in config.items() if key in known}
        return cls(**{**given, "extra_args": {**extra, **given.get("extra_args", {})}})

    def merged_over(self, other: Self) -> Self:
        """This config, with what it leaves open taken from `other`."""
        changes = {
            entry.name: getattr(other, entry.name)
            for entry in fields(self)
            if getattr(self, entry.name) is None
        }
        return replace(self, **changes, extra_args={**other.extra_args, **self.extra_args})

    def options(self) -> dict[str, Any]:
        """The sampling options, by name, that this config sets."""
        named = ("max_tokens", "temperature", "top_p", "stop", "frequency_penalty", "top_logprobs")
        chosen = {name: getattr(self, name) for name in named if getattr(self, name) is not None}
        return {**chosen, **self.extra_args}

    def _faults(self) -> Iterator[Fault]:
        for name, (lowest, highest) in _RANGES.items():
            value = getattr(self, name)
            if value is None:
                continue
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not lowest <= value <= (highest if highest is not None else value):
                wanted = (
                    f"from {lowest:g} to {highest:g}" if highest is not None else f"of at least {lowest:g}"
                )
                yield Fault(f"generation_config.{name}", f"must be a number {wanted}, not {value!r}.")
        for name in ("max_tokens", "top_logprobs"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
                yield Fault(
                    f"generation_config.{name}", f"must be a whole number of at least 0, not {value!r}."
                )
        stops = (self.stop,) if isinstance(self.stop, str) else self.stop or ()
        if not isinstance(stops, Sequence) or not all(isinstance(stop, str) for stop in stops):
            yield Fault("generation_config.stop", f"must be a list of texts, not {self.stop!r}.")


GenerationConfigLike: TypeAlias = LlmGenerationConfig | Mapping[str, Any]
