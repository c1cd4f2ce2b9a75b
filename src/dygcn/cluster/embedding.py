"""A live embedding on shards."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, Unpack, cast

import msgspec
import numpy as np

from dygcn.cluster.edge_images import part_for
from dygcn.cluster.front import FrontState
from dygcn.cluster.logged_entries import LoggedEntries, ShardLog
from dygcn.cluster.messages import Entry, Move, Remove, Resize, ShardSnapshot
from dygcn.cluster.queries import NearestQuery, NearestReply, VectorQuery, VectorReply
from dygcn.cluster.shard import Shard
from dygcn.cluster.slots import SlotMap, check_shards
from dygcn.cluster.store import SnapshotFolder, is_used
from dygcn.cluster.wire import pack, unpack
from dygcn.engine._disk import replace_own
from dygcn.engine.events import ColumnOptions, join_ids, python_ids
from dygcn.engine.models.checks import read_tolerance
from dygcn.engine.models.contracts import Outcome
from dygcn.engine.records import NO_CHANGE, Changed, Float32
from dygcn.errors import ClusterError, DamagedFolder, EventError, FeatureError, OptionError
from dygcn.live.change import Change
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.durable.opening import open as open_folder
from dygcn.live.durable.recovery import ReplayedBatch, Standing
from dygcn.live.durable.source_batch import SourceBatch
from dygcn.live.durable.storage.entries import Kind, NewEntry
from dygcn.live.durable.storage.layout import CLUSTER_FILE
from dygcn.live.durable.write_ahead import WriteAhead
from dygcn.live.finding import Scored, check_parts, many_ids
from dygcn.live.recommending import Among

_AT_ONCE = 64  # slots that move with one entry: reads of their nodes wait
_WAITING, _MOVES = 8, 0.5  # reads that ask one shard at a time; seconds, after which others do not wait
NO_FORGET = (
    "ids are not forgotten on shards: begin a folder for one process, dygcn.open(new, live, after=live), "
    "forget there, and start shards on it"
)
_LOOK = 0.002  # seconds between two tries to get a place in line


def _refused(why: str) -> Any:
    def refuse(self: ClusterEmbedding, *_: object, **__: object) -> NoReturn:
        """Raise FeatureError: shards do not support this."""
        raise FeatureError(why)

    return refuse


class ShardsAhead(WriteAhead):
    """A log that shards replay themselves: here, only offsets of streams are restored."""

    def _replay_batch(self, one: ReplayedBatch) -> None:
        self.live._renumber(self._making[1])

    def _go_on_from(self, standing: Standing) -> None:
        super()._go_on_from(standing)
        nodes = self._state.graph.nodes()  # any may have moved since the last snapshot, or left
        self.feed.note(nodes, self.live._names(nodes[:0]), self.log.last)
        self.feed.forget(self.log.last)


class ClusterEmbedding(DurableEmbedding):
    """A durable embedding whose graph is divided among shards. Made by `dygcn.cluster.launch`.

    It is used as any embedding. Trials (`what_if`, `explain_change`), a tolerance, `set_features` and `refit`
    are refused: save a copy, and ask that.
    """

    _far = True

    def __init__(self, *durable: Any, about: ClusterFile, logged: LoggedEntries) -> None:
        super().__init__(*durable)
        self._about, self._logged = about, logged
        self._waiting: dict[int, dict[object, float]] = {}  # reads without the lock, since when, by owner

    @property
    def _front(self) -> FrontState:
        return cast("FrontState", self._state)

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return self._front.queries.shards

    # ---- growing ---------------------------------------------------------------------------------------

    def resize(self, shards: int) -> None:
        """Divide the graph among another number of shards, while it is used.

        Slots move a few at a time, between batches; each such step is in the log, so it survives whatever
        happens meanwhile. A call that was interrupted can be made again.

        Parameters
        ----------
        shards
            How many.
        """
        check_shards(shards)
        if shards > self.shards:
            self._grow(shards)
        target = SlotMap.even(shards)
        for to in range(shards):
            slots = np.flatnonzero((target.owner == to) & (self._front.queries.slots.owner != to))
            for start in range(0, len(slots), _AT_ONCE):
                self._follow_entry(Move(tuple(slots[start : start + _AT_ONCE].tolist()), to))
        before = self.shards
        if shards < before:
            self._have(shards)
            for number in range(shards, before):
                self._front.queries.processes.retire(number)

    def _grow(self, shards: int) -> None:
        with self._ahead.one_writer():
            queries, batch = self._front.queries, self._log.last_batch_id + 1
            for number in range(queries.shards, shards):
                queries.processes.add(number, ShardSnapshot(batch, queries.slots, shards, None))
            self._have(shards)

    def _have(self, shards: int) -> None:
        with self._ahead.one_writer():  # until it is noted: the log may forget it after that
            self._follow_entry(Resize(shards))
            self._about.shards, self._about.batch = shards, self._log.last_batch_id
            write_cluster_file(self._folder, self._about)

    def _follow_entry(self, entry: Entry) -> Change:
        with self._ahead.one_writer():
            logged = [NewEntry(Kind.SHARDS, body=pack(entry))]
            return self._ahead.log_then(logged, lambda: self._live._write(lambda: self._front.follow(entry)))

    # ---- changes that are no events --------------------------------------------------------------------

    def _remove_nodes(self, ids: object) -> Change:
        column = many_ids(self._state, ids)
        with self._ahead.one_writer():
            nodes = self._state.graph.find(column) if len(column) else np.empty(0, np.int32)
            known = np.unique(nodes[nodes >= 0])
            change = self._follow_entry(Remove(self._names(known)))
        change.missing = len(nodes) - int((nodes >= 0).sum())
        return change

    def bulk(self, parts: Iterable[object], **names: Unpack[ColumnOptions]) -> Change:
        """Apply parts one after the other; all nodes count as moved."""
        check_parts(parts)
        for part in parts:
            self.update(part, **names)
        nodes = self._state.graph.nodes()
        moved = Changed(nodes, np.ones(len(nodes), np.int8), self.model.orders * len(nodes))
        return Change(self._live, Outcome(moved, self._names(nodes[:0])), self.version)

    set_features = _refused("features cannot be set on shards: their rows follow from the model")
    forget = _refused(NO_FORGET)
    refit = _refused(
        "a model is not refitted on shards: live.save(path), then dygcn.load(path).refit(), and start a "
        "cluster on the folder that comes of it"
    )

    def _follow_forgets(self, part: SourceBatch) -> SourceBatch:
        return part.with_dead_forgets(NO_FORGET)

    def publish(self, tolerance: float | None = None) -> Change:
        """Refuse any tolerance but 0: shards publish everything that moved."""
        if tolerance is None:
            return super().publish()
        if read_tolerance(tolerance) > 0:
            raise FeatureError(
                "shards publish everything that moved: what was announced last does not follow from the "
                "graph, so a shard that died could not come back with it; 0 is allowed"
            )
        return Change(
            self._live, Outcome(NO_CHANGE, self._names(self._state.graph.nodes()[:0])), self.version
        )

    # ---- reading ---------------------------------------------------------------------------------------

    def _nearest(self, asked: Any, k: int, among: Among, kind: str | None) -> Any:
        if among is not None or self._state.graph.ids.kinds is not None or kind is not None:
            return super()._nearest(asked, k, among, kind)
        if isinstance(asked, np.ndarray):
            return self._merged(asked[None], k)[0]
        many = asked if isinstance(asked, list) else [asked]
        names = python_ids(self._names(self._find(many))).tolist()
        found = self._merged(self._vectors_of(self._find(many)), k + 1)
        without = [[one for one in near if one[0] != me][:k] for me, near in zip(names, found, strict=True)]
        return without if isinstance(asked, list) else without[0]

    def _merged(self, vectors: Any, k: int) -> list[Scored]:
        """Return the k best of all shards for each query; ties by id."""
        shards, vectors = self._front.queries, np.ascontiguousarray(vectors, np.float32)
        replies: list[NearestReply] = shards.all(NearestQuery(shards.at, vectors, k))
        which = np.concatenate([np.repeat(np.arange(len(vectors)), reply.counts) for reply in replies])
        nodes = self._state.graph.find(join_ids([reply.ids for reply in replies]))
        scores = np.concatenate([reply.scores for reply in replies])
        found = []
        for query in range(len(vectors)):
            mine = np.flatnonzero(which == query)
            order = self._state.graph.ids.sorted(nodes[mine])
            by_id = mine[np.argsort(nodes[mine])][np.searchsorted(np.sort(nodes[mine]), order)]
            best = by_id[np.argsort(-scores[by_id], kind="stable")][:k]
            found.append(self._answer(nodes[best], scores[best]))
        return found

    def _read_straight(self, node: int | str) -> tuple[int, Float32 | None] | None:
        """Return a sequence and a node's vector as of it, from its owner, even while other shards recover.

        Raises `ClusterError` if several reads have waited long for this owner: they would use up all threads.
        """
        known = self._state.graph.ids
        try:
            ids = known.read([node])
            known.check_kind(ids)
        except (EventError, OptionError):
            return None
        queries = self._front.queries
        owner = int(queries.slots.owners(ids)[0])
        with self._line_of(owner):
            reply: VectorReply = queries.processes.query({owner: VectorQuery(0, ids)})[owner]
        if reply.here[0] < 0:  # its slot is being moved
            return None
        return self._logged.sequence_of(reply.position), reply.vectors[0] if reply.here[0] else None

    @contextmanager
    def _line_of(self, owner: int) -> Iterator[None]:
        """Wait for a turn to query a shard; raise ClusterError if no query there finishes."""
        line, me = self._waiting.setdefault(owner, {}), object()
        while len(since := list(line.values())) >= _WAITING:
            if time.monotonic() - min(since) > _MOVES:
                raise ClusterError(f"shard {owner} does not answer now, and others wait for it; ask again")
            time.sleep(_LOOK)
        line[me] = time.monotonic()
        try:
            yield
        finally:
            del line[me]

    # ---- the end ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write what a fast start needs, end all shards, release the folder. Safe to call twice."""
        if not self._closed and not self._held.inherited:
            super().close()
            self._front.queries.processes.close()

    def _let_go(self) -> None:
        """Release the folder as a crash would. For tests."""
        if not self._held.inherited:
            super()._let_go()
            self._front.queries.processes.close()


# ---- the folder: durable, with the graph in the snapshots of shards ---------------------------------

_FORMAT = 2


class ClusterFile(msgspec.Struct, forbid_unknown_fields=True):
    """How many shards there were after a batch, and the folder of their snapshots."""

    shards: int
    batch: int
    snapshots: str  # relative to the folder, or anything that fsspec knows
    format: int = _FORMAT


def read_cluster_file(folder: Path) -> ClusterFile | None:
    """Return the cluster file of a folder, None if it has no shards."""
    file = folder / CLUSTER_FILE
    try:
        found = msgspec.json.decode(file.read_bytes(), type=ClusterFile)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise DamagedFolder(f"{file} cannot be read: {error}; restore a copy") from None
    if found.format != _FORMAT:
        raise DamagedFolder(f"{file} has format {found.format}; this version reads {_FORMAT}")
    return found


def write_cluster_file(folder: Path, about: ClusterFile) -> None:
    """Write the file; when this returns, it is on disk."""
    beside = folder / f".{CLUSTER_FILE}.{os.getpid()}"
    replace_own(folder / CLUSTER_FILE, beside, msgspec.json.encode(about))


def snapshots_of(folder: Path, about: ClusterFile) -> str:
    """Return the folder or address of snapshots."""
    return about.snapshots if "://" in about.snapshots else str((folder / about.snapshots).resolve())


def divide_folder(folder: Path, shards: int, snapshots: str | None) -> ClusterFile:
    """Divide the graph of a folder among shards; from then on, only a cluster can open it."""
    slots = SlotMap.even(shards)
    about = ClusterFile(shards, 0, "shards" if snapshots is None else snapshots)
    if snapshots is not None and is_used(snapshots_of(folder, about)):
        raise OptionError(
            f"{snapshots} holds snapshots of shards already, of another cluster or of a start that was "
            "interrupted; name another place, or remove them"
        )
    with open_folder(folder) as live:
        Shard(live.model, 0, SlotMap.even(1), 1)  # which refuses a model that shards do not take
        if live._tolerance > 0:
            raise OptionError(
                "this folder has a tolerance, and shards publish everything that moved; set it to 0 first"
            )
        about.batch = live._log.last_batch_id
        image = live._state.image()[0].graph
        for number in range(shards):
            store = SnapshotFolder(snapshots_of(folder, about), number)
            store.begin(ShardSnapshot(about.batch, slots, shards, part_for(image, slots, number)))
        write_cluster_file(folder, about)  # while no other process can open it
    return about


def shards_needed(about: ClusterFile, log: ShardLog) -> int:
    """Return how many shards reading the log may need: those that stay wait for updates of those that go."""
    most = about.shards
    for entry in log.behind(0):
        if entry.kind == Kind.SHARDS and entry.batch_id > about.batch:
            change = unpack(entry.body)
            most = max(most, change.shards) if isinstance(change, Resize) else most
    return most
