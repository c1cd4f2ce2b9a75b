"""Saving and loading. Model and graph are written, and what does not follow from them.

The state of the exact rule follows, bit for bit; other rules say what of theirs is written (`RuleSpec`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from dygcn.engine.graph.image import GraphImage
from dygcn.engine.models.contracts import StateImage
from dygcn.engine.models.folder import FileEntry, read_folder, write_folder
from dygcn.engine.models.folder import take_tensor as _take
from dygcn.engine.models.model import Model
from dygcn.engine.models.state import State
from dygcn.engine.records import Parts
from dygcn.errors import DamagedFolder
from dygcn.live import model_files
from dygcn.live.changed import FeedImage, Unsaid
from dygcn.live.model_files import FolderSettings, LogPosition

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from dygcn.engine.models.contracts import StateReader
    from dygcn.engine.models.folder import Tensors
    from dygcn.engine.records import Nodes

MODEL_FILE, GRAPH_FILE = "model.safetensors", "graph.safetensors"
_GRAPH = {"a": np.int32, "b": np.int32, "weight": np.int64, "ghost_weight": np.int64, "ghost_t": np.float64}
_CONTACTS = {"contact": np.float64, "activity": np.float32, "pair_t": np.float64, "pair_count": np.float32}
_PARTS = {"pair": np.int64, "relation": np.int16, "weight": np.int64}
_model_files: WeakKeyDictionary[Model, FileEntry] = WeakKeyDictionary()  # what is on disk of each model


# The content of a folder: the state, not rebuilt yet, its version, its log position and its moves.
Loaded: TypeAlias = tuple[State, int, LogPosition | None, FeedImage | None]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state at one moment; it shares nothing with the live state, which may change meanwhile."""

    settings: FolderSettings
    model: Model
    image: StateImage
    feed: FeedImage | None = None  # where there is a log

    def write(
        self,
        path: str | os.PathLike[str],
        beside: str | os.PathLike[str] | None = None,
        model_file: FileEntry | None = None,
    ) -> FileEntry:
        """Write model and graph to a folder, in one step; return size and checksum of the model's file."""
        graph = _graph_tensors(self.image.arranged(), self.model.unit) | _feed_tensors(self.feed)
        files = {MODEL_FILE: model_files.model_tensors(self.model), GRAPH_FILE: graph}
        entry, known = model_file or _model_files.get(self.model), {}
        if entry is not None and beside is not None:
            known = {MODEL_FILE: (Path(beside) / MODEL_FILE, entry)}
        settings = msgspec.to_builtins(self.settings)
        written = write_folder(path, settings, files, known, private=beside is not None)
        _model_files[self.model] = written[MODEL_FILE]
        return written[MODEL_FILE]


def same_model_file(model: Model) -> FileEntry | None:
    """Return size and checksum of the file that a model was last read from or written to; else None."""
    return _model_files.get(model)


def take_snapshot(
    state: StateReader,
    version: int,
    log: LogPosition | None = None,
    feed: Callable[[Nodes], tuple[FeedImage, int]] | None = None,
) -> Snapshot:
    """Return the current state; slow work, such as sorting, is left to `Snapshot.write`."""
    image, nodes = state.loose_image()
    moves, graph = None, state.graph
    if log is not None and feed is not None:
        moves, log.floor = feed(nodes)
    counts = {"clock": image.graph.clock, "nodes": len(graph), "edges": graph.edge_count}
    settings = model_files.settings_of(state.model, image.history, version=version, log=log, **counts)
    return Snapshot(settings, state.model, image, moves)


def load_state(path: str | os.PathLike[str]) -> tuple[State, int]:
    """Read a folder that `Snapshot.write` wrote; return the state and its version."""
    state, version, *_ = load_snapshot(path)
    state.rebuild()
    return state, version


def load_snapshot(path: str | os.PathLike[str]) -> Loaded:
    """Read a folder."""
    raw, files, entries = read_folder(path, (MODEL_FILE, GRAPH_FILE))
    try:
        settings = msgspec.convert(raw, FolderSettings)
        model = model_files.read_model(settings, files[MODEL_FILE])
        feed = _read_feed(settings, files[GRAPH_FILE], model.width)
        image = _read_image(settings, files[GRAPH_FILE], model)
        state = State.from_image(model, image, rebuilt=False)
        if feed is not None and feed.unsaid is not None and (state.graph.find(feed.unsaid.ids) < 0).any():
            raise ValueError("announcements of nodes that are not there")
    except (msgspec.ValidationError, KeyError, ValueError, TypeError) as error:
        raise DamagedFolder(f"{path} contradicts itself: {error}") from None
    if (len(state.graph), state.graph.edge_count) != (settings.nodes, settings.edges):
        raise DamagedFolder(
            f"{path} contradicts itself: the manifest counts other nodes or edges than it holds"
        )
    _model_files[model] = entries[MODEL_FILE]
    return state, settings.version, settings.log, feed


def _graph_tensors(image: StateImage, unit: float | None) -> Tensors:
    graph = image.graph
    return {
        **model_files.id_tensors("ids", graph.ids),
        "own": graph.own.astype(np.uint8),
        **{name: getattr(graph, name) for name in (_GRAPH if unit is None else _GRAPH | _CONTACTS)},
        **({} if graph.parts is None else {f"part_{name}": getattr(graph.parts, name) for name in _PARTS}),
        **model_files.history_tensors(image.history),
        **image.tensors,
    }


def _feed_tensors(feed: FeedImage | None) -> Tensors:
    if feed is None:
        return {}
    unsaid = feed.unsaid
    kept = {} if unsaid is None else {**model_files.id_tensors("unsaid", unsaid.ids), "said": unsaid.rows}
    return {"moved": feed.moved, "left_at": feed.left_at, **model_files.id_tensors("left", feed.left), **kept}


def _read_feed(settings: FolderSettings, tensors: Tensors, width: int) -> FeedImage | None:
    """Read the record of moves and departures; raise ValueError if it contradicts itself."""
    if settings.log is None:
        return None
    moved, left_at = (_take(tensors, name, np.int64) for name in ("moved", "left_at"))
    left, unsaid = model_files.take_ids(tensors, "left", settings.ids), None
    if "said" in tensors:
        kept = model_files.take_ids(tensors, "unsaid", settings.ids)
        unsaid = Unsaid(kept, _take(tensors, "said", np.int32, 2))
    feed = FeedImage(moved, left, left_at, unsaid)
    last, floor = settings.log.sequence, settings.log.floor
    faults = {
        "moves of other nodes than there are": len(moved) != settings.nodes,
        "a move that is still to come": bool(((moved < 0) | (moved > last)).any()),
        "departures of different lengths": len(feed.left) != len(left_at),
        "departures out of order": bool((np.diff(left_at) < 0).any()),
        "departures outside of what is known": len(left_at) > 0
        and not floor < left_at[0] <= left_at[-1] <= last,
        "a floor outside of the log": not 0 <= floor <= last,
        "announcements of another shape": unsaid is not None
        and unsaid.rows.shape != (len(unsaid.ids), width),
    }
    model_files.refuse(faults)
    return feed


def _read_image(settings: FolderSettings, tensors: Tensors, model: Model) -> StateImage:
    ids = model_files.take_ids(tensors, "ids", settings.ids)
    own = _take(tensors, "own", np.uint8)
    if own.max(initial=0) > 1:
        raise ValueError("marks of own features other than 0 and 1")
    history = None
    if settings.following is not None and settings.history_clock is not msgspec.UNSET:
        history = model_files.read_history(settings.ids, settings.history_clock, tensors)
    kept = model.spec.read_state(tensors, len(ids), int(own.sum()), model.dim, model.new_features())
    arrays: dict[str, Any] = {name: np.empty(0, dtype) for name, dtype in _CONTACTS.items()}
    read = _GRAPH if settings.unit is None else _GRAPH | _CONTACTS
    arrays |= {name: _take(tensors, name, dtype) for name, dtype in read.items()}
    if model.relations:
        arrays["parts"] = Parts(*(_take(tensors, f"part_{name}", dtype) for name, dtype in _PARTS.items()))
    graph = GraphImage(ids, own.astype(np.bool_), clock=settings.clock, **arrays)
    if tensors:
        raise ValueError(f"unknown tensors {sorted(tensors)}")
    return StateImage(graph, kept, history)


def digest_of(state: StateReader) -> str:
    """Return the hex digest of the graph and of every message sum (or vector), by the user's ids.

    It covers the nodes that have an edge or features of their own, sorted by id, and logical values:
    never internal ids, storage widths or the number of updates.
    """
    image, nodes = state.image()
    graph = image.graph
    whole = hashlib.blake2b(b"dygcn digest 1", digest_size=32)
    if not state.model.spec.from_graph:
        whole.update(state.model.rule.encode())
    whole.update(np.array([state.graph.directed, state.rule.orders, state.model.width], np.int64).tobytes())
    whole.update(graph.ids.values.tobytes() if len(graph.ids) else b"")
    if graph.ids.data is not None:
        whole.update(graph.ids.data.tobytes())
    for column in (graph.own, graph.a, graph.b, graph.weight, graph.ghost_weight, graph.ghost_t):
        whole.update(np.ascontiguousarray(column).tobytes())
    if graph.parts is not None:
        whole.update(graph.parts.tobytes())
    if state.graph.memory is not None:
        whole.update(np.array([-np.inf if graph.clock is None else graph.clock]).tobytes())
    for block in state.rule.state_bytes(state.graph, nodes):
        whole.update(block.tobytes())
    return whole.hexdigest()
