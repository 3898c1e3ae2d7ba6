"""An answer's token ids as pieces of text and special tokens, in order: what is read of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import TypeAlias

from chatwrap.chat.text import SpecialTokensText
from chatwrap.chat.tokenizer import SpecialTokenEntry, Tokenizer
from chatwrap.output.stop import Stop, StopDetector
from chatwrap.output.utf8 import Utf8Decoder

Piece: TypeAlias = str | SpecialTokensText


class AnswerPieces:
    """Turns token ids into the pieces before the stop: text as `str`, special tokens as control text.

    Control tokens are pieces whatever they mean; of the user-defined ones those whose text is among
    `markers`, as all others are ordinary text (HTML tags, white space). A control token that ends the
    turn is none.

    Laws: the pieces' texts joined, without those of control tokens, are the bytes that the detector
    released, as UTF-8; a special token's text is never cut into two pieces, unless a stop cuts it.
    """

    def __init__(self, detector: StopDetector, tokenizer: Tokenizer, markers: Collection[str] = ()) -> None:
        self._detector = detector
        self._tokenizer = tokenizer
        self._markers = frozenset(markers)
        self._decoder = Utf8Decoder()
        self._marks: deque[tuple[int, SpecialTokenEntry]] = deque()
        self._pending = bytearray()
        self._n_fed = 0
        self._n_given = 0
        self._tail = b""

    @property
    def stop(self) -> Stop | None:
        """What ended the turn, None while it goes on."""
        return self._detector.stop

    @property
    def is_whole(self) -> bool:
        """Whether the last token ended with a whole character; bytes that are none count as whole."""
        return _ends_whole(self._tail)

    def feed(self, token_id: int) -> list[Piece]:
        """The pieces that are certain after one more token."""
        entry = self._tokenizer.special_tokens.get(token_id)
        is_text = entry is None or entry.user_defined
        piece = self._tokenizer.piece(token_id) if is_text else b""
        if is_text:
            if entry is not None and entry.text in self._markers:
                self._marks.append((self._n_fed, entry))
            self._n_fed += len(piece)
        self._tail = (self._tail + piece)[-4:] if is_text else b""
        self._pending += self._detector.feed(token_id)
        pieces = self._cut(at_end=False)
        if entry is not None and not is_text and self.stop is None:
            pieces += [*self._text(b"", ends=True), SpecialTokensText(entry.text)]
        return pieces if self.stop is None else [*pieces, *self._rest()]

    def flush(self) -> list[Piece]:
        """What is still held back, for when no token follows. A cut character becomes U+FFFD."""
        self._pending += self._detector.flush()
        return [*self._cut(at_end=False), *self._rest()]

    def _rest(self) -> list[Piece]:
        return [*self._cut(at_end=True), *self._text(b"", ends=True)]

    def _cut(self, *, at_end: bool) -> list[Piece]:
        """The pending bytes cut at marks; one that isn't whole yet is kept, but at the end it is text."""
        pieces: list[Piece] = []
        while self._marks and self._marks[0][0] < self._n_given + len(self._pending):
            start, entry = self._marks[0]
            size = len(entry.text.encode())
            pieces += self._text(self._take(start - self._n_given))
            if len(self._pending) < size and not at_end:
                return pieces
            self._marks.popleft()
            if len(self._pending) >= size:
                pieces += [*self._text(b"", ends=True), SpecialTokensText(entry.text)]
                self._take(size)
        return [*pieces, *self._text(self._take(len(self._pending)))]

    def _take(self, n_bytes: int) -> bytes:
        taken = bytes(self._pending[:n_bytes])
        del self._pending[:n_bytes]
        self._n_given += n_bytes
        return taken

    def _text(self, data: bytes, *, ends: bool = False) -> list[Piece]:
        text = self._decoder.feed(data) + (self._decoder.flush() if ends else "")
        return [text] if text else []


def _ends_whole(tail: bytes) -> bool:
    for n, byte in enumerate(reversed(tail), 1):
        if byte < 0x80:
            return True
        if byte >= 0xC0:
            return n >= 2 + (byte >= 0xE0) + (byte >= 0xF0)
    return True
