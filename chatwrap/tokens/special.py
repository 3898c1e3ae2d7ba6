"""The special tokens of a vocabulary, and where they stand in a format's control text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from weakref import WeakKeyDictionary

from chatwrap.chat.tokenizer import SpecialTokenEntry, Tokenizer

ControlPiece = str | SpecialTokenEntry


class SpecialTokens:
    """What encoding needs to know of a vocabulary's special tokens, computed once a vocabulary.

    `control_ids` must never come from content. `markers` are the user-defined tokens of more than a
    character that aren't white space: llama.cpp emits them from any text, so those that a format uses
    have to be broken up in content. The others (newline runs, letters such as ``õ``) are ordinary text.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        entries = [entry for entry in tokenizer.special_tokens.values() if entry.text]
        self.control_ids = frozenset(
            entry.token_id for entry in entries if not entry.user_defined and not entry.unknown
        )
        self.markers = tuple(entry for entry in entries if entry.user_defined and _is_marker(entry.text))
        cuttable = (entry for entry in entries if not entry.user_defined or _is_marker(entry.text))
        self._longest_first = sorted(cuttable, key=lambda entry: -len(entry.text.encode()))
        self.cut = lru_cache(maxsize=4096)(self._cut)
        self.markers_in = lru_cache(maxsize=256)(self._markers_in)

    def _markers_in(self, control_texts: frozenset[str]) -> frozenset[str]:
        """The texts of the markers that stand in `control_texts`."""
        return frozenset(
            marker.text for marker in self.markers if any(marker.text in text for text in control_texts)
        )

    def _cut(self, control_text: str) -> tuple[ControlPiece, ...]:
        """`control_text` cut at its special tokens, in llama.cpp's order: the longest token first.

        See tokenizer_st_partition in llama.cpp's src/llama-vocab.cpp.
        """
        pieces: list[ControlPiece] = [control_text]
        for entry in self._longest_first:
            if entry.text in control_text:
                pieces = [part for piece in pieces for part in _cut_at(piece, entry)]
        return tuple(pieces)


def _is_marker(text: str) -> bool:
    return len(text) > 1 and bool(text.strip())


def _cut_at(piece: ControlPiece, entry: SpecialTokenEntry) -> Iterable[ControlPiece]:
    if not isinstance(piece, str):
        yield piece
        return
    for index, text in enumerate(piece.split(entry.text)):
        if index:
            yield entry
        if text:
            yield text


_tables: WeakKeyDictionary[Tokenizer, SpecialTokens] = WeakKeyDictionary()


def special_tokens_of(tokenizer: Tokenizer) -> SpecialTokens:
    """The `SpecialTokens` of a vocabulary, made at the first call and kept as long as it lives."""
    table = _tables.get(tokenizer)
    if table is None:
        table = _tables[tokenizer] = SpecialTokens(tokenizer)
    return table
