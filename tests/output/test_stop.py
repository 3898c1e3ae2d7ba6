from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatwrap.chat.text import LlamaText, SpecialToken, control
from chatwrap.chat.tokenizer import SpecialTokenEntry
from chatwrap.errors import ChatwrapError
from chatwrap.output.stop import Stop, StopDetector

EOS, END, TOOL, BLANK, NL = 256, 257, 258, 259, 10
WORDS = 1000


@dataclass
class Bytes:
    """A vocabulary of the 256 bytes, a few special tokens, and words that a test adds."""

    words: list[bytes] = field(default_factory=list)
    adds_bos = False
    special_tokens: Mapping[int, SpecialTokenEntry] = field(
        default_factory=lambda: {
            EOS: SpecialTokenEntry(EOS, "</s>"),
            END: SpecialTokenEntry(END, "<|end|>"),
            TOOL: SpecialTokenEntry(TOOL, "<tool>", user_defined=True),
            BLANK: SpecialTokenEntry(BLANK, "\n\n", user_defined=True),
        }
    )

    def role_id(self, name: str) -> int | None:
        return {"EOS": EOS, "NL": NL}.get(name)

    def is_end_of_generation(self, token_id: int) -> bool:
        return token_id == EOS

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        ids: list[int] = []
        while text:
            entry = next(
                (e for e in self.special_tokens.values() if special and text.startswith(e.text)), None
            )
            ids += [entry.token_id] if entry else list(text[0].encode())
            text = text[len(entry.text) if entry else 1 :]
        return ids

    def piece(self, token_id: int) -> bytes:
        if token_id >= WORDS:
            return self.words[token_id - WORDS]
        return bytes([token_id]) if token_id < 256 else self.special_tokens[token_id].text.encode()

    def word(self, piece: bytes) -> int:
        self.words.append(piece)
        return WORDS + len(self.words) - 1


def run(
    tokens: Sequence[int | bytes | str],
    triggers: Sequence[LlamaText] = (),
    stop_strings: Sequence[str] = (),
) -> tuple[bytes, Stop | None]:
    """Everything that is released, and the stop; texts are fed as one token each."""
    vocabulary = Bytes()
    detector = StopDetector(triggers, vocabulary, stop_strings)
    released = b""
    for token in tokens:
        piece = token.encode() if isinstance(token, str) else token
        released += detector.feed(vocabulary.word(piece) if isinstance(piece, bytes) else piece)
    return released + detector.flush(), detector.stop


def test_a_special_token_at_the_start_of_a_trigger_stops_alone() -> None:
    assert run(["Hi", END, "x"], [control("<|end|>\n")]) == (b"Hi", Stop("stop_trigger", "<|end|>", END))


def test_the_same_text_as_content_does_not_stop_by_id_but_as_text() -> None:
    plain = LlamaText("<|end|>\n")
    assert run(["Hi", END, "!"], [plain]) == (b"Hi!", None)
    assert run(["Hi<|en", "d|>", "\nmore"], [plain]) == (b"Hi", Stop("stop_trigger", "<|end|>\n"))


def test_text_before_a_special_token_is_cut_when_the_token_comes() -> None:
    trigger = control(" </s>")
    assert run(["Hi", " ", EOS], [trigger]) == (b"Hi", Stop("stop_trigger", " </s>", EOS))
    assert run(["Hi", " ", "you"], [trigger]) == (b"Hi you", None)
    assert run(["Hi", EOS], [trigger]) == (b"Hi", Stop("end_of_generation", "</s>", EOS))


def test_end_of_generation_tokens_stop_always_and_give_no_text() -> None:
    assert run(["Hi", EOS, "more"]) == (b"Hi", Stop("end_of_generation", "</s>", EOS))


def test_roles_stop_by_id_and_missing_roles_are_dropped() -> None:
    triggers = [LlamaText(SpecialToken("EOS")), LlamaText(SpecialToken("EOT"))]
    assert run(["Hi", EOS], triggers) == (b"Hi", Stop("stop_trigger", "</s>", EOS))


def test_a_new_line_role_is_text() -> None:
    newline = LlamaText(SpecialToken("NL"))
    assert run(["a", "b\nc"], [newline]) == (b"ab", Stop("stop_trigger", "NL"))


def test_a_control_token_breaks_a_text_match_and_is_invisible() -> None:
    assert run(["#", END, "##!", "###"], [LlamaText("###")]) == (b"###!", Stop("stop_trigger", "###"))


def test_user_defined_markers_stop_by_their_text_and_white_space_does_not() -> None:
    assert run(["a", TOOL, "b"], [control("<tool>\n")]) == (b"a", Stop("stop_trigger", "<tool>\n"))
    assert run(["a", BLANK, "b"], [control("\n\n### User")]) == (b"a\n\nb", None)
    assert run(["a", BLANK, "### User"], [control("\n\n### User")])[0] == b"a"


def test_a_stop_string_matches_text_and_special_tokens() -> None:
    assert run(["a", END], stop_strings=["<|end|>"]) == (b"a", Stop("stop_string", "<|end|>", END))
    assert run(["a<|end|>"], stop_strings=["<|end|>"]) == (b"a", Stop("stop_string", "<|end|>"))


def test_triggers_and_stop_strings_are_united_without_empty_and_double_ones() -> None:
    stops = ["", "Obs", "###"]
    assert run(["a###"], [LlamaText(), LlamaText("###")], stops) == (b"a", Stop("stop_trigger", "###"))
    assert run(["aObs"], [LlamaText("###")], stops) == (b"a", Stop("stop_string", "Obs"))


def test_the_earliest_end_wins_then_the_earliest_start() -> None:
    assert run(["xabcd"], stop_strings=["abcd", "c"]) == (b"xab", Stop("stop_string", "c"))
    assert run(["xabc"], stop_strings=["c", "abc", "bc"]) == (b"x", Stop("stop_string", "abc"))


def test_a_stop_inside_a_character_spread_over_tokens() -> None:
    euro = "€".encode()
    assert run([b"a" + euro[:1], euro[1:2], euro[2:] + b"b"], stop_strings=["€"])[0] == b"a"


@pytest.mark.parametrize(
    ("stop", "message"),
    [
        (7, "stop: must hold strings, not 7."),
        (
            "a\ud800",
            "text[1]: lone surrogate U+D800 after 'a'. "
            "Replace it, for example with text.encode('utf-8', 'replace').decode().",
        ),
    ],
)
def test_bad_stop_strings_are_refused(stop: str, message: str) -> None:
    with pytest.raises(ChatwrapError) as error:
        StopDetector([], Bytes(), [stop])
    assert str(error.value) == message


BYTES = st.text("ab#é€", max_size=12).map(str.encode)
PIECES = st.lists(BYTES | st.sampled_from([END, EOS, b"\xc3", b"\xa9"]), max_size=12)
TRIGGERS = st.lists(st.text("ab#é", max_size=4), max_size=4)


def expected(symbols: Sequence[int], stops: Sequence[Sequence[int]]) -> tuple[bytes, int | None]:
    """What the law says: the visible bytes before the earliest stop, and where that stop ends."""
    for end in range(1, len(symbols) + 1):
        ending = [len(stop) for stop in stops if list(symbols[:end])[-len(stop) :] == list(stop)]
        if ending:
            return bytes(s for s in symbols[: end - max(ending)] if s < 256), end
    return bytes(s for s in symbols if s < 256), None


@given(PIECES, TRIGGERS, st.booleans())
def test_earliest_stop_for_any_chunking(pieces: list[bytes | int], stops: list[str], with_end: bool) -> None:
    vocabulary = Bytes()
    triggers = [control("#<|end|>")] if with_end else []
    detector = StopDetector(triggers, vocabulary, stops)
    patterns = [list(stop.encode()) for stop in stops if stop] + [[EOS]]
    patterns += [[*b"#", END]] if with_end else []
    symbols: list[int] = []
    released = b""
    for piece in pieces:
        if detector.stop:
            break
        symbols += [piece] if isinstance(piece, int) else piece
        released += detector.feed(piece if isinstance(piece, int) else vocabulary.word(piece))
        text, end = expected(symbols, patterns)
        assert (detector.stop is not None) == (end is not None)
        n_held = 0 if end else longest_beginning(symbols, patterns)
        assert released == text[: len(text) - n_held]
    assert released + detector.flush() == expected(symbols, patterns)[0]


def longest_beginning(symbols: Sequence[int], patterns: Sequence[Sequence[int]]) -> int:
    """The length of the longest end of `symbols` that a pattern begins with, and goes on after."""
    lengths = range(min(len(symbols), max(map(len, patterns)) - 1), 0, -1)
    tails = (list(symbols[-n:]) for n in lengths)
    return next(
        (len(t) for t in tails if any(list(p[: len(t)]) == t for p in patterns if len(p) > len(t))), 0
    )


@given(st.lists(st.sampled_from([b"a", b"b", b"#"]), max_size=30), TRIGGERS, st.data())
def test_cutting_the_same_bytes_otherwise_changes_nothing(
    singles: list[bytes], stops: list[str], data: st.DataObject
) -> None:
    whole = b"".join(singles)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert run(chunks, stop_strings=stops) == run(singles, stop_strings=stops)
