"""Vectors in a collection of Milvus: on a server, or in a file of Milvus Lite."""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlsplit

from dygcn._extras import extra
from dygcn.engine.records import History
from dygcn.errors import OptionError, SinkError
from dygcn.serving.addresses import check_address
from dygcn.serving.sinks.histories import FIELDS, as_values
from dygcn.serving.sinks.settings import (
    DAY,
    YEAR,
    OnOtherHistory,
    Settings,
    check_name,
    check_seconds,
    public_address,
    secrets_of,
)
from dygcn.serving.sinks.vector_store import POSITION, NodeId, Rank, VectorStoreSink, key_of, lock_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.engine.records import Float32, Rows
    from dygcn.serving.sinks.shape import Shape

_TOKEN = "MILVUS_TOKEN"
_LONGEST = 65_535  # bytes of a text in Milvus
_WIDEST = 32_768  # numbers of a vector there
_FILES: Counter[str] = Counter()  # of Milvus Lite, and how many of our sinks have each open
_FILES_LOCK = threading.Lock()


class MilvusSettings(Settings, frozen=True, tag="milvus"):
    """Where rows go in Milvus.

    Parameters
    ----------
    url
        ``http://host:19530`` or ``https://host:19530`` for a server, ``file:///folder/name.db`` for Milvus
        Lite. A token or ``user:password`` comes from ``MILVUS_TOKEN``, or stands in the address:
        ``https://user:password@host:19530``.
    collection
        Its name; created if it is not there.
    metric
        How the index that is created with the collection compares vectors; cosine, as in `/nearest`.
        Vectors are kept as they are.
    keep_left
        Seconds for which an id that left is remembered, in ``<collection>_marks``: for that long, a late
        repeat of an older write does not bring it back.
    timeout
        Seconds that each request may take.
    other_history
        Action if the collection holds rows of another history; see
        `dygcn.serving.sinks.settings.OnOtherHistory`.

    Examples
    --------
    >>> MilvusSettings(url="https://root:s3cret@db.example:19530", collection="people")
    MilvusSettings(url='https://db.example:19530', collection='people', metric='cosine', ...)
    """

    url: str
    collection: str = "dygcn_vectors"
    metric: Literal["cosine", "ip", "l2"] = "cosine"
    keep_left: float = DAY
    timeout: float = 60.0
    other_history: OnOtherHistory = "rewrite"

    def __post_init__(self) -> None:
        check_address(self.url, ("http", "https", "file"))
        if self.url.startswith("file:") and not _file_of(self.url).endswith(".db"):
            raise OptionError("url is a file whose name does not end with .db, as Milvus Lite wants it")
        allowed = "a name of letters, digits and _, at most 200, which begins with no digit"
        check_name("collection", self.collection, r"[A-Za-z_][A-Za-z0-9_]{0,199}", allowed)
        check_seconds("keep_left", self.keep_left, YEAR)
        check_seconds("timeout", self.timeout, DAY)


class MilvusSink(VectorStoreSink):
    """A collection with an entity for each node: ``id``, ``vector``, and the position of each row.

    That is ``generation``, ``epoch``, ``version`` (the sequence) and ``chain``; and ``kind``, if nodes have
    kinds. The primary key is ``id`` if ids are numbers; if they are texts it is ``key``, a UUID made of the
    id (`key_of`). ``<collection>_marks`` has the newest position that was written, and ids that left, by
    their UUIDs. To begin again, drop the collection.

    A write is not one transaction: readers may see a part of it. What was answered survives the death of a
    process; Milvus Lite does not sync its log at each write, so a power failure may take the last ones.

    Milvus cannot compare before it replaces. In one process writers wait for each other, and a file of
    Milvus Lite is open in one process at a time. On a server, see to it that one service at a time writes:
    another one is refused once the newer history is there, but a write of it that has begun may replace
    newer rows.

    Parameters
    ----------
    settings
        Where, and how.
    """

    def __init__(self, settings: MilvusSettings) -> None:
        is_file = settings.url.startswith("file:")
        place = _file_of(settings.url) if is_file else public_address(settings.url).partition("://")[2]
        name = f"milvus://{place.rstrip('/')}/{settings.collection}"
        secrets = [*secrets_of(settings.url), *filter(None, [os.environ.get(_TOKEN)])]
        super().__init__(name, MilvusStore(settings, name), settings.keep_left, secrets)

    def _check_ids(self, shape: Shape, rows: Rows) -> None:
        if shape.stored == "string":
            for id_ in (*rows.ids, *rows.left):
                if len(id_.encode()) > _LONGEST:
                    raise SinkError(
                        f"{self.name}: the id {id_[:40]!r}... is longer than the {_LONGEST} bytes of a text "
                        "in Milvus; give the node another id"
                    )


class MilvusStore:
    """Two collections of Milvus; see `dygcn.serving.sinks.vector_store.VectorStore`."""

    def __init__(self, settings: MilvusSettings, name: str) -> None:
        with extra("milvus"):
            import pymilvus  # noqa: PLC0415
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # every error is raised, too
        self.errors: tuple[type[BaseException], ...] = (pymilvus.MilvusException, OSError, ValueError)
        self._pymilvus, self._settings, self._name = pymilvus, settings, name
        self._rows, self._marks = settings.collection, f"{settings.collection}_marks"
        self._client: Any = None
        self._uri, self._token = _address(settings.url)
        self._shape: Shape

    def open(self, shape: Shape) -> None:
        """Connect to the server, or start Milvus Lite in this process."""
        if shape.dim > _WIDEST:
            raise SinkError(f"{self._name} takes vectors of up to {_WIDEST} numbers; ours have {shape.dim}")
        self._shape = shape
        with _FILES_LOCK:
            if self._settings.url.startswith("file:"):
                with extra("milvus"):
                    import milvus_lite  # noqa: F401, PLC0415
                Path(self._uri).parent.mkdir(parents=True, exist_ok=True)
            self._client = self._pymilvus.MilvusClient(
                self._uri, token=self._token, timeout=self._settings.timeout
            )
            _FILES[self._uri] += 1

    def close(self) -> None:
        """Disconnect; the last of our sinks on a file ends Milvus Lite."""
        client, self._client = self._client, None
        if client is None:
            return
        client.close()
        with _FILES_LOCK:
            _FILES[self._uri] -= 1
            if not _FILES[self._uri] and self._settings.url.startswith("file:"):
                from milvus_lite.server_manager import server_manager_instance  # noqa: PLC0415

                server_manager_instance.release_server(self._uri)

    def lock(self) -> threading.Lock:
        """Return the lock of this process."""
        return lock_of(self._name)

    def collections(self) -> tuple[bool, bool]:
        """Return whether there are rows and marks; load those that are there, so that they can be read."""
        there = self._client.has_collection(self._rows), self._client.has_collection(self._marks)
        for name, is_there in zip((self._rows, self._marks), there, strict=True):
            if is_there:
                self._client.load_collection(name)
        return there

    def create_marks(self) -> None:
        """Create the collection of marks, with the vector that Milvus asks for."""
        if self._client.has_collection(self._marks):
            self._client.drop_collection(self._marks)
        types = self._pymilvus.DataType
        schema = self._schema([("key", types.VARCHAR, {"max_length": 36})], 2)
        schema.add_field("at", types.INT64)
        schema.add_field("shape", types.VARCHAR, max_length=64)
        self._create(self._marks, schema)

    def create_rows(self, shape: Shape) -> None:
        """Create the collection of rows."""
        types = self._pymilvus.DataType
        fields: list[tuple[str, Any, dict[str, int]]] = [("id", types.INT64, {})]
        if shape.stored == "string":
            fields = [
                ("key", types.VARCHAR, {"max_length": 36}),
                ("id", types.VARCHAR, {"max_length": _LONGEST}),
            ]
        if shape.with_kinds:
            fields.append(("kind", types.VARCHAR, {"max_length": 32}))
        self._create(self._rows, self._schema(fields, shape.dim))

    def shape_there(self) -> str:
        """Return the shape that was kept with the position."""
        found = self._query(self._marks, f"key in {_list([POSITION])}", ["shape"])
        return str(found[0]["shape"]) if found else "(none)"

    def marks(self, keys: Sequence[str]) -> dict[str, History]:
        """Return those marks that are there."""
        found = self._query(self._marks, f"key in {_list(keys)}", ["key", *FIELDS])
        return {one["key"]: History(*(one[field] for field in FIELDS)) for one in found}

    def put_marks(self, keys: Sequence[str], history: History, at: int, shape: str = "") -> None:
        """Write marks, whatever was there."""
        mark = {"vector": [0.0, 1.0], **as_values(history), "at": at, "shape": shape}
        self._client.upsert(self._marks, [{"key": key, **mark} for key in keys])

    def delete_marks(self, keys: Sequence[str]) -> None:
        """Delete marks."""
        self._client.delete(self._marks, filter=f"key in {_list(keys)}")

    def delete_marks_before(self, at: int) -> None:
        """Delete marks of an earlier time."""
        self._client.delete(self._marks, filter=f"at < {at}")

    def delete_marks_of_others(self, generation: int) -> None:
        """Delete marks of other generations."""
        self._client.delete(self._marks, filter=f"generation != {generation}")

    def any_rows(self) -> bool:
        """Return whether there is any row."""
        return bool(self._query(self._rows, "version >= 0", ["id"], limit=1))

    def ranks(self, ids: Sequence[NodeId]) -> dict[NodeId, Rank]:
        """Return the rank of each id that has a row."""
        found = self._query(self._rows, self._these(ids), ["id", "generation", "version"])
        return {one["id"]: (one["generation"], one["version"]) for one in found}

    def put_rows(self, ids: Sequence[NodeId], vectors: Float32, history: History) -> None:
        """Write rows, whatever was there: Milvus cannot compare."""
        position = as_values(history)
        rows = [
            {**self._shape.id_fields(id_), "vector": row, **position}
            for id_, row in zip(ids, vectors, strict=True)
        ]
        if self._shape.stored == "string":
            rows = [{"key": key_of(row["id"]), **row} for row in rows]
        self._client.upsert(self._rows, rows)

    def delete_rows(self, ids: Sequence[NodeId], below: Rank) -> None:
        """Delete those rows of ids that are of a lower rank."""
        generation, version = below
        lower = f"(generation < {generation} or (generation == {generation} and version < {version}))"
        self._client.delete(self._rows, filter=f"{self._these(ids)} and {lower}")

    def delete_rows_of_others(self, epoch: str) -> None:
        """Delete rows of other epochs."""
        self._client.delete(self._rows, filter=f'epoch != "{epoch}"')

    def ids_below(self, version: int, epoch: str, most: int) -> list[NodeId]:
        """Return ids whose rows are of an epoch and below a version."""
        where = f'version < {version} and epoch == "{epoch}"'
        return [one["id"] for one in self._query(self._rows, where, ["id"], limit=most)]

    def _schema(self, keys: list[tuple[str, Any, dict[str, int]]], dim: int) -> Any:
        """Return a schema; the first field is the primary key."""
        types = self._pymilvus.DataType
        schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False)
        for place, (name, kind, how) in enumerate(keys):
            schema.add_field(name, kind, is_primary=place == 0, **how)
        schema.add_field("vector", types.FLOAT_VECTOR, dim=dim)
        for field in FIELDS:
            if field in ("generation", "version"):
                schema.add_field(field, types.INT64)
            else:
                schema.add_field(field, types.VARCHAR, max_length=32)
        return schema

    def _create(self, name: str, schema: Any) -> None:
        index = self._client.prepare_index_params()  # without one, nothing can be read back
        index.add_index("vector", index_type="AUTOINDEX", metric_type=self._settings.metric.upper())
        self._client.create_collection(name, schema=schema, index_params=index, consistency_level="Strong")

    def _query(self, collection: str, where: str, fields: list[str], **how: int) -> Any:
        return self._client.query(
            collection, filter=where, output_fields=fields, consistency_level="Strong", **how
        )

    def _these(self, ids: Sequence[NodeId]) -> str:
        if self._shape.stored == "string":
            return f"key in {_list([key_of(id_) for id_ in ids])}"
        return f"id in {_list(ids)}"


def _list(values: Sequence[NodeId]) -> str:
    """Return numbers or our own keys as Milvus reads a list: texts of users are never in a filter."""
    return "[" + ", ".join(f'"{one}"' if isinstance(one, str) else str(one) for one in values) + "]"


def _file_of(url: str) -> str:
    return str(Path(unquote(url.removeprefix("file://"))).absolute())


def _address(url: str) -> tuple[str, str]:
    """Return what pymilvus calls a URI, and the token."""
    if url.startswith("file:"):
        return _file_of(url), ""
    try:
        parts = urlsplit(url)
        port = parts.port or 19530
    except ValueError:
        raise OptionError(
            "url is not an address of Milvus; allowed are http://host:19530, https:// and file:///name.db"
        ) from None
    given = ":".join(unquote(one) for one in (parts.username, parts.password) if one)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}:{port}{parts.path}", given or os.environ.get(_TOKEN, "")
