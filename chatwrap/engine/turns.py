"""Whose turn it is: a llama.cpp context answers one prompt at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakKeyDictionary

import llama_cpp

from chatwrap.errors import ModelError

_POLL_S: Final = 0.05


class Turns:
    """Hands a model from one answer to the next.

    An answer that is waiting for its reader gives way to a new one of the same thread; a new one of
    another thread waits, or takes over if it may not wait. Nothing ever takes over in the middle of an
    evaluation. An answer that lost its turn raises `ModelError` when it is asked to go on.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holder: Turn | None = None
        self._thread_id: int | None = None
        self._evaluating = False

    def turn(self, *, wait: bool = True) -> Turn:
        """A turn to be taken with ``with``. Without `wait` it takes over from a resting answer."""
        return Turn(self, wait=wait)

    def take(self, turn: Turn, aborted: Callable[[], bool], *, wait: bool) -> None:
        with self._changed:
            while self._must_wait(wait=wait) and not aborted():
                self._changed.wait(_POLL_S)
            if not self._must_wait(wait=wait):
                self._holder, self._thread_id = turn, threading.get_ident()

    def _must_wait(self, *, wait: bool) -> bool:
        mine = self._thread_id == threading.get_ident()
        if self._evaluating and mine:
            raise ModelError("model: asked for an answer by a callback of an answer. Ask after it has ended.")
        return self._evaluating or (wait and self._holder is not None and not mine)

    def leave(self, turn: Turn) -> None:
        with self._changed:
            if self._holder is turn:
                self._holder = None
                self._changed.notify_all()

    def start_evaluating(self, turn: Turn) -> None:
        with self._changed:
            if self._holder is not turn:
                raise ModelError("answer: the model has begun another one since. Read one to its end first.")
            self._thread_id, self._evaluating = threading.get_ident(), True

    def stop_evaluating(self) -> None:
        with self._changed:
            self._evaluating = False
            self._changed.notify_all()


class Turn:
    """The right of one answer to use a model, from `take` to `leave`."""

    def __init__(self, turns: Turns, *, wait: bool) -> None:
        self._turns = turns
        self._wait = wait

    @contextmanager
    def taken(self, aborted: Callable[[], bool]) -> Iterator[None]:
        """Has the turn for a ``with`` block. Where `aborted` ends the wait for it, it isn't had."""
        self._turns.take(self, aborted, wait=self._wait)
        try:
            yield
        finally:
            self._turns.leave(self)

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Uses the model for a ``with`` block. Raises `ModelError` if another answer has the turn."""
        self._turns.start_evaluating(self)
        try:
            yield
        finally:
            self._turns.stop_evaluating()


_turns: WeakKeyDictionary[llama_cpp.Llama, Turns] = WeakKeyDictionary()
_turns_lock = threading.Lock()


def turns_of(llama: llama_cpp.Llama) -> Turns:
    """The `Turns` of a model: the same for whoever uses it."""
    with _turns_lock:
        return _turns.setdefault(llama, Turns())
