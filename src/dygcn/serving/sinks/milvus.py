"""Vectors in a collection of Milvus: on a server, or in a file of Milvus Lite."""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Sequence
from itertools import compress
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from dygcn._extras import extra
from dygcn.engine.records import Float32, History
from dygcn.errors import OptionError, SinkError
from dygcn.serving import addresses
from dygcn.serving.addresses import DAY, YEAR, Settings
from dygcn.serving.sinks.sink import OnOtherHistory, Shape, StoreSink, as_values
from dygcn.serving.sinks.vector_store import (
    LOCKS,
    MARKS,
    ROWS,
    Condition,
    NodeId,
    VectorStore,
    as_text,
    key_of,
)

_TOKEN = "MILVUS_TOKEN"
_LONGEST = 65_535  # bytes of a text in Milvus
_WIDEST = 32_768  # numbers of a vector there
_FILES: Counter[str] = Counter()  # of Milvus Lite, and how many of our sinks have each open
_FILES_LOCK = threading.Lock()


class MilvusSettings(Settings, frozen=True, tag="milvus"):
    """Where rows go in Milvus. A token or ``user:password`` is better kept in ``MILVUS_TOKEN``.

    >>> MilvusSettings(url="https://root:s3cret@db.example:19530", collection="people")
    MilvusSettings(url='https://db.example:19530', collection='people', metric='cosine', ...)
    """

    url: str  # of a server, or ``file:///folder/name.db`` for Milvus Lite
    collection: str = "dygcn_vectors"
    metric: Literal["cosine", "ip", "l2"] = "cosine"  # of the index; vectors are kept as they are
    keep_left: float = DAY
    timeout: float = 60.0
    other_history: OnOtherHistory = "rewrite"

    def __post_init__(self) -> None:
        addresses.check_address(self.url, ("http", "https", "file"))
        if self.url.startswith("file:") and not _file_of(self.url).endswith(".db"):
            raise OptionError("url is a file whose name does not end with .db, as Milvus Lite wants it")
        allowed = "a name of letters, digits and _, at most 200, which begins with no digit"
        addresses.check_name("collection", self.collection, r"[A-Za-z_][A-Za-z0-9_]{0,199}", allowed)
        addresses.check_seconds("keep_left", self.keep_left, YEAR)
        addresses.check_seconds("timeout", self.timeout)

    def make(self) -> StoreSink:
        address = _file_of(self.url) if self.url.startswith("file:") else addresses.public_address(self.url)
        name = f"milvus://{address.rpartition('://')[2].rstrip('/')}/{self.collection}"
        secrets = [*addresses.secrets_of(self.url), *filter(None, [os.environ.get(_TOKEN)])]
        return StoreSink(VectorStore(name, MilvusCollections(self, name), self.keep_left, secrets))


class MilvusCollections:
    """A collection with an entity for each node; its key is the id, or a UUID made of it if ids are texts.

    Milvus cannot compare before it replaces. In one process writers wait for each other, and a file of Milvus
    Lite is open in one process at a time. On a server, one service at a time may write: another one is
    refused once the newer history is there, but a write of it that has begun may replace newer rows. Milvus
    Lite does not sync its log at each write, so a power failure may take the last ones.
    """

    longest_id = _LONGEST

    def __init__(self, settings: MilvusSettings, name: str) -> None:
        with extra("milvus"):
            import pymilvus  # noqa: PLC0415
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # every error is raised, too
        self.errors: tuple[type[BaseException], ...] = (pymilvus.MilvusException, OSError, ValueError)
        self._pymilvus, self._settings, self._name = pymilvus, settings, name
        self._names = {ROWS: settings.collection, MARKS: f"{settings.collection}_marks"}
        self._is_file = settings.url.startswith("file:")
        self._uri = _file_of(settings.url) if self._is_file else addresses.endpoint(settings.url, 19530)
        self._client: Any = None
        self._shape: Shape

    def open(self, shape: Shape) -> tuple[bool, bool]:
        """Connect to the server, or start Milvus Lite in this process; load what is there, to read it."""
        if shape.dim > _WIDEST:
            raise SinkError(f"{self._name} takes vectors of up to {_WIDEST} numbers; ours have {shape.dim}")
        self._shape = shape
        token = "" if self._is_file else _token_of(self._settings.url)
        with _FILES_LOCK:
            if self._is_file:
                with extra("milvus"):
                    import milvus_lite  # noqa: F401, PLC0415
                Path(self._uri).parent.mkdir(parents=True, exist_ok=True)
            client = self._pymilvus.MilvusClient
            self._client = client(self._uri, token=token, timeout=self._settings.timeout)
            _FILES[self._uri] += 1
        there = [self._client.has_collection(name) for name in self._names.values()]
        for name in compress(self._names.values(), there):
            self._client.load_collection(name)
        rows, marks = there
        return rows, marks

    def close(self) -> None:
        """Disconnect; the last of our sinks on a file ends Milvus Lite."""
        client, self._client = self._client, None
        if client is None:
            return
        client.close()
        with _FILES_LOCK:
            _FILES[self._uri] -= 1
            if not _FILES[self._uri] and self._is_file:
                from milvus_lite.server_manager import server_manager_instance  # noqa: PLC0415

                server_manager_instance.release_server(self._uri)

    def lock(self) -> threading.Lock:
        return LOCKS[self._name]

    def create(self, of: str) -> None:
        """Create a collection; marks have a vector, too, because Milvus demands one."""
        name, types = self._names[of], self._pymilvus.DataType
        if of == MARKS and self._client.has_collection(name):
            self._client.drop_collection(name)
        schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False)
        texts = {"epoch": 32, "chain": 32}
        if of == MARKS:
            texts = {"key": 36, **texts, "shape": 64}
        elif self._shape.stored == "string":
            texts = {"key": 36, "id": _LONGEST, **texts}
        if of == ROWS and self._shape.with_kinds:
            texts["kind"] = 32
        for field, most in texts.items():
            schema.add_field(field, types.VARCHAR, is_primary=field == "key", max_length=most)
        if "key" not in texts:
            schema.add_field("id", types.INT64, is_primary=True)
        for field in ("generation", "version", *(["at"] if of == MARKS else [])):
            schema.add_field(field, types.INT64)
        schema.add_field("vector", types.FLOAT_VECTOR, dim=2 if of == MARKS else self._shape.dim)
        index = self._client.prepare_index_params()  # without one, nothing can be read back
        index.add_index("vector", index_type="AUTOINDEX", metric_type=self._settings.metric.upper())
        self._client.create_collection(name, schema=schema, index_params=index, consistency_level="Strong")

    def select(self, of: str, where: Sequence[Condition], fields: Sequence[str], most: int) -> list[Any]:
        text = self._filter(where) or "version >= 0"  # Milvus demands one
        how = {"output_fields": list(fields), "consistency_level": "Strong", "limit": most}
        found: list[Any] = self._client.query(self._names[of], filter=text, **how)
        return found

    def delete(self, of: str, where: Sequence[Condition]) -> None:
        self._client.delete(self._names[of], filter=self._filter(where))

    def put_marks(self, keys: Sequence[str], values: dict[str, Any]) -> None:
        marks = [{"key": key, "vector": [0.0, 1.0], **values} for key in keys]
        self._client.upsert(self._names[MARKS], marks)

    def put_rows(self, ids: Sequence[NodeId], vectors: Float32, history: History) -> None:
        """Write rows, replacing older and newer ones: Milvus cannot compare."""
        position, keyed = as_values(history), self._shape.stored == "string"
        self._client.upsert(
            self._names[ROWS],
            [
                {
                    **({"key": key_of(id_)} if keyed else {}),
                    **self._shape.id_fields(id_),
                    "vector": row,
                    **position,
                }
                for id_, row in zip(ids, vectors, strict=True)
            ],
        )

    def _filter(self, where: Sequence[Condition]) -> str:
        """Return a filter; texts of users are never in it, but their keys are."""
        keyed = self._shape.stored == "string"
        by_key = [
            ("key", "in", list(map(key_of, value))) if keyed and field == "id" else (field, operator, value)
            for field, operator, value in where
        ]
        return as_text(by_key, "==", lambda values: f"[{', '.join(map(_literal, values))}]")


def _literal(value: NodeId) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _file_of(url: str) -> str:
    return str(Path(unquote(url.removeprefix("file://"))).absolute())


def _token_of(url: str) -> str:
    parts = urlsplit(url)
    given = ":".join(unquote(one) for one in (parts.username, parts.password) if one)
    return given or os.environ.get(_TOKEN, "")
