"""Vectors in a table of PostgreSQL, as pgvector keeps them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from dygcn._extras import extra
from dygcn.errors import OptionError, SinkError
from dygcn.serving.sinks.histories import check_history
from dygcn.serving.sinks.settings import (
    DAY,
    YEAR,
    OnOtherHistory,
    Settings,
    check_name,
    check_seconds,
    without,
)
from dygcn.serving.sinks.shape import Shape, check_finite, opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from dygcn.engine.records import History, Rows
    from dygcn.serving.sinks.postgres_table import Table

_PART = r"[A-Za-z_][A-Za-z0-9_]{0,54}"  # PostgreSQL cuts names at 63 bytes; ours grow by "_history"
_FORGET_EVERY = 3600.0  # seconds
_Result = TypeVar("_Result")
_NO_NAN = "pgvector refuses NaN and infinity: look for what made it (a rolled run may have exploded)"


class PostgresSettings(Settings, frozen=True, tag="postgres"):
    """Where rows go in PostgreSQL.

    Parameters
    ----------
    url
        Address as libpq takes it: ``postgresql://user@host/database``, or ``host=... dbname=...``. A
        password is better kept out of it: in ``PGPASSWORD`` or ``~/.pgpass``.
    table
        Its name, or a schema's and its name; made if it is not there.
    index
        ``"hnsw"`` keeps an index for nearest neighbours by cosine, and makes writes many times slower;
        ``"none"`` leaves indexes to you. On a table that is large already, make it yourself.
    keep_left
        Seconds for which the hash of an id that left is remembered, in ``<table>_left``: for that long, a
        late repeat of an older write does not bring it back.
    timeout
        Seconds that connecting, and each statement, may take.
    other_history
        Action if the table holds rows of another history; see
        `dygcn.serving.sinks.settings.OnOtherHistory`.

    Examples
    --------
    >>> PostgresSettings(url="postgresql://app:s3cret@db.example/vectors", table="live.nodes")
    PostgresSettings(url='postgresql://db.example/vectors', table='live.nodes', index='none', ...)
    >>> PostgresSettings(url="", table="nodes; DROP TABLE users")
    Traceback (most recent call last):
    ...
    dygcn.errors.OptionError: table is 'nodes; DROP TABLE users'; allowed is a name of letters, ...
    """

    url: str
    table: str = "dygcn_vectors"
    index: Literal["none", "hnsw"] = "none"
    keep_left: float = DAY
    timeout: float = 60.0
    other_history: OnOtherHistory = "rewrite"

    def __post_init__(self) -> None:
        allowed = "a name of letters, digits and _, at most 55, with a schema's and a dot before it or not"
        check_name("table", self.table, rf"(?:{_PART}\.)?{_PART}", allowed)
        check_seconds("keep_left", self.keep_left, YEAR)
        check_seconds("timeout", self.timeout, DAY)


class PostgresSink:
    """A table with a row for each node, equal to the live vectors.

    Its columns are ``id``, ``kind`` if nodes have kinds, ``vector``, and the position of each row:
    ``generation``, ``epoch``, ``version`` (the sequence) and ``chain``. The kind is made from the id
    and has an index. ``<table>_history`` has one row, the newest position that was written; every
    write is compared with it first, so a writer for an older history is refused from then on. To begin
    again, drop the table: the sink then creates the other two again, too.

    Each write is one transaction: readers see all of it or nothing. It returns when the transaction is on
    the server's disk (``synchronous_commit`` is on for it, whatever the server's default). Writers wait for
    each other, and an older version never replaces a newer one, in any order of writes. After a lost
    connection the next call connects again.

    Parameters
    ----------
    settings
        Where, and how.
    """

    def __init__(self, settings: PostgresSettings) -> None:
        with extra("postgres"):
            import psycopg  # noqa: PLC0415
            from psycopg import conninfo  # noqa: PLC0415

            from dygcn.serving.sinks import postgres_table  # noqa: PLC0415
        self._settings = settings
        self._client, self._table_of = psycopg, postgres_table.Table
        try:
            self._place: dict[str, Any] = conninfo.conninfo_to_dict(settings.url)
        except psycopg.Error:
            self._place = {"port": "none"}
        port, database = (str(self._place.get(key) or "") for key in ("port", "dbname"))
        if not set(port) <= set("0123456789,") or "@" in database:  # part of a password, it may be
            raise OptionError(
                "url is not an address that libpq can read; allowed is postgresql://user@host/database, with "
                "%40 for @, %2F for / and so on in a password"
            )
        self._connection: psycopg.Connection[Any] | None = None
        self._shape: Shape | None = None
        self._table: Table | None = None
        self._forgot = 0.0

    @property
    def name(self) -> str:
        """Kind and address of where rows go, without any secret."""
        host, port = self._place.get("host") or "localhost", self._place.get("port")
        database = self._place.get("dbname") or self._place.get("user") or ""
        return f"postgres://{host}{f':{port}' if port else ''}/{database}/{self._settings.table}"

    def open(self, ids: str, dim: int) -> History | None:
        """Connect; make the tables if they are not there; return the newest position that was written.

        Raises
        ------
        SinkError
            If the server cannot be reached or has no pgvector, or if the table is of another shape.
        """
        self.close()
        shape = Shape(ids, dim)
        self._call(shape, lambda table: table.forget(self._settings.keep_left))
        held = self._call(shape, lambda table: table.held())
        self._shape, self._forgot = shape, time.monotonic()
        return held

    def write(self, rows: Rows) -> None:
        """Bring rows in and take out those that left, in one transaction.

        Raises
        ------
        OtherHistory
            If the table holds rows of a newer history; nothing was written.
        SinkError
            If nothing of it was written, or if it is not known whether all of it was; the same rows may
            come again.
        """
        shape = opened(self._shape, self.name)
        shape.check(rows, self.name)
        check_finite(rows, self.name, _NO_NAN)
        if shape.stored == "string":
            self._refuse_nul(rows)
        if len(rows) == 0:
            return
        self._call(shape, lambda table: table.write(rows))
        if time.monotonic() - self._forgot > _FORGET_EVERY:
            self._call(shape, lambda table: table.forget(self._settings.keep_left))
            self._forgot = time.monotonic()

    def delete_below(self, floor: int, history: History) -> None:
        """Take out every row of another epoch, and every row with a version below `floor`."""
        shape = opened(self._shape, self.name)
        check_history(history, self.name)
        self._call(shape, lambda table: table.delete_below(floor, history))

    def close(self) -> None:
        """Let go of the connection. Safe to call twice."""
        self._shape = None
        self._disconnect()

    def _refuse_nul(self, rows: Rows) -> None:
        for ids in (rows.ids, rows.left):
            for id_ in ids:
                if "\0" in id_:
                    raise SinkError(
                        f"{self.name}: the id {id_!r} has a NUL character, which PostgreSQL cannot keep in "
                        "text; give the node another id"
                    )

    def _call(self, shape: Shape, what: Callable[[Table], _Result]) -> _Result:
        try:
            return what(self._connected(shape))
        except self._client.Error as error:
            self._disconnect()  # after any error: the next call connects again
            text = without(str(error), filter(None, [self._place.get("password")]))
            raise SinkError(f"{self.name}: {type(error).__name__}: {text}") from None
        except SinkError:
            self._disconnect()
            raise

    def _connected(self, shape: Shape) -> Table:
        if self._table is None:
            timeout = self._settings.timeout
            self._connection = self._client.connect(
                self._settings.url,
                autocommit=True,
                prepare_threshold=None,  # poolers hand out another server session each time
                client_encoding="utf8",
                connect_timeout=max(2, round(timeout)),
                tcp_user_timeout=round(1000 * timeout),
            )
            self._connection.isolation_level = self._client.IsolationLevel.READ_COMMITTED
            table = self._table_of(self._connection, self._settings.table, shape, self.name, timeout)
            table.prepare(self._settings.index)
            self._table = table
        return self._table

    def _disconnect(self) -> None:
        connection, self._connection, self._table = self._connection, None, None
        if connection is not None:
            connection.close()
