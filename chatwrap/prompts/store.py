"""`SummaryCache`: summaries in a table of a database, shared by threads and processes.

Law: every operation is one transaction. What was put is there until it is too old or, of more than
`max_size` entries, among those unused for longest.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from chatwrap.errors import Fault, FileError, OptionError
from chatwrap.prompts.properties import FloatProperty, Property, StringProperty

if TYPE_CHECKING:
    import sqlalchemy

_BUSY_TIMEOUT_S: Final = 60.0
_KEYS_AT_ONCE: Final = 500
_KEY_LENGTH: Final = 128
_N_TRIES: Final = 3


@dataclass(frozen=True)
class Entity:
    """What an entry of a collection consists of."""

    properties: Mapping[str, Property]


def cache_entity() -> Entity:
    """The entries of a cache: key, content, and when it was made and last used, in seconds since 1970."""
    return Entity(
        {
            "cache_key": StringProperty(),
            "cache_content": StringProperty(),
            "created_at": FloatProperty(),
            "last_used_at": FloatProperty(),
        }
    )


class Datastore:
    """A database by its SQLAlchemy URL, or a SQLite file by its path; by default SQLite in memory.

    Collections are tables, made when they are first used. It may be used from many threads, and a file or
    a server from many processes, forked ones included; it can be pickled, a memory's entries can't.
    """

    def __init__(self, url: str | Path = "sqlite://") -> None:
        text = str(url)
        self.url = text if "://" in text else f"sqlite:///{text}"
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._engine: sqlalchemy.Engine | None = None
        self._tables: dict[str, sqlalchemy.Table] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"url": self.url}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["url"])  # type: ignore[misc]

    def close(self) -> None:
        """Closes all connections; the next use opens new ones, on an empty memory."""
        with self._lock:
            if self._engine is not None:
                self._engine.dispose()
            self._engine, self._tables = None, {}

    @contextlib.contextmanager
    def transaction(self, collection: str) -> Iterator[tuple[sqlalchemy.Connection, sqlalchemy.Table]]:
        """A connection with a transaction begun, and the collection's table. Raises `FileError`."""
        from sqlalchemy.exc import SQLAlchemyError

        self._follow_fork()
        with contextlib.ExitStack() as stack:
            if self._is_memory:
                stack.enter_context(self._lock)
            try:
                table = self._table(collection)
                connection = stack.enter_context(self._connected().begin())
                yield connection, table
            except SQLAlchemyError as error:
                raise FileError(f"{self.url}: {' '.join(str(error).split())}") from error

    @property
    def _is_memory(self) -> bool:
        return self.url in ("sqlite://", "sqlite:///:memory:")

    def _follow_fork(self) -> None:
        """In a forked process, opens connections of its own: those of the parent mustn't be touched."""
        if self._process == os.getpid():
            return
        self._process, self._lock = os.getpid(), threading.RLock()
        if self._engine is not None and not self._is_memory:
            self._engine.dispose(close=False)

    def _connected(self) -> sqlalchemy.Engine:
        with self._lock:
            if self._engine is None:
                self._engine = _engine(self.url, in_memory=self._is_memory)
            return self._engine

    def _table(self, name: str) -> sqlalchemy.Table:
        with self._lock:
            if name not in self._tables:
                self._tables[name] = _created(self._connected(), name, self.url)
            return self._tables[name]


DatastoreLike: TypeAlias = Datastore | str | Path


def as_datastore(datastore: DatastoreLike) -> Datastore:
    """The datastore that `datastore` is, or is the URL or path of."""
    if isinstance(datastore, Datastore):
        return datastore
    if isinstance(datastore, str | Path):
        return Datastore(datastore)
    problem = f"of type {type(datastore).__name__}, no datastore."
    raise OptionError.of("datastore", problem, "Give a Datastore, a URL or a path.")


def _engine(url: str, *, in_memory: bool) -> sqlalchemy.Engine:
    import sqlalchemy
    from sqlalchemy import event
    from sqlalchemy.exc import SQLAlchemyError
    from sqlalchemy.pool import StaticPool

    try:
        is_sqlite = sqlalchemy.make_url(url).get_backend_name() == "sqlite"
        if not is_sqlite:
            return sqlalchemy.create_engine(url, pool_pre_ping=True)
        arguments: dict[str, Any] = {"timeout": _BUSY_TIMEOUT_S, "check_same_thread": False}
        pool = {"poolclass": StaticPool} if in_memory else {}
        engine = sqlalchemy.create_engine(url, connect_args=arguments, **pool)
    except (SQLAlchemyError, ImportError) as error:
        raise OptionError.of("datastore", f"{url!r}: {error}.", "Give a URL that SQLAlchemy takes.") from None

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions begin below, at once for writing
        if not in_memory:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")

    @event.listens_for(engine, "begin")
    def _on_begin(connection: sqlalchemy.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _created(engine: sqlalchemy.Engine, name: str, url: str) -> sqlalchemy.Table:
    """The table `name`, made if it isn't there. Raises `OptionError` if it is another kind of table."""
    import sqlalchemy
    from sqlalchemy import Column, Double, MetaData, String, Table, Text

    table = Table(
        name,
        MetaData(),
        Column("cache_key", String(_KEY_LENGTH), primary_key=True),
        Column("cache_content", Text, nullable=False),
        Column("created_at", Double, nullable=False),
        Column("last_used_at", Double, nullable=False, index=True),
    )
    with engine.begin() as connection:
        inspector = sqlalchemy.inspect(connection)
        if not inspector.has_table(name):
            table.create(connection)
            return table
        found = {column["name"] for column in inspector.get_columns(name)}
    missing = [column.name for column in table.columns if column.name not in found]
    if missing:
        problem = f"the collection {name!r} lacks {', '.join(missing)}."
        raise OptionError.of(f"datastore {url}", problem, "Name another cache_collection_name.")
    return table


class SummaryCache:
    """Texts by key in a collection: no more than `max_size`, none older than `max_lifetime_s` seconds.

    None lifts a limit. An entry's life counts from when it was put. Cost of an operation: one
    transaction, which a lookup of n keys doesn't lengthen but by n.
    """

    def __init__(
        self,
        datastore: DatastoreLike,
        collection: str,
        *,
        max_size: int | None = None,
        max_lifetime_s: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        faults = [
            Fault(name, f"must be above 0, or None for no limit, not {value!r}.")
            for name, value in (("max_cache_size", max_size), ("max_cache_lifetime", max_lifetime_s))
            if value is not None
            and (not isinstance(value, int | float) or isinstance(value, bool) or value <= 0)
        ]
        if not isinstance(collection, str) or not collection:
            faults.append(Fault("cache_collection_name", f"must be a name, not {collection!r}."))
        if faults:
            raise OptionError(faults)
        self.datastore, self.collection = as_datastore(datastore), collection
        self.max_size, self.max_lifetime_s = max_size, max_lifetime_s
        self._clock = clock

    def __len__(self) -> int:
        """How many entries there are, those too old included until the next is put."""
        import sqlalchemy

        with self.datastore.transaction(self.collection) as (connection, table):
            return int(connection.scalar(sqlalchemy.select(sqlalchemy.func.count()).select_from(table)) or 0)

    def get(self, key: str) -> str | None:
        """The text of a key, which is used by that; None if there is none, or it is too old."""
        found = self.first([key])
        return None if found is None else found[1]

    def first(self, keys: Sequence[str]) -> tuple[str, str] | None:
        """The first of `keys` that there is a text for, with the text, which is used by that."""
        from sqlalchemy import select, update

        with self.datastore.transaction(self.collection) as (connection, table):
            now = self._clock()  # the wait for the transaction is over
            for start in range(0, len(keys), _KEYS_AT_ONCE):
                some = keys[start : start + _KEYS_AT_ONCE]
                wanted = select(table.c.cache_key, table.c.cache_content).where(table.c.cache_key.in_(some))
                if self.max_lifetime_s is not None:
                    wanted = wanted.where(table.c.created_at > now - self.max_lifetime_s)
                found = {row[0]: row[1] for row in connection.execute(wanted)}
                key = next((key for key in some if key in found), None)
                if key is not None:
                    used = update(table).where(table.c.cache_key == key).values(last_used_at=now)
                    connection.execute(used)
                    return key, str(found[key])
        return None

    def put(self, key: str, content: str) -> None:
        """Keeps a text under a key, and lets go of what is too old or too much."""
        from sqlalchemy.exc import IntegrityError

        for _ in range(_N_TRIES):
            try:
                return self._put(key, content)
            except FileError as error:  # a server lets two put one key at a time
                if not isinstance(error.__cause__, IntegrityError):
                    raise
        return self._put(key, content)

    def _put(self, key: str, content: str) -> None:
        from sqlalchemy import delete, insert, update

        with self.datastore.transaction(self.collection) as (connection, table):
            now = self._clock()  # the wait for the transaction is over
            entry = {"cache_content": content, "created_at": now, "last_used_at": now}
            if self.max_lifetime_s is not None:
                connection.execute(delete(table).where(table.c.created_at <= now - self.max_lifetime_s))
            changed = connection.execute(update(table).where(table.c.cache_key == key).values(**entry))
            if not changed.rowcount:
                connection.execute(insert(table).values(cache_key=key, **entry))
            self._evict(connection, table, key)

    def _evict(self, connection: sqlalchemy.Connection, table: sqlalchemy.Table, kept: str) -> None:
        """Lets go of the entries unused for longest, until there are no more than `max_size`."""
        from sqlalchemy import delete, func, select

        if self.max_size is None:
            return
        n_entries = connection.scalar(select(func.count()).select_from(table)) or 0
        if n_entries <= self.max_size:
            return
        oldest = (
            select(table.c.cache_key)
            .where(table.c.cache_key != kept)
            .order_by(table.c.last_used_at)
            .limit(n_entries - self.max_size)
        )
        keys = list(connection.scalars(oldest))
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            some = keys[start : start + _KEYS_AT_ONCE]
            connection.execute(delete(table).where(table.c.cache_key.in_(some)))
