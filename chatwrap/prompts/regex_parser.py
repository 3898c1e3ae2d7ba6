"""`RegexOutputParser`: picks texts out of an output with regular expressions that can't hang."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

import regex

from chatwrap.chat.json_text import dump_json
from chatwrap.errors import AnswerError, Fault, PromptError
from chatwrap.prompts.messages import Message
from chatwrap.prompts.parser import OutputParser, raw_text

TIMEOUT_S: Final = 1.0
_PARTIAL_TIMEOUT_S: Final = 0.05
# The two modules give some flags different numbers.
_FLAGS: Final = {
    re.ASCII: regex.ASCII,
    re.DOTALL: regex.DOTALL,
    re.IGNORECASE: regex.IGNORECASE,
    re.LOCALE: regex.LOCALE,
    re.MULTILINE: regex.MULTILINE,
    re.UNICODE: regex.UNICODE,
    re.VERBOSE: regex.VERBOSE,
}


@dataclass(frozen=True)
class RegexPattern:
    """A pattern, its flags (those of Python's `re`), and whether the first or the last match counts."""

    pattern: str
    match: Literal["first", "last"] = "first"
    flags: int | re.RegexFlag | None = None

    @staticmethod
    def from_str(pattern: str | RegexPattern, flags: int | re.RegexFlag | None = re.DOTALL) -> RegexPattern:
        """The pattern of a text, which then matches over lines; a `RegexPattern` is given back as it is."""
        return pattern if isinstance(pattern, RegexPattern) else RegexPattern(pattern, flags=flags)

    def find(self, text: str, timeout_s: float = TIMEOUT_S) -> str | None:
        """What the match says: its group, without groups all of it; several groups as a JSON list.

        A group that took no part is "". None without a match. Raises `TimeoutError`.
        """
        matches: Iterator[Any] = self._compiled.finditer(text, timeout=timeout_s)
        found = next(matches, None) if self.match == "first" else _last(matches)
        if found is None:
            return None
        groups = [group or "" for group in found.groups()]
        return str((groups or [found[0]])[0]) if len(groups) < 2 else dump_json(groups)

    @property
    def _compiled(self) -> Any:
        return _compiled(self.pattern, self.flags or 0)

    def faults(self, where: str) -> Iterator[Fault]:
        if not isinstance(self.pattern, str):
            yield Fault(
                where, f"of type {type(self.pattern).__name__}, no pattern.", "Give a text or a RegexPattern."
            )
            return
        if self.match not in ("first", "last"):
            yield Fault(f"{where}.match", f"no match {self.match!r}.", "Use 'first' or 'last'.")
        try:
            _ = self._compiled
        except (regex.error, ValueError, RecursionError) as error:
            yield Fault(where, f"{self.pattern!r:.60} isn't a regular expression: {error}.", "Mend it.")


def _last(matches: Iterator[Any]) -> Any:
    found = deque(matches, maxlen=1)
    return found[0] if found else None


@lru_cache(maxsize=512)
def _compiled(pattern: str, flags: int) -> Any:
    return regex.compile(pattern, sum(value for flag, value in _FLAGS.items() if flags & flag))


PatternLike: TypeAlias = str | RegexPattern


@dataclass(frozen=True)
class RegexOutputParser(OutputParser):
    r"""Picks one text out of an output, or with several patterns by name a JSON object of texts.

    Without a match the text is "", or the whole output if not `strict`. A pattern as text matches over
    lines. Raises `AnswerError` for a pattern that takes longer than a second, `PromptError` for what is
    no pattern.

    >>> RegexOutputParser({"thought": "THOUGHT: (.*) ACTION:", "action": "ACTION: (.*)"}).parse_output(
    ...     Message("THOUGHT: blahblah ACTION: doing")
    ... ).content
    '{"thought": "blahblah", "action": "doing"}'
    """

    regex_pattern: PatternLike | Mapping[str, PatternLike]
    strict: bool = True
    _patterns: Mapping[str | None, RegexPattern] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given: Mapping[Any, PatternLike] = (
            self.regex_pattern if isinstance(self.regex_pattern, Mapping) else {None: self.regex_pattern}
        )
        patterns = {name: RegexPattern.from_str(pattern) for name, pattern in given.items()}
        faults = [
            fault
            for name, pattern in patterns.items()
            for fault in pattern.faults("regex_pattern" if name is None else f"regex_pattern.{name}")
        ]
        if faults:
            raise PromptError(faults)
        object.__setattr__(self, "_patterns", patterns)

    def parse_output(self, message: Message) -> Message:
        text = raw_text(message)
        missing = "" if self.strict else text
        try:
            found = self._found(text, lambda pattern: pattern.find(text))
        except TimeoutError:
            problem = f"a regular expression took longer than {TIMEOUT_S:g} s on it."
            raise AnswerError(problem, "Write one that backtracks less.", text=text) from None
        texts = {name: missing if each is None else each for name, each in found.items()}
        return message.copy(content=texts[None] if None in texts else dump_json(texts))

    def parse_partial(self, message: Message) -> Message | None:
        """What matches now; what is still to come may change it. None while nothing does."""
        text = raw_text(message)
        try:
            found = self._found(text, lambda pattern: pattern.find(text, _PARTIAL_TIMEOUT_S))
        except TimeoutError:
            return None
        texts = {name: each for name, each in found.items() if each is not None}
        if not texts:
            return None
        return message.copy(content=texts[None] if None in texts else dump_json(texts))

    def _found(self, text: str, find: Callable[[RegexPattern], str | None]) -> dict[str | None, str | None]:
        return {name: find(pattern) for name, pattern in self._patterns.items()}
