from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from chatwrap.chat.text import LlamaText, SpecialTokensText, control
from chatwrap.output.pieces import AnswerPieces, Piece
from chatwrap.output.stop import StopDetector

from .test_stop import BLANK, END, EOS, TOOL, Bytes


def run(
    ids: Sequence[int],
    triggers: Sequence[str] = (),
    stops: Sequence[str] = (),
    vocabulary: Bytes | None = None,
) -> tuple[list[Piece], AnswerPieces]:
    vocabulary = vocabulary or Bytes()
    detector = StopDetector(map(control, triggers), vocabulary, stops)
    pieces = AnswerPieces(detector, vocabulary, ["<tool>"])
    given: list[Piece] = [piece for token_id in ids for piece in pieces.feed(token_id)]
    return [*given, *pieces.flush()], pieces


def text(*pieces: Piece) -> LlamaText:
    return LlamaText(*pieces)


def test_special_tokens_stand_where_they_came() -> None:
    pieces, _ = run([*b"a", END, *b"b", TOOL, *b"c", BLANK, EOS])
    assert pieces == ["a", SpecialTokensText("<|end|>"), "b", SpecialTokensText("<tool>"), "c", "\n\n"]


def test_user_defined_tokens_that_mark_nothing_are_text() -> None:
    vocabulary = Bytes()
    pieces = AnswerPieces(StopDetector([], vocabulary), vocabulary)
    assert pieces.feed(TOOL) == ["<tool>"]


def test_a_mark_that_a_stop_might_begin_in_is_held_whole() -> None:
    vocabulary = Bytes()
    pieces = AnswerPieces(StopDetector([], vocabulary, ["ol>x", "\nQ"]), vocabulary, ["<tool>"])
    assert pieces.feed(TOOL) == [] and pieces.feed(ord("y")) == [SpecialTokensText("<tool>"), "y"]
    assert pieces.feed(TOOL) == [] and pieces.feed(ord("x")) == ["<to"]
    assert pieces.stop is not None and pieces.flush() == []


def test_a_trigger_may_be_a_mark() -> None:
    assert run([*b"a", TOOL, *b"b"], triggers=["<tool>"])[0] == ["a"]
    assert run([*b"a", END, *b"b"], triggers=["<|end|>"])[0] == ["a"]


def test_characters_are_whole() -> None:
    pieces, answer = run("é".encode()[:1])
    assert (pieces, answer.is_whole) == (["�"], False)
    assert run("é".encode())[1].is_whole and run("a€🐍".encode())[1].is_whole
    assert not run("🐍".encode()[:3])[1].is_whole and run(b"\x80" * 5)[1].is_whole
    assert run([*"é".encode()[:1], END, *b"x"])[0] == ["�", SpecialTokensText("<|end|>"), "x"]


@given(
    st.lists(st.one_of(st.sampled_from([END, TOOL, BLANK]), st.sampled_from([*"<tol>ab\n€".encode()]))),
    st.lists(st.sampled_from(["ol>", "<tool>a", "\n\nb", "b<", "€"]), max_size=2),
)
def test_nothing_is_lost_and_marks_stay_whole(ids: list[int], stops: list[str]) -> None:
    pieces, answer = run(ids, stops=stops)
    detector = StopDetector([], Bytes(), stops)
    released = b"".join([*map(detector.feed, ids), detector.flush()])
    n_read = ids.index(END) if END in ids else len(ids)
    if END not in ids:
        assert "".join(map(str, pieces)) == released.decode("utf-8", "replace")
    if not stops:
        wanted = text(*(SpecialTokensText("<tool>") if i == TOOL else "" for i in ids[:n_read]))
        marks = [piece for piece in run(ids[:n_read])[0] if isinstance(piece, SpecialTokensText)]
        assert text(*marks) == wanted
        assert "".join(str(p) for p in pieces if str(p) != "<|end|>" or isinstance(p, str)).count(
            "<tool>"
        ) >= (ids.count(TOOL))
    assert answer.stop == detector.stop
