from __future__ import annotations

import pickle

import pytest

from chatwrap.errors import (
    ChatwrapError,
    ContextOverflowError,
    Fault,
    FaultsError,
    FileError,
    HistoryError,
    ModelError,
    Position,
    TextEncodingError,
    UnknownNameError,
)

ERRORS = [
    HistoryError([Fault("a", "wrong.", "Mend it."), Fault("", "bad.", "", "  x\n  ^")]),
    TextEncodingError("Hi \ud800", 3),
    UnknownNameError("model", "x", ["y"], "`list`"),
    ContextOverflowError(10, 5),
    FileError("a: no such file."),
    ModelError("b"),
]


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (Fault("a.b", "wrong."), "a.b: wrong."),
        (Fault("a.b", "wrong.", "Mend it."), "a.b: wrong. Mend it."),
        (Fault("", "wrong."), "wrong."),
        (Fault.at("one\ntwo", 5, "wrong.", name="f.txt"), "f.txt:2:2: wrong.\n  two\n   ^"),
        (Fault.at("", 0, "empty.", "Fill it."), "1:1: empty. Fill it.\n  \n  ^"),
    ],
)
def test_the_look_of_a_fault(fault: Fault, text: str) -> None:
    assert str(fault) == text
    assert str(FaultsError([fault, fault])) == f"{text}\n{text}"


@pytest.mark.parametrize(
    ("source", "offset", "place", "excerpt"),
    [
        ("abc", 0, "1:1", "  abc\n  ^"),
        ("abc", 3, "1:4", "  abc\n     ^"),
        ("a\n\nb", 2, "2:1", "  \n  ^"),
        ("a\r\nb", 0, "1:1", "  a\n  ^"),
        ("\ta", 1, "1:2", "   a\n   ^"),
        ("x" * 200, 150, "1:151", f"  {'x' * 100}\n  {' ' * 60}^"),
    ],
)
def test_places(source: str, offset: int, place: str, excerpt: str) -> None:
    position = Position.of(source, offset)
    assert (str(position), position.excerpt) == (place, excerpt)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_survive_pickling(error: ChatwrapError) -> None:
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is type(error)
    assert str(twin) == str(error)
    assert vars(twin) == vars(error)
