from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chatwrap.output.utf8 import Utf8Decoder


@given(st.lists(st.binary(max_size=5)) | st.text().map(lambda text: [bytes([b]) for b in text.encode()]))
def test_any_chunking_decodes_as_the_whole(chunks: list[bytes]) -> None:
    decoder = Utf8Decoder()
    text = "".join(map(decoder.feed, chunks)) + decoder.flush()
    assert text == b"".join(chunks).decode("utf-8", "replace")


def test_a_cut_character_is_held_back_and_flushed_once() -> None:
    decoder = Utf8Decoder()
    assert decoder.feed("€".encode()[:2]) == ""
    assert decoder.flush() == "\ufffd"
    assert decoder.flush() == ""
    assert decoder.feed(b"a") == "a"
