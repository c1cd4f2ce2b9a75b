"""Vectors in a collection of Qdrant."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlsplit

from dygcn._extras import extra
from dygcn.engine.records import History
from dygcn.errors import OptionError
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
    from threading import Lock

    from dygcn.engine.records import Float32
    from dygcn.serving.sinks.shape import Shape

_KEY = "QDRANT_API_KEY"
_WORDS = ("rank.g1", "rank.g0", "rank.v1", "rank.v0")


class QdrantSettings(Settings, frozen=True, tag="qdrant"):
    """Where rows go in Qdrant, 1.16 or later.

    Parameters
    ----------
    url
        ``http://host:6333`` or ``https://host:6333``. An API key comes from ``QDRANT_API_KEY``, or stands in
        the address: ``https://KEY@host:6333``.
    collection
        Its name; created if it is not there.
    distance
        How Qdrant compares vectors; part of a collection for as long as it is there. With ``"cosine"``, as
        in `/nearest`, Qdrant keeps each vector divided by its length; with ``"dot"`` and ``"euclid"`` it
        keeps the vectors as they are.
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
    >>> QdrantSettings(url="https://s3cret@db.example:6333", collection="people")
    QdrantSettings(url='https://db.example:6333', collection='people', distance='cosine', ...)
    """

    url: str
    collection: str = "dygcn_vectors"
    distance: Literal["cosine", "dot", "euclid"] = "cosine"
    keep_left: float = DAY
    timeout: float = 60.0
    other_history: OnOtherHistory = "rewrite"

    def __post_init__(self) -> None:
        check_address(self.url, ("http", "https"))
        allowed = "a name of letters, digits, _, . and -, at most 200"
        check_name("collection", self.collection, r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}", allowed)
        check_seconds("keep_left", self.keep_left, YEAR)
        check_seconds("timeout", self.timeout, DAY)


class QdrantSink(VectorStoreSink):
    """A collection with a point for each node; its payload has the ``id`` and the position of the row.

    That is ``generation``, ``epoch``, ``version`` (the sequence) and ``chain``. If nodes have kinds, the
    payload has the ``kind``, too. Ids of points are UUIDs made of the nodes' ids (`key_of`), as Qdrant takes
    neither negative numbers nor texts. ``rank`` in the payload has generation and version again, in words
    of 32 bits, since Qdrant compares numbers as doubles. ``<collection>_marks`` has the newest position that
    was written, and ids that left, by their UUIDs. To begin again, delete the collection.

    A write is not one transaction: readers may see a part of it. It returns when Qdrant has applied it and
    has it in its log. Qdrant itself refuses an older row of a node that has a newer one. Between processes
    nothing keeps writers apart: one that was refused by no check yet may still bring ids that the newer
    history does not have, until the next `delete_below`.

    Parameters
    ----------
    settings
        Where, and how.
    """

    def __init__(self, settings: QdrantSettings) -> None:
        place = public_address(settings.url).partition("://")[2].rstrip("/")
        name = f"qdrant://{place}/{settings.collection}"
        secrets = [*secrets_of(settings.url), *filter(None, [os.environ.get(_KEY)])]
        super().__init__(name, QdrantStore(settings, name), settings.keep_left, secrets)


class QdrantStore:
    """Two collections of Qdrant; see `dygcn.serving.sinks.vector_store.VectorStore`."""

    def __init__(self, settings: QdrantSettings, name: str) -> None:
        with extra("qdrant"):
            import qdrant_client  # noqa: PLC0415
            from qdrant_client import models  # noqa: PLC0415
            from qdrant_client.common.client_exceptions import QdrantException  # noqa: PLC0415
            from qdrant_client.http.exceptions import ApiException  # noqa: PLC0415
        self.errors: tuple[type[BaseException], ...] = (ApiException, QdrantException, OSError, ValueError)
        self._models, self._settings, self._name = models, settings, name
        self._rows, self._marks = settings.collection, f"{settings.collection}_marks"
        self._make = qdrant_client.QdrantClient
        self._client: Any = None
        self._shape: Shape
        _address(settings.url)

    def open(self, shape: Shape) -> None:
        """Connect, by HTTP."""
        self._shape = shape
        self._client = connect(self._make, self._settings)

    def close(self) -> None:
        """Let go of the connections."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def lock(self) -> Lock:
        """Return the lock of this process."""
        return lock_of(self._name)

    def collections(self) -> tuple[bool, bool]:
        """Return whether there are rows and marks."""
        return self._client.collection_exists(self._rows), self._client.collection_exists(self._marks)

    def create_marks(self) -> None:
        """Create the collection of marks; its points have no vectors."""
        self._client.delete_collection(self._marks)
        self._client.create_collection(self._marks, vectors_config={})

    def create_rows(self, shape: Shape) -> None:
        """Create the collection of rows."""
        distance = self._models.Distance[self._settings.distance.upper()]
        vectors = self._models.VectorParams(size=shape.dim, distance=distance)
        self._client.create_collection(self._rows, vectors_config=vectors)

    def shape_there(self) -> str:
        """Return the shape that was kept with the position."""
        found = self._retrieve(self._marks, [POSITION], ["shape"])
        return str(found[0].payload["shape"]) if found else "(none)"

    def marks(self, keys: Sequence[str]) -> dict[str, History]:
        """Return those marks that are there."""
        found = self._retrieve(self._marks, keys, list(FIELDS))
        return {str(one.id): History(*(one.payload[field] for field in FIELDS)) for one in found}

    def put_marks(self, keys: Sequence[str], history: History, at: int, shape: str = "") -> None:
        """Write marks, whatever was there."""
        payload = {**as_values(history), "at": at, "shape": shape}
        points = [self._models.PointStruct(id=key, vector={}, payload=payload) for key in keys]
        self._client.upsert(self._marks, points, wait=True)

    def delete_marks(self, keys: Sequence[str]) -> None:
        """Delete marks."""
        self._client.delete(self._marks, self._models.PointIdsList(points=list(keys)), wait=True)

    def delete_marks_before(self, at: int) -> None:
        """Delete marks of an earlier time."""
        early = self._models.FieldCondition(key="at", range=self._models.Range(lt=at))
        self._delete(self._marks, must=[early])

    def delete_marks_of_others(self, generation: int) -> None:
        """Delete marks of other generations."""
        self._delete(self._marks, must_not=[self._equal("generation", generation)])

    def any_rows(self) -> bool:
        """Return whether there is any row."""
        return bool(self._client.scroll(self._rows, limit=1, with_payload=False)[0])

    def ranks(self, ids: Sequence[NodeId]) -> dict[NodeId, Rank]:
        """Return the rank of each id that has a row."""
        found = self._retrieve(self._rows, list(map(key_of, ids)), ["id", "generation", "version"])
        payloads = [one.payload for one in found]
        return {one["id"]: (one["generation"], one["version"]) for one in payloads}

    def put_rows(self, ids: Sequence[NodeId], vectors: Float32, history: History) -> None:
        """Write rows, each unless Qdrant has a newer one."""
        rank = history.generation, history.sequence
        payload = {**as_values(history), "rank": _as_payload(rank)}
        batch = self._models.Batch(
            ids=list(map(key_of, ids)),
            vectors=vectors.tolist(),
            payloads=[{**self._shape.id_fields(id_), **payload} for id_ in ids],
        )
        older = self._models.Filter(should=self._lower(rank))
        self._client.upsert(self._rows, batch, wait=True, update_filter=older)

    def delete_rows(self, ids: Sequence[NodeId], below: Rank) -> None:
        """Delete those rows of ids that are of a lower rank."""
        these = self._models.HasIdCondition(has_id=list(map(key_of, ids)))
        self._delete(self._rows, must=[these], should=self._lower(below))

    def delete_rows_of_others(self, epoch: str) -> None:
        """Delete rows of other epochs."""
        self._delete(self._rows, must_not=[self._equal("epoch", epoch)])

    def ids_below(self, version: int, epoch: str, most: int) -> list[NodeId]:
        """Return ids whose rows are of an epoch and below a version."""
        lower = self._lower((0, version))[2:]  # words of the version alone
        for condition in lower:
            condition.must = condition.must[2:]
        where = self._models.Filter(must=[self._equal("epoch", epoch)], should=lower)
        found, _ = self._client.scroll(self._rows, where, limit=most, with_payload=["id"])
        return [one.payload["id"] for one in found]

    def _retrieve(self, collection: str, keys: Sequence[str], fields: list[str]) -> Any:
        return self._client.retrieve(collection, list(keys), with_payload=fields)

    def _delete(self, collection: str, **where: Any) -> None:
        selector = self._models.FilterSelector(filter=self._models.Filter(**where))
        self._client.delete(collection, selector, wait=True)

    def _equal(self, field: str, value: int | str) -> Any:
        return self._models.FieldCondition(key=field, match=self._models.MatchValue(value=value))

    def _lower(self, rank: Rank) -> list[Any]:
        """Return conditions of which one holds for a lower rank: less, at the first word that differs."""
        words = list(zip(_WORDS, _as_payload(rank).values(), strict=True))
        return [
            self._models.Filter(
                must=[
                    *(self._equal(*before) for before in words[:place]),
                    self._models.FieldCondition(key=field, range=self._models.Range(lt=word)),
                ]
            )
            for place, (field, word) in enumerate(words)
        ]


def connect(make: Any, settings: QdrantSettings) -> Any:
    """Return a client of the server that settings name."""
    url, key = _address(settings.url)
    return make(url=url, api_key=key, timeout=max(1, round(settings.timeout)), check_compatibility=False)


def _address(url: str) -> tuple[str, str | None]:
    """Return an address without its key, and the key."""
    try:
        parts = urlsplit(url)
        port = parts.port or 6333
    except ValueError:
        raise OptionError(
            "url is not an address of Qdrant; allowed is http://host:6333 or https://"
        ) from None
    key = unquote(parts.password or parts.username or "") or os.environ.get(_KEY)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}:{port}{parts.path}", key


def _as_payload(rank: Rank) -> dict[str, int]:
    generation, version = (number & (1 << 64) - 1 for number in rank)
    low = (1 << 32) - 1
    return {"g1": generation >> 32, "g0": generation & low, "v1": version >> 32, "v0": version & low}
