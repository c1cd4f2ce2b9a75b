"""Vectors in a collection of Qdrant."""

from __future__ import annotations

import os
from collections.abc import Sequence
from threading import Lock
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from dygcn._extras import extra
from dygcn.engine.records import Float32, History
from dygcn.serving import addresses
from dygcn.serving.addresses import DAY, YEAR, Settings
from dygcn.serving.sinks.sink import OnOtherHistory, Shape, StoreSink, as_values
from dygcn.serving.sinks.vector_store import LOCKS, MARKS, ROWS, Condition, NodeId, Rank, VectorStore, key_of

_KEY = "QDRANT_API_KEY"
_WORDS = ("rank.g1", "rank.g0", "rank.v1", "rank.v0")


class QdrantSettings(Settings, frozen=True, tag="qdrant"):
    """Where rows go in Qdrant, 1.16 or later. A key is better kept in ``QDRANT_API_KEY``.

    >>> QdrantSettings(url="https://s3cret@db.example:6333", collection="people")
    QdrantSettings(url='https://db.example:6333', collection='people', distance='cosine', ...)
    """

    url: str
    collection: str = "dygcn_vectors"
    distance: Literal["cosine", "dot", "euclid"] = "cosine"  # for good: cosine keeps vectors at length one
    keep_left: float = DAY
    timeout: float = 60.0
    other_history: OnOtherHistory = "rewrite"

    def __post_init__(self) -> None:
        addresses.check_address(self.url, ("http", "https"))
        allowed = "a name of letters, digits, _, . and -, at most 200"
        addresses.check_name("collection", self.collection, r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}", allowed)
        addresses.check_seconds("keep_left", self.keep_left, YEAR)
        addresses.check_seconds("timeout", self.timeout)

    def make(self) -> StoreSink:
        name = (
            f"qdrant://{addresses.public_address(self.url).partition('://')[2].rstrip('/')}/{self.collection}"
        )
        secrets = [*addresses.secrets_of(self.url), *filter(None, [os.environ.get(_KEY)])]
        return StoreSink(VectorStore(name, QdrantCollections(self, name), self.keep_left, secrets))


class QdrantCollections:
    """A collection with a point for each node; its payload has the ``id`` and the position of the row.

    Ids of points are UUIDs made of the nodes' ids (`key_of`), as Qdrant takes neither negative numbers nor
    texts. ``rank`` in the payload has generation and version again, in words of 32 bits, since Qdrant
    compares numbers as doubles. Qdrant itself refuses an older row of a node that has a newer one. Between
    processes nothing keeps writers apart: one that was refused by no check yet may still bring ids that the
    newer history does not have, until the next `delete_below`.
    """

    longest_id = 0

    def __init__(self, settings: QdrantSettings, name: str) -> None:
        with extra("qdrant"):
            import qdrant_client  # noqa: PLC0415
            from qdrant_client import models  # noqa: PLC0415
            from qdrant_client.common.client_exceptions import QdrantException  # noqa: PLC0415
            from qdrant_client.http.exceptions import ApiException  # noqa: PLC0415
        self.errors: tuple[type[BaseException], ...] = (ApiException, QdrantException, OSError, ValueError)
        self._models, self._settings, self._name = models, settings, name
        self._names = {ROWS: settings.collection, MARKS: f"{settings.collection}_marks"}
        self._make = qdrant_client.QdrantClient
        self._client: Any = None
        self._shape: Shape

    def open(self, shape: Shape) -> tuple[bool, bool]:
        self._shape = shape
        self._client = connect(self._make, self._settings)
        rows, marks = map(self._client.collection_exists, self._names.values())
        return rows, marks

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def lock(self) -> Lock:
        return LOCKS[self._name]

    def create(self, of: str) -> None:
        """Create a collection; marks have no vectors."""
        vectors: Any = {}
        if of == ROWS:
            distance = self._models.Distance[self._settings.distance.upper()]
            vectors = self._models.VectorParams(size=self._shape.dim, distance=distance)
        else:
            self._client.delete_collection(self._names[of])
        self._client.create_collection(self._names[of], vectors_config=vectors)

    def select(self, of: str, where: Sequence[Condition], fields: Sequence[str], most: int) -> list[Any]:
        """Return points by their ids, or by a filter."""
        name, payload = self._names[of], list(fields)
        if where and where[0][1] == "in":
            found = self._client.retrieve(name, _keys(where[0]), with_payload=payload)
        else:
            found, _ = self._client.scroll(name, self._filter(where), limit=most, with_payload=payload)
        return [{"key": str(one.id), **one.payload} for one in found]

    def delete(self, of: str, where: Sequence[Condition]) -> None:
        selector = self._models.FilterSelector(filter=self._filter(where))
        self._client.delete(self._names[of], selector, wait=True)

    def put_marks(self, keys: Sequence[str], values: dict[str, Any]) -> None:
        points = [self._models.PointStruct(id=key, vector={}, payload=values) for key in keys]
        self._client.upsert(self._names[MARKS], points, wait=True)

    def put_rows(self, ids: Sequence[NodeId], vectors: Float32, history: History) -> None:
        """Write rows, each unless Qdrant has a newer one."""
        rank = history.generation, history.sequence
        payload = {**as_values(history), "rank": _as_payload(rank)}
        batch = self._models.Batch(
            ids=list(map(key_of, ids)),
            vectors=vectors.tolist(),
            payloads=[{**self._shape.id_fields(id_), **payload} for id_ in ids],
        )
        older = self._filter([("rank", "<", rank)])
        self._client.upsert(self._names[ROWS], batch, wait=True, update_filter=older)

    def _filter(self, where: Sequence[Condition]) -> Any:
        must: list[Any] = []
        must_not: list[Any] = []
        should: list[Any] = []
        for field, operator, value in where:
            if field == "rank":
                should += self._lower(list(zip(_WORDS, _as_payload(value).values(), strict=True)))
            elif (field, operator) == ("version", "<"):
                should += self._lower(list(zip(_WORDS, _as_payload((0, value)).values(), strict=True))[2:])
            elif operator == "in":
                must.append(self._models.HasIdCondition(has_id=[*_keys((field, operator, value))]))
            elif operator == "<":
                must.append(self._models.FieldCondition(key=field, range=self._models.Range(lt=value)))
            else:
                (must_not if operator == "!=" else must).append(self._equal(field, value))
        return self._models.Filter(must=must or None, must_not=must_not or None, should=should or None)

    def _equal(self, field: str, value: int | str) -> Any:
        return self._models.FieldCondition(key=field, match=self._models.MatchValue(value=value))

    def _lower(self, words: list[tuple[str, int]]) -> list[Any]:
        """Return conditions of which one holds for lower words: less, at the first word that differs."""
        return [
            self._models.Filter(
                must=[
                    *(self._equal(*before) for before in words[:at]),
                    self._models.FieldCondition(key=field, range=self._models.Range(lt=word)),
                ]
            )
            for at, (field, word) in enumerate(words)
        ]


def connect(make: Any, settings: QdrantSettings) -> Any:
    """Return a client of the server that settings name."""
    parts = urlsplit(settings.url)
    key = unquote(parts.password or parts.username or "") or os.environ.get(_KEY)
    timeout = max(1, round(settings.timeout))
    return make(
        url=addresses.endpoint(settings.url, 6333), api_key=key, timeout=timeout, check_compatibility=False
    )


def _keys(condition: Condition) -> list[str]:
    field, _, values = condition
    return list(values) if field == "key" else list(map(key_of, values))


def _as_payload(rank: Rank) -> dict[str, int]:
    generation, version = (number & (1 << 64) - 1 for number in rank)
    low = (1 << 32) - 1
    return {"g1": generation >> 32, "g0": generation & low, "v1": version >> 32, "v0": version & low}
