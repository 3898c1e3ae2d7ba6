"""Byte-pair encoding on tiktoken's Rust core, from a vocabulary's own tokens and merges.

tiktoken knows a merge by the bytes it makes, llama.cpp by its two halves; the ids are the same where
no token can be put together from other halves than its merges name, which holds for vocabularies as they
are trained. Whoever makes an encoder compares it with llama.cpp's (`SAMPLES`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, TypeAlias

from tiktoken import _tiktoken  # type: ignore[attr-defined]

from chatwrap.tokens.pretokenizers import PreTokenizer

_MARK: Final = "\u2581"
_SEVERAL: Final = -1
_PART: Final = 100_000
_BETWEEN_WORDS: Final = re.compile("[a-z] [a-z]")
_MOST_INNER: Final = 32
_LINES: Final = r"[^\n]+|\n+"
_INNER_MARK: Final = re.compile(b".(?<!%(mark)b)%(mark)b" % {b"mark": _MARK.encode()}, re.DOTALL)

_Ids: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BytePairs:
    """A vocabulary's data: `tokens` by id and `merges`, best first, as the file writes them.

    `plain_texts` are the user-defined tokens by text, which llama.cpp finds before all else.
    """

    tokens: Sequence[bytes]
    merges: Sequence[bytes]
    plain_texts: Mapping[str, int]
    pre_tokenizer: PreTokenizer


class BytePairEncoder:
    """Text to token ids, special tokens off; about 12 MB/s. Immutable, so threads may share it.

    Making one takes 0.1 to 1 s, with the size of the vocabulary. Raises `ValueError` for tokens that
    aren't written as the pre-tokenizer wants them.
    """

    def __init__(self, pairs: BytePairs) -> None:
        words = pairs.pre_tokenizer
        self._marked = words.spaces_are_marked
        self._cuts_at_spaces = words.cuts_at_spaces
        self._n_tokens = len(pairs.tokens)
        self._plain = _PlainTexts(pairs.plain_texts)
        self._words = _whole_words(pairs) if words.ignores_merges else ()
        ids_of = _marked_ids(pairs) if self._marked else _byte_level_ids(pairs)
        pattern = _marked_pattern(ids_of) if self._marked else words.pattern
        ranks = self._build(ids_of, pattern)
        if not words.ignores_merges and (hidden := _unreachable(ranks, self._core)):
            self._build({text: ids for text, ids in ids_of.items() if text not in hidden}, pattern)

    def may_write(self, token_ids: Collection[int]) -> bool:
        """Whether any text has one of these ids."""
        written = {*self._ids, *self._plain.ids, *(n for ids in self._several.values() for n in ids)}
        return not written.isdisjoint(token_ids)

    def _build(self, ids_of: Mapping[bytes, _Ids], pattern: str) -> Mapping[bytes, int]:
        """Makes the core, and what its ranks are written with; gives the ranks back."""
        ranks = _ids_as_ranks(ids_of, self._n_tokens)
        self._ranks_are_ids = ranks is not None
        ranks = ranks or {text: rank for rank, text in enumerate(ids_of)}
        self._ids = [ids[0] if len(ids) == 1 else _SEVERAL for ids in ids_of.values()]
        self._several = {ranks[text]: ids for text, ids in ids_of.items() if len(ids) != 1}
        self._writes_ascii = all(len(ids_of[_one_byte(byte)]) == 1 for byte in range(128))
        self._core = _tiktoken.CoreBPE(ranks, {}, pattern)
        return ranks

    def encode(self, text: str) -> list[int] | None:
        """The ids of `text`, which may hold no lone surrogate.

        None where llama.cpp has to be asked: for thousands of digits or of white space in a row, which
        Rust's regex engine gives up on, and for a word that is a token though no merges make it.
        """
        if _is_tricky(text) or any(word in text for word in self._words):
            return None
        try:
            return [token_id for piece in self._plain.cut(text) for token_id in self._ids_of_piece(piece)]
        except _GaveUpError:
            return None

    def _ids_of_piece(self, piece: str | int) -> Sequence[int]:
        return (piece,) if isinstance(piece, int) else self._run_ids(piece)

    def _run_ids(self, text: str) -> list[int]:
        ranks = self._ranks(text.replace(" ", _MARK) if self._marked else text)
        if self._ranks_are_ids:
            if text.isascii() and self._writes_ascii:
                return ranks
            if not self._several or max(ranks, default=0) < self._n_tokens:
                return ranks
            return [token_id for rank in ranks for token_id in self._several.get(rank, (rank,))]
        known = self._ids
        ids = [known[rank] for rank in ranks]
        if not self._several or _SEVERAL not in ids:
            return ids
        return [token_id for rank in ranks for token_id in self._several.get(rank, (known[rank],))]

    def _ranks(self, text: str) -> list[int]:
        try:
            if self._cuts_at_spaces and len(text) >= 2 * _PART:
                return self._ranks_of_parts(list(_parts(text)))
            ranks: list[int] = self._core.encode_ordinary(text)
            return ranks
        except BaseException as panic:
            if type(panic).__module__ != "pyo3_runtime":
                raise
            raise _GaveUpError from panic

    def _ranks_of_parts(self, parts: Sequence[str]) -> list[int]:
        """The ranks of a long text on all CPUs: Rust lets go of Python's lock while it works."""
        with ThreadPoolExecutor(min(len(parts), os.cpu_count() or 1)) as pool:
            return list(chain.from_iterable(pool.map(self._core.encode_ordinary, parts)))


def _parts(text: str) -> Iterator[str]:
    """A text cut between a letter and a space with a letter behind it, where a word ends anyhow."""
    start = 0
    while len(text) - start >= 2 * _PART and (end := _BETWEEN_WORDS.search(text, start + _PART)):
        yield text[start : end.start() + 1]
        start = end.start() + 1
    yield text[start:]


class _GaveUpError(Exception):
    """The regex engine's own error, which Rust raises beside all of Python's exceptions."""


def _unreachable(texts: Iterable[bytes], core: Any) -> frozenset[bytes]:
    """The tokens that merging their own bytes doesn't make: other merges come first, always.

    tiktoken takes a word that is a token for that token, so these mustn't be there. A byte that no
    merge has, put behind a text, makes it merge the text.
    """
    made = [text for text in texts if len(text) > 2]
    used = set(b"".join(made))
    end = next((_one_byte(byte) for byte in range(255, -1, -1) if byte not in used), None)
    if end is None:
        raise ValueError("every byte is in a merge, so none shows what merges alone make")
    merge = core.encode_single_piece
    return frozenset(text for text in made if len(merge(text + end)) != 2)


def _one_byte(byte: int) -> bytes:
    return bytes([byte])


def _ids_as_ranks(ids_of: Mapping[bytes, _Ids], n_tokens: int) -> dict[bytes, int] | None:
    """The ids themselves as ranks, if they go up as the merges do; then nothing has to be looked up.

    A byte without a token has a rank past all ids. None where a token has a lower id than one that is
    made before it, or a merge makes no token.
    """
    ranks: dict[bytes, int] = {}
    last = -1
    for text, ids in ids_of.items():
        if len(text) > 1:
            if len(ids) != 1 or ids[0] <= last:
                return None
            last = ids[0]
        ranks[text] = ids[0] if ids else n_tokens + text[0]
    return ranks


def _byte_level_ids(pairs: BytePairs) -> dict[bytes, _Ids]:
    """What each text that merges can make is written with, by its bytes, best first.

    The file writes a byte as one printable character. A text that isn't a token is written by the
    tokens of its characters, but only of ASCII ones, and a byte without a token not at all: see
    `llm_tokenizer_bpe_session::tokenize` in llama.cpp's src/llama-vocab.cpp.
    """
    id_of = {token: token_id for token_id, token in enumerate(pairs.tokens)}
    written = dict.fromkeys(chr(code).encode() for code in _BYTE_OF)
    written.update(dict.fromkeys(_made(pairs.merges)))
    ids_of: dict[bytes, _Ids] = {}
    for spelling in written:
        token_id = id_of.get(spelling)
        ids = _ids_of_bytes(spelling, id_of) if token_id is None else (token_id,)
        ids_of[spelling.decode().translate(_BYTE_OF).encode("latin-1")] = ids
    return ids_of


def _marked_ids(pairs: BytePairs) -> dict[bytes, _Ids]:
    """The same for tokens written as text, in which bytes have names such as ``<0x0A>``.

    Merges join characters there: what joins a character's bytes comes before all merges.
    """
    id_of = {token: token_id for token_id, token in enumerate(pairs.tokens)}
    texts = dict.fromkeys(_made(pairs.merges))
    characters = {character.encode() for text in texts for character in text.decode()}
    characters |= {token for token in pairs.tokens if 1 < len(token) <= 4 and len(token.decode()) == 1}
    singles = list(map(_one_byte, range(256)))
    starts = [character[:n] for n in (2, 3, 4) for character in sorted(characters) if len(character) >= n]
    ids_of: dict[bytes, _Ids] = {}
    for text in dict.fromkeys([*singles, *starts, *sorted(characters), *texts]):
        token_id = id_of.get(text)
        ids_of[text] = _named_bytes(text, id_of) if token_id is None else (token_id,)
    return ids_of


def _marked_pattern(texts: Iterable[bytes]) -> str:
    """Cuts lines in front of marks too, where no merge joins what stands on the two sides.

    A few tokens may have a mark inside (``>▁</``): they are kept whole, if none may overlap another.
    """
    inner = [text.decode("utf-8", "ignore") for text in texts if _INNER_MARK.search(text)]
    if len(inner) > _MOST_INNER or any(_overlap(one, other) for one in inner for other in inner):
        return _LINES
    kept = "".join(f"{re.escape(text)}|" for text in inner)
    return rf"{_MARK}*(?:{kept}[^{_MARK}\n])+|{_MARK}+|\n+"


def _overlap(one: str, other: str) -> bool:
    """Whether an end of `one` starts `other`, or stands in it."""
    ends = (one[at:] for at in range(1, len(one)))
    return (one != other and other in one) or any(other.startswith(end) for end in ends)


def _ids_of_bytes(spelling: bytes, id_of: Mapping[bytes, int]) -> _Ids:
    return tuple(
        id_of[byte] for byte in (spelling[at : at + 1] for at in range(len(spelling))) if byte in id_of
    )


def _made(merges: Iterable[bytes]) -> Iterator[bytes]:
    """What each merge makes; its halves are parted by the first space that isn't its first character."""
    for merge in merges:
        at = merge.find(b" ", 1)
        if at > 0:
            yield merge[:at] + merge[at + 1 :]


def _named_bytes(text: bytes, id_of: Mapping[bytes, int]) -> _Ids:
    return tuple(id_of[name] for name in (b"<0x%02X>" % byte for byte in text) if name in id_of)


def _whole_words(pairs: BytePairs) -> tuple[str, ...]:
    """Tokens that no merges make but that a word of some text may be as a whole.

    A text is a word if the only piece it is cut into is itself, here a rank of its own.
    """
    made = {*_made(pairs.merges), *(chr(code).encode() for code in _BYTE_OF)}
    spellings = (token.decode("utf-8", "replace") for token in pairs.tokens if token not in made)
    written = [spelling for spelling in spellings if spelling and set(map(ord, spelling)) <= _BYTE_OF.keys()]
    texts = dict.fromkeys(spelling.translate(_BYTE_OF).encode("latin-1") for spelling in written)
    singles = list(map(_one_byte, range(256)))
    ranks = {text: rank for rank, text in enumerate(dict.fromkeys([*singles, *texts]))}
    core = _tiktoken.CoreBPE(ranks, {}, pairs.pre_tokenizer.pattern)
    words = [text.decode() for text in texts if _is_utf8(text)]
    return tuple(word for word in words if core.encode_ordinary(word) == [ranks[word.encode()]])


def _is_utf8(text: bytes) -> bool:
    return text.decode("utf-8", "ignore").encode() == text


class _PlainTexts:
    """Finds the user-defined tokens of a text in llama.cpp's order: the longest token first, everywhere."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        self.ids = tuple(ids.values())
        longest_first = sorted(ids.items(), key=lambda item: -len(item[0].encode()))
        self._groups: dict[str, list[tuple[str, int]]] = {}
        self._order = {text: index for index, (text, _) in enumerate(longest_first)}
        for text, token_id in longest_first:
            self._groups.setdefault(text[0], []).append((text, token_id))
        self._starts = {_common_start([text for text, _ in group]): group for group in self._groups.values()}

    def cut(self, text: str) -> Sequence[str | int]:
        """`text` cut at them: texts, and ids."""
        found = [
            item
            for start, group in self._starts.items()
            if start in text
            for item in group
            if item[0] in text
        ]
        pieces: list[str | int] = [text]
        for token_text, token_id in sorted(found, key=lambda item: self._order[item[0]]):
            pieces = [part for piece in pieces for part in _cut_at(piece, token_text, token_id)]
        return pieces


def _common_start(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)
    n_common = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:n_common]


def _cut_at(piece: str | int, text: str, token_id: int) -> Iterator[str | int]:
    if isinstance(piece, int):
        yield piece
        return
    for index, part in enumerate(piece.split(text)):
        if index > 0:
            yield token_id
        if part:
            yield part


def _alphabet() -> dict[int, int]:
    """The byte that each character of GPT-2's alphabet stands for, by code point.

    See bytes_to_unicode in https://github.com/openai/gpt-2/blob/master/src/encoder.py.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return dict(zip(printable, printable, strict=True)) | {256 + n: byte for n, byte in enumerate(others)}


_BYTE_OF: Final = _alphabet()

_NEAR, _FAR = 250, 50_000
_NUMERALS: Final = re.compile(r"[^\W_a-zA-Z]{2000}")


def _is_tricky(text: str) -> bool:
    """Whether Rust's regex engine may give up on a text, or take a time that is quadratic in it.

    It gives up after a million steps inside one word, which has no letters then, and it may look through
    a run of numerals for each of them. Such runs show in a few characters of the text.
    """
    if len(text) > 9 * _FAR and " " * 9 in _marked_where(str.isalpha, text[::_FAR]):
        return True
    return "x" * 7 in _marked_where(str.isnumeric, text[::_NEAR]) and _NUMERALS.search(text) is not None


def _marked_where(holds: Callable[[str], bool], text: str) -> str:
    return "".join("x" if holds(character) else " " for character in text)
