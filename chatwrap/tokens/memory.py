"""What has been encoded before: runs of text, and whole prompts to go on from. Bounded in bytes."""

from __future__ import annotations

import sys
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from chatwrap.chat.text import LlamaTextValue
from chatwrap.chat.tokenizer import SpecialTokenEntry, Tokenizer

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")

DEFAULT_BYTES: Final = 64 << 20
_BYTES_PER_ID: Final = 40
_BYTES_PER_ENTRY: Final = 400
_STEP: Final = 64
_N_PROMPTS: Final = 32


class _Recent(Generic[_K, _V]):
    """Values up to a number of bytes in all, those used last. Thread-safe.

    What would take more than a quarter of the room isn't kept.
    """

    def __init__(self, n_bytes: int) -> None:
        self._room, self._most = n_bytes, n_bytes // 4
        self._values: OrderedDict[_K, tuple[_V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: _K) -> _V | None:
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: _K, value: _V, n_bytes: int, *, instead: _K | None = None) -> None:
        with self._lock:
            for old in (key, instead):
                self._room += self._values.pop(old, (None, 0))[1] if old is not None else 0
            if n_bytes > self._most:
                return
            self._values[key] = value, n_bytes
            self._room -= n_bytes
            while self._room < 0:
                self._room += self._values.popitem(last=False)[1][1]

    def newest(self, n_values: int) -> list[_V]:
        with self._lock:
            newest = (value for value, _ in reversed(self._values.values()))
            return [value for value, _ in zip(newest, range(n_values), strict=False)]


@dataclass(frozen=True, slots=True)
class Border:
    """A place behind a special token in control text, before which all ids are certain.

    `n_values` of the text have been read, the last of them up to its end, which is `rest`.
    """

    n_values: int
    n_ids: int
    token: SpecialTokenEntry
    rest: str


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """A text that was encoded: its values and ids, and the borders from which another may go on."""

    values: tuple[LlamaTextValue, ...]
    markers: frozenset[str]
    ids: list[int]
    borders: list[Border]
    n_bytes: int

    def n_borders_in(self, values: tuple[LlamaTextValue, ...]) -> int:
        """How many borders lie in what `values` begins with too. Compares in C where it can."""
        n_common = _n_common(self.values, values)
        return bisect_right(self.borders, n_common, key=lambda border: border.n_values)


class Memory:
    """What was encoded for a vocabulary, in any format: half of the bytes for runs, half for prompts."""

    def __init__(self, n_bytes: int = DEFAULT_BYTES) -> None:
        self._runs: _Recent[tuple[str, frozenset[str]], tuple[int, ...]] = _Recent(n_bytes // 2)
        self._prompts: _Recent[int, Prompt] = _Recent(n_bytes // 2)

    def run_ids(self, run: str, markers: frozenset[str]) -> tuple[int, ...] | None:
        """The ids of a run in which `markers` were broken up, if it is remembered."""
        return self._runs.get((run, markers))

    def remember_run(self, run: str, markers: frozenset[str], ids: list[int]) -> None:
        n_bytes = _BYTES_PER_ENTRY + sys.getsizeof(run) + _BYTES_PER_ID * len(ids)
        self._runs.put((run, markers), tuple(ids), n_bytes)

    def longest_start(
        self, values: tuple[LlamaTextValue, ...], markers: frozenset[str]
    ) -> tuple[Prompt, int] | None:
        """Of the latest prompts that which has most borders in what it shares with `values`, and how many."""
        found: tuple[Prompt, int] | None = None
        for prompt in self._prompts.newest(_N_PROMPTS):
            n_borders = prompt.n_borders_in(values) if prompt.markers == markers else 0
            if n_borders > (found[1] if found else 0):
                found = prompt, n_borders
            if found and found[1] == len(found[0].borders):
                break
        return found

    def remember(self, prompt: Prompt, *, instead: Prompt | None) -> None:
        """Keeps a prompt, in place of one that it goes on from."""
        self._prompts.put(id(prompt), prompt, prompt.n_bytes, instead=id(instead) if instead else None)


def n_bytes_of(values: Iterable[LlamaTextValue], n_ids: int) -> int:
    """About how many bytes a prompt takes for these values and so many ids."""
    return sum(_BYTES_PER_ENTRY + sys.getsizeof(str(value)) for value in values) + _BYTES_PER_ID * n_ids


def _n_common(some: tuple[LlamaTextValue, ...], others: tuple[LlamaTextValue, ...]) -> int:
    """How many values at the start of both are the same."""
    most, at = min(len(some), len(others)), 0
    while at + _STEP <= most and some[at : at + _STEP] == others[at : at + _STEP]:
        at += _STEP
    return next((index for index in range(at, most) if some[index] != others[index]), most)


_memories: WeakKeyDictionary[Tokenizer, Memory] = WeakKeyDictionary()
_memories_lock = threading.Lock()


def memory_of(tokenizer: Tokenizer) -> Memory:
    """The memory of a vocabulary, which lives as long as that does."""
    with _memories_lock:
        return _memories.setdefault(tokenizer, Memory())
