"""Bytes to text while they arrive: tokens may end in the middle of a character."""

from __future__ import annotations

import codecs


class Utf8Decoder:
    """Turns chunks of UTF-8 bytes into text, holding back a character that isn't whole yet.

    Law: for any chunking, the texts joined are ``whole.decode("utf-8", "replace")``.

    >>> decoder = Utf8Decoder()
    >>> decoder.feed(b"caf\\xc3"), decoder.feed(b"\\xa9"), decoder.flush()
    ('caf', 'é', '')
    """

    __slots__ = ("_decoder",)

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, chunk: bytes) -> str:
        """The text that is certain after `chunk`; bytes that can't be UTF-8 become U+FFFD."""
        return self._decoder.decode(chunk)

    def flush(self) -> str:
        """What was held back, a cut character as U+FFFD. The decoder is then as new."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text
