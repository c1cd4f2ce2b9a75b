"""Vectors in a table of PostgreSQL, as pgvector keeps them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import NDArray

from dygcn._extras import extra
from dygcn.engine.records import Float32, History, Rows
from dygcn.errors import OptionError, SinkError
from dygcn.serving.addresses import DAY, YEAR, Settings, check_name, check_seconds
from dygcn.serving.sinks.sink import OnOtherHistory, Shape, StoreSink, admit, as_values

if TYPE_CHECKING:
    from psycopg import sql

_PART = r"[A-Za-z_][A-Za-z0-9_]{0,54}"  # PostgreSQL cuts names at 63 bytes; ours grow by "_history"
_TYPES = {"int64": "bigint", "string": "text"}
_COLUMN_TYPES = {"generation": "int8", "epoch": "text", "version": "int8", "chain": "text"}
_KIND = "text GENERATED"  # from the id, so that no statement has to write it
_LOCKS = 0x6479_6763 << 32  # where our advisory locks begin

_COLUMNS = """
    SELECT a.attname, t.typname || CASE a.attgenerated WHEN '' THEN '' ELSE ' GENERATED' END, a.atttypmod
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
"""
_KEYED = """
    SELECT EXISTS (
        SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
        WHERE i.indrelid = %s AND i.indisunique AND i.indnkeyatts = 1 AND i.indpred IS NULL
        AND a.attname = 'id'
    )
"""
_PGVECTOR = """
    SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
    WHERE e.extname = 'vector'
"""
_BEGIN = """
    SELECT set_config('statement_timeout', %s, true), set_config('lock_timeout', '0', true),
        CASE current_setting('synchronous_commit')
        WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END
"""
_LOCK = "SELECT pg_advisory_xact_lock(%s)"
_HISTORY = "generation bigint NOT NULL, epoch text NOT NULL, version bigint NOT NULL, chain text NOT NULL"
_MAKE = (
    f"CREATE TABLE {{table}} (id {{id}} PRIMARY KEY{{kind}}, vector {{vector}}({{dim}}) NOT NULL, {_HISTORY})"
)
_MAKE_KIND = ", kind text NOT NULL GENERATED ALWAYS AS (split_part(id, ':', 1)) STORED"
_INDEX_KIND = "CREATE INDEX ON {table} (kind)"
_MAKE_LEFT = """
    CREATE TABLE {left} (
        id_hash bytea PRIMARY KEY, generation bigint NOT NULL, version bigint NOT NULL,
        at timestamptz NOT NULL DEFAULT now()
    )
"""
_MAKE_HISTORY = f"CREATE TABLE {{history}} (one boolean PRIMARY KEY DEFAULT true CHECK (one), {_HISTORY})"
_INDEX = "CREATE INDEX IF NOT EXISTS {index} ON {table} USING hnsw (vector {schema}.vector_cosine_ops)"

_NEWEST_ROW = """
    SELECT generation, epoch, version, chain FROM {table} ORDER BY generation DESC, version DESC LIMIT 1
"""
_HELD = "SELECT generation, epoch, version, chain FROM {history}"
_ADVANCE = """
    INSERT INTO {history} AS h (generation, epoch, version, chain)
    VALUES (%(generation)s, %(epoch)s, %(version)s, %(chain)s)
    ON CONFLICT (one) DO UPDATE SET generation = excluded.generation, epoch = excluded.epoch,
        version = excluded.version, chain = excluded.chain
    WHERE (h.generation, h.version) < (excluded.generation, excluded.version)
"""
_ANY = "SELECT EXISTS (SELECT FROM {table})"

_COPIED = """
    CREATE TEMP TABLE IF NOT EXISTS {brought} ON COMMIT DELETE ROWS
    AS SELECT id, vector FROM {table} WITH NO DATA
"""
_LATE = """
    DELETE FROM {brought} b USING {left} l
    WHERE l.id_hash = sha256(convert_to(b.id::text, 'UTF8'))
    AND (l.generation, l.version) >= (%(generation)s, %(version)s)
"""
_UPSERT = """
    INSERT INTO {table} AS t (id, vector, generation, epoch, version, chain)
    SELECT id, vector, %(generation)s, %(epoch)s, %(version)s, %(chain)s FROM {brought}
    ON CONFLICT (id) DO UPDATE SET vector = excluded.vector, generation = excluded.generation,
        epoch = excluded.epoch, version = excluded.version, chain = excluded.chain
    WHERE (t.generation, t.version) < (excluded.generation, excluded.version)
"""
_BACK = "DELETE FROM {left} l USING {brought} b WHERE l.id_hash = sha256(convert_to(b.id::text, 'UTF8'))"

_COPIED_LEFT = """
    CREATE TEMP TABLE IF NOT EXISTS {gone} ON COMMIT DELETE ROWS AS SELECT id FROM {table} WITH NO DATA
"""
_DELETE = """
    DELETE FROM {table} t USING {gone} g
    WHERE t.id = g.id AND (t.generation, t.version) < (%(generation)s, %(version)s)
"""
_REMEMBER = """
    INSERT INTO {left} AS l (id_hash, generation, version)
    SELECT sha256(convert_to(g.id::text, 'UTF8')), %(generation)s, %(version)s FROM {gone} g
    WHERE NOT EXISTS (SELECT FROM {table} t WHERE t.id = g.id)
    ON CONFLICT (id_hash) DO UPDATE SET generation = excluded.generation, version = excluded.version,
        at = excluded.at
    WHERE (l.generation, l.version) < (excluded.generation, excluded.version)
"""
_DELETE_BELOW = """
    WITH gone AS (DELETE FROM {table} WHERE version < %(floor)s RETURNING id)
    INSERT INTO {left} AS l (id_hash, generation, version)
    SELECT sha256(convert_to(id::text, 'UTF8')), %(generation)s, %(floor)s - 1 FROM gone
    ON CONFLICT (id_hash) DO UPDATE SET generation = excluded.generation, version = excluded.version,
        at = excluded.at
    WHERE (l.generation, l.version) < (excluded.generation, excluded.version)
"""
_DELETE_OTHERS = "DELETE FROM {table} WHERE epoch IS DISTINCT FROM %(epoch)s"
_FORGET_OTHERS = "DELETE FROM {left} WHERE generation <> %(generation)s"
_FORGET_ALL = "DELETE FROM {left}"
_BEGIN_ANEW = "UPDATE {history} SET version = -1, chain = ''"  # generation and epoch stay: they are the fence
_FORGET = "DELETE FROM {left} WHERE at < now() - make_interval(secs => %s)"


class PostgresSettings(Settings, frozen=True, tag="postgres"):
    """Where rows go in PostgreSQL. A password is better kept in ``PGPASSWORD`` or ``~/.pgpass``.

    >>> PostgresSettings(url="postgresql://app:s3cret@db.example/vectors", table="live.nodes")
    PostgresSettings(url='postgresql://db.example/vectors', table='live.nodes', index='none', ...)
    """

    url: str  # as libpq takes it, or as ``host=... dbname=...``
    table: str = "dygcn_vectors"
    index: Literal["none", "hnsw"] = "none"  # by cosine; it makes writes many times slower
    keep_left: float = DAY
    timeout: float = 60.0
    other_history: OnOtherHistory = "rewrite"

    def __post_init__(self) -> None:
        allowed = "a name of letters, digits and _, at most 55, with a schema's and a dot before it or not"
        check_name("table", self.table, rf"(?:{_PART}\.)?{_PART}", allowed)
        check_seconds("keep_left", self.keep_left, YEAR)
        check_seconds("timeout", self.timeout)

    def make(self) -> StoreSink:
        return StoreSink(PostgresStore(self))


class PostgresStore:
    """A table with a row for each node, equal to the live vectors.

    ``<table>_left`` has hashes of ids that left; ``<table>_history`` has one row, the newest position. Every
    write is compared with it first, under the lock that writers share, so a writer for an older history is
    refused from then on. Each write is one transaction, on disk when it returns (``synchronous_commit`` is on
    for it, whatever the server's default).
    """

    not_finite = "pgvector refuses NaN and infinity: look for what made it (a rolled run may have exploded)"

    def __init__(self, settings: PostgresSettings) -> None:
        with extra("postgres"):
            import psycopg  # noqa: PLC0415
            from psycopg import conninfo, sql  # noqa: PLC0415
        self.settings = settings
        self.errors: tuple[type[BaseException], ...] = (psycopg.Error,)
        self._psycopg, self._sql = psycopg, sql
        try:
            address: dict[str, Any] = conninfo.conninfo_to_dict(settings.url)
        except psycopg.Error:
            address = {"port": "none"}
        host, port, database, user, password = (
            str(address.get(key) or "") for key in ("host", "port", "dbname", "user", "password")
        )
        if not set(port) <= set("0123456789,") or "@" in database:  # part of a password, it may be
            raise OptionError(
                "url is not an address that libpq can read; allowed is postgresql://user@host/database, with "
                "%40 for @, %2F for / and so on in a password"
            )
        place = f"{host or 'localhost'}{f':{port}' if port else ''}/{database or user}"
        self.name = f"postgres://{place}/{settings.table}"
        self.secrets = [password] if password else []
        self._connection: Any = None
        self._shape: Shape
        self._lock = 0
        *schema, short = settings.table.split(".")
        self._parts: dict[str, sql.Composable] = {
            "table": sql.Identifier(*schema, short),
            "left": sql.Identifier(*schema, f"{short}_left"),
            "history": sql.Identifier(*schema, f"{short}_history"),
            "index": sql.Identifier(f"{short}_hnsw"),
        }

    def connect(self, shape: Shape) -> None:
        self._shape = shape
        self._parts |= {
            "id": self._sql.SQL(_TYPES[shape.stored]),
            "kind": self._sql.SQL(_MAKE_KIND if shape.with_kinds else ""),
            "dim": self._sql.Literal(shape.dim),
        }
        self._connection = self._psycopg.connect(
            self.settings.url,
            autocommit=True,
            prepare_threshold=None,  # poolers hand out another server session each time
            client_encoding="utf8",
            connect_timeout=max(2, round(self.settings.timeout)),
            tcp_user_timeout=round(1000 * self.settings.timeout),
        )
        self._connection.isolation_level = self._psycopg.IsolationLevel.READ_COMMITTED
        with self._transaction(_LOCKS):
            oid = self._prepare()
        self._lock = _LOCKS + oid
        self._parts["brought"] = self._sql.Identifier(f"dygcn_brought_{oid}")
        self._parts["gone"] = self._sql.Identifier(f"dygcn_gone_{oid}")

    def disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def held(self) -> History | None:
        """Return the newest position that was written; without rows, forget ids that left and return None."""
        with self._transaction(self._lock):
            if self._one(_ANY):
                return self._position(_HELD)
            for statement in (_FORGET_ALL, _BEGIN_ANEW):  # nothing is late where everything is written
                self._run(statement)
            return None

    def write(self, rows: Rows) -> None:
        """Write rows and delete those that left, in one transaction, one writer after the other."""
        if self._shape.stored == "string":
            for id_ in (*rows.ids, *rows.left):
                if "\0" in id_:
                    raise SinkError(
                        f"{self.name}: the id {id_!r} has a NUL character, which PostgreSQL cannot keep in "
                        "text; give the node another id"
                    )
        values = as_values(rows.history)
        with self._transaction(self._lock):
            self._reach(rows.history)
            if len(rows.ids):
                self._run(_COPIED)
                self._copy("brought", "id, vector", rows.ids, rows.vectors)
                for statement in (_LATE, _UPSERT):
                    self._run(statement, values)
                self._run(_BACK)
            if len(rows.left):
                self._run(_COPIED_LEFT)
                self._copy("gone", "id", rows.left, None)
                for statement in (_DELETE, _REMEMBER):
                    self._run(statement, values)

    def delete_below(self, floor: int, history: History) -> None:
        """Delete rows of other epochs, and rows below a version; late repeats of these are recognised.

        Late repeats of other epochs need no memory: they are refused.
        """
        values = {**as_values(history), "floor": floor}
        with self._transaction(self._lock):
            self._reach(history)
            for statement in (_DELETE_OTHERS, _FORGET_OTHERS, _DELETE_BELOW):
                self._run(statement, values)

    def forget_left(self) -> None:
        with self._transaction(self._lock):
            self._run(_FORGET, [self.settings.keep_left])

    def _prepare(self) -> int:
        """Create missing tables; return the number that PostgreSQL gave to the table of rows."""
        self._find_pgvector()
        oid = self._oid("table")
        if oid is None:
            self._run("DROP TABLE IF EXISTS {left}, {history}")  # they were of a table that is gone
            self._run(_MAKE)
            if self._shape.with_kinds:
                self._run(_INDEX_KIND)
            oid = self._oid("table")
        if self._oid("left") is None:
            self._run(_MAKE_LEFT)
        self._check(oid)
        if self._oid("history") is None:
            self._run(_MAKE_HISTORY)
            if (newest := self._position(_NEWEST_ROW)) is not None:
                self._run(_ADVANCE, as_values(newest))
        if self.settings.index == "hnsw":
            self._run(_INDEX)
        return int(oid or 0)

    def _reach(self, history: History) -> None:
        """Refuse a stale writer; else note how far the table has come."""
        admit(self._position(_HELD), history, self.name)
        self._run(_ADVANCE, as_values(history))

    def _position(self, statement: str) -> History | None:
        row = self._execute(statement).fetchone()
        return None if row is None else History(*row)

    def _find_pgvector(self) -> None:
        found = self._one(_PGVECTOR)
        if found is None:
            if self._one("SELECT name FROM pg_available_extensions WHERE name = 'vector'") is None:
                raise SinkError(
                    f"{self.name}: this server has no pgvector; install the extension on its machine "
                    "(https://github.com/pgvector/pgvector)"
                )
            try:
                self._run("CREATE EXTENSION IF NOT EXISTS vector")
            except self._psycopg.errors.InsufficientPrivilege:
                raise SinkError(
                    f"{self.name}: this user may not switch pgvector on; have an administrator of the "
                    "database run: CREATE EXTENSION vector"
                ) from None
            found = self._one(_PGVECTOR)
        self._parts["schema"] = self._sql.Identifier(found)
        self._parts["vector"] = self._sql.Identifier(found, "vector")

    def _check(self, oid: int | None) -> None:
        stored, dim, with_kinds = self._shape.stored, self._shape.dim, self._shape.with_kinds
        there = {name: (kind, size) for name, kind, size in self._execute(_COLUMNS, [oid])}
        expected = {"id": {"int64": "int8", "string": "text"}[stored], **_COLUMN_TYPES}
        right = all(there.get(column, ("", 0))[0] == kind for column, kind in expected.items())
        right = right and (there.get("kind", ("", 0))[0] == _KIND) == with_kinds
        if right and there.get("vector") == ("vector", dim) and self._one(_KEYED, [oid]):
            return
        found = ", ".join(f"{column} {kind}" for column, (kind, _) in there.items() if column != "vector")
        kind, size = there.get("vector", ("(none)", 0))
        raise SinkError(
            f"{self.name} has the columns {found}, vector {kind}{f'({size})' if size > 0 else ''}; ours are "
            f"id {_TYPES[stored]} PRIMARY KEY{_MAKE_KIND if with_kinds else ''}, vector vector({dim}), "
            "generation bigint, epoch text, version bigint, chain text: "
            "choose another table, or drop this one"
        )

    def _copy(self, to: str, columns: str, ids: NDArray[Any], vectors: Float32 | None) -> None:
        text = self._sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)")
        statement = text.format(self._parts[to], self._sql.SQL(columns))
        payloads = [] if vectors is None else [as_payloads(vectors)]
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types([_TYPES[self._shape.stored], *("bytea" for _ in payloads)])
            for row in zip(ids.tolist(), *payloads, strict=True):
                copy.write_row(row)

    def _oid(self, part: str) -> int | None:
        text = self._parts[part].as_string(self._connection)
        found = self._one("SELECT to_regclass(%s)::oid::bigint", [text])
        return None if found is None else int(found)

    @contextmanager
    def _transaction(self, lock: int) -> Iterator[None]:
        with self._connection.transaction():
            self._connection.execute(_BEGIN, [str(round(self.settings.timeout * 1000))])
            self._connection.execute(_LOCK, [lock])
            yield

    def _execute(self, statement: str, values: Any = None) -> Any:
        return self._connection.execute(self._sql.SQL(statement).format(**self._parts), values)

    def _run(self, statement: str, values: Any = None) -> None:
        self._execute(statement, values)

    def _one(self, statement: str, values: Any = None) -> Any:
        row = self._execute(statement, values).fetchone()
        return None if row is None else row[0]


def as_payloads(vectors: Float32) -> Iterator[bytes]:
    """Yield vectors as pgvector receives them: the size, two zero bytes, then the numbers, big-endian."""
    size = struct.pack(">hh", vectors.shape[1], 0)
    return (size + vector.tobytes() for vector in vectors.astype(">f4"))
