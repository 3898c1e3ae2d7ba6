from __future__ import annotations

import multiprocessing
import pickle
import sqlite3
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatwrap.errors import FileError, OptionError
from chatwrap.prompts.store import Datastore, SummaryCache


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abcde")), max_size=25), st.integers(1, 4))
def test_the_cache_keeps_what_was_used_last(operations: list[tuple[bool, str]], max_size: int) -> None:
    cache = SummaryCache("sqlite://", "c", max_size=max_size, clock=Clock())
    kept: dict[str, str] = {}
    for number, (is_put, key) in enumerate(operations):
        if is_put:
            kept.pop(key, None)
            kept[key] = str(number)
            while len(kept) > max_size:
                kept.pop(next(iter(kept)))
            cache.put(key, str(number))
        else:
            assert cache.get(key) == kept.get(key)
            if key in kept:
                kept[key] = kept.pop(key)
        assert len(cache) == len(kept)


def test_an_entry_lives_from_when_it_was_put() -> None:
    clock = Clock()
    cache = SummaryCache("sqlite://", "c", max_lifetime_s=10, clock=clock)
    cache.put("a", "1")
    clock.now += 5
    assert cache.get("a") == "1"
    clock.now += 5
    assert cache.get("a") is None
    cache.put("b", "2")
    assert len(cache) == 1


def test_the_first_of_many_keys_is_found() -> None:
    cache = SummaryCache("sqlite://", "c")
    for key in ("k700", "k1200"):
        cache.put(key, f"of {key}")
    assert cache.first([f"k{number}" for number in range(2000)]) == ("k700", "of k700")
    assert cache.first([]) is None


def _work(path: str, worker: int, n_operations: int, max_size: int | None) -> None:
    cache = SummaryCache(path, "c", max_size=max_size)
    for number in range(n_operations // 2):
        key = f"{worker}-{number}"
        cache.put(key, key * 10)
        found = cache.get(key)
        evicted = found is None and max_size is not None  # the other may have put many since
        if found != key * 10 and not evicted:
            raise SystemExit(f"{key} is lost")
        if max_size is not None and len(cache) > max_size:
            raise SystemExit("too many")


@pytest.mark.parametrize("start", ["spawn", "fork"])
@pytest.mark.parametrize("max_size", [None, 50])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_processes_share_a_file(tmp_path: Path, start: str, max_size: int | None) -> None:
    path = str(tmp_path / "cache.db")
    context = multiprocessing.get_context(start)
    workers = [context.Process(target=_work, args=(path, worker, 400, max_size)) for worker in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert len(SummaryCache(path, "c")) == (max_size or 400)


def _use_inherited(store: Datastore) -> None:
    SummaryCache(store, "c").put("child", "1")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_opens_connections_of_its_own(tmp_path: Path) -> None:
    store = Datastore(tmp_path / "cache.db")
    cache = SummaryCache(store, "c")
    cache.put("parent", "1")
    child = multiprocessing.get_context("fork").Process(target=_use_inherited, args=(store,))
    child.start()
    child.join()
    assert child.exitcode == 0
    cache.put("parent", "2")
    assert (cache.get("parent"), cache.get("child")) == ("2", "1")


def test_threads_share_a_memory() -> None:
    cache = SummaryCache("sqlite://", "c")
    threads = [
        threading.Thread(target=lambda n=n: [cache.put(f"{n}-{i}", "x") for i in range(50)]) for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cache) == 200


def test_a_datastore_can_be_pickled_and_closed(tmp_path: Path) -> None:
    store = Datastore(tmp_path / "cache.db")
    SummaryCache(store, "c").put("a", "1")
    assert SummaryCache(pickle.loads(pickle.dumps(store)), "c").get("a") == "1"
    store.close()
    assert SummaryCache(store, "c").get("a") == "1"


def test_other_tables_other_files_and_other_urls_are_told(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE c (cache_key TEXT, x TEXT)")
    connection.close()
    with pytest.raises(OptionError) as caught:
        SummaryCache(path, "c").get("a")
    assert str(caught.value) == (
        f"datastore sqlite:///{path}: the collection 'c' lacks cache_content, created_at, last_used_at. "
        "Name another cache_collection_name."
    )
    text = tmp_path / "text.db"
    text.write_text("no database" * 100)
    with pytest.raises(FileError, match=f"^sqlite:///{text}: .*file is not a database"):
        SummaryCache(text, "c").get("a")
    with pytest.raises(FileError, match="unable to open database file"):
        SummaryCache(tmp_path / "no/folder.db", "c").get("a")
    with pytest.raises(
        OptionError, match=r"^datastore: 'nothing://x': .*\. Give a URL that SQLAlchemy takes\.$"
    ):
        SummaryCache("nothing://x", "c").get("a")
    with pytest.raises(OptionError) as caught:
        SummaryCache("sqlite://", "")
    assert str(caught.value) == "cache_collection_name: must be a name, not ''."
