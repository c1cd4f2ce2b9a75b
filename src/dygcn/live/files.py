"""Saving and loading. Model and graph are written, and what does not follow from them.

The state of the exact rule follows, bit for bit; other rules say what of theirs is written (`RuleSpec`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from dygcn.engine.events.kinds import is_id_type
from dygcn.engine.features import NodeColumns, RowTable
from dygcn.engine.graph.ids import IdMap
from dygcn.engine.graph.image import GraphImage
from dygcn.engine.models import (
    Baseline,
    LinkHead,
    Model,
    NextHead,
    Projection,
    State,
    StateImage,
    find_spec,
    read_folder,
    rule_names,
    write_folder,
)
from dygcn.engine.models.checks import check_relation_weights
from dygcn.engine.models.choices import GREATEST_ORDERS, GREATEST_UNIT, LEAST_UNIT
from dygcn.engine.models.folder import FileEntry
from dygcn.engine.models.folder import take_tensor as _take
from dygcn.engine.models.links import PAST, SAVED, TRAITS, count_products
from dygcn.engine.records import Parts
from dygcn.errors import DamagedFolder
from dygcn.live.announcing import Unsaid
from dygcn.live.changed import FeedImage
from dygcn.live.filter_files import FilterSettings, filter_tensors, read_filter
from dygcn.live.history_files import checked_next, clock_of, history_tensors, read_history
from dygcn.live.id_tensors import id_tensors, take_ids

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dygcn.engine.models.folder import Tensors
    from dygcn.engine.records import Nodes

MODEL_FILE, GRAPH_FILE = "model.safetensors", "graph.safetensors"
_LARGEST_SIDE = 1 << 14
_CONTACTS = {"contact": np.float64, "activity": np.float32, "pair_t": np.float64, "pair_count": np.float32}
_PARTS = {"pair": np.int64, "relation": np.int16, "weight": np.int64}
_model_files: WeakKeyDictionary[Model, FileEntry] = WeakKeyDictionary()  # what is on disk of each model


class LogPosition(msgspec.Struct, forbid_unknown_fields=True):
    """What of a durable log a snapshot holds."""

    sequence: int
    batch_id: int
    chain: str
    streams: dict[str, int]
    epoch: str  # as the log packs it, in hexadecimal digits: its entry may be pruned
    tolerance: float
    heard: list[float] = []  # when the clients among the streams were heard of last
    forgotten: str = ""  # fingerprints of streams that were forgotten
    floor: int = 0  # the sequence up to which nobody knows who left
    refused: list[int] = []  # entries whose change was shown to readers and never happened
    erasures: int | msgspec.UnsetType = msgspec.UNSET  # how many there were, where there were any


Loaded: TypeAlias = tuple[State, int, LogPosition | None, FeedImage | None]
"""What is read from a folder: the state, not rebuilt yet, its version, what it holds of a log, who moved."""


class GivenSettings(msgspec.Struct, forbid_unknown_fields=True):
    """The block of features that a user brings, but for its matrix."""

    share: float
    columns: NodeColumns | None = None


class Settings(msgspec.Struct, forbid_unknown_fields=True):
    """The part of the manifest that is ours."""

    rule: str
    orders: int
    ids: str
    features: str
    seed: int
    directed: bool
    weight_grid: float
    half_life: float | None
    clock: float | None
    version: int
    nodes: int
    edges: int
    rule_settings: dict[str, Any] | None = msgspec.field(default=None, name="paper")
    unit: float | None = None
    links: dict[str, LinkHead] = {}
    log: LogPosition | None = None
    window: int = 0  # steps of the walks that the rows of the model were made of
    whole_weights: bool | msgspec.UnsetType = msgspec.UNSET  # written where it is so, and only there
    given: GivenSettings | msgspec.UnsetType = msgspec.UNSET  # where features stand beside the rows
    relations: dict[str, float] | msgspec.UnsetType = msgspec.UNSET  # likewise
    following: NextHead | msgspec.UnsetType = msgspec.UNSET  # where a history is kept
    history_clock: float | msgspec.UnsetType | None = msgspec.UNSET  # likewise; None: it has no event
    filter: FilterSettings | msgspec.UnsetType = msgspec.UNSET  # where there is one
    expire: float | msgspec.UnsetType = msgspec.UNSET  # where edges leave by the clock


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state at one moment; it shares nothing with the state itself, which may go on."""

    settings: Settings
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
        files = {MODEL_FILE: _model_tensors(self.model), GRAPH_FILE: graph}
        entry, known = model_file or _model_files.get(self.model), {}
        if entry is not None and beside is not None:
            known = {MODEL_FILE: (Path(beside) / MODEL_FILE, entry)}
        settings = msgspec.to_builtins(self.settings)
        written = write_folder(path, settings, files, known, private=beside is not None)
        _model_files[self.model] = written[MODEL_FILE]
        return written[MODEL_FILE]


def same_model_file(model: Model) -> FileEntry | None:
    """Return size and checksum of the file that a model was read from or written to last."""
    return _model_files.get(model)


def take_snapshot(
    state: State,
    version: int,
    log: LogPosition | None = None,
    feed: Callable[[Nodes], tuple[FeedImage, int]] | None = None,
) -> Snapshot:
    """Return the state as it is now; what takes long is done when it is written."""
    model = state.model
    image, nodes = state.loose_image()
    moves = None
    if log is not None and feed is not None:
        moves, log.floor = feed(nodes)
    settings = Settings(
        model.rule,
        model.orders,
        model.ids,
        model.features,
        model.seed,
        model.directed,
        model.grid,
        model.half_life,
        image.graph.clock,
        version,
        len(state.graph),
        state.graph.edge_count,
        model.spec.settings(),
        model.unit,
        dict(model.links),
        log,
        0 if model.table is None else model.table.window,
        model.whole or msgspec.UNSET,
        _given_settings(model.projection),
        dict(model.relations) or msgspec.UNSET,
        msgspec.UNSET if model.following is None else model.following,
        msgspec.UNSET if image.history is None else clock_of(image.history),
        msgspec.UNSET if model.filter is None else FilterSettings.of(model.filter),
        msgspec.UNSET if model.expire is None else model.expire,
    )
    return Snapshot(settings, model, image, moves)


def _given_settings(projection: Projection | None) -> GivenSettings | msgspec.UnsetType:
    return msgspec.UNSET if projection is None else GivenSettings(projection.share, projection.columns)


def load_state(path: str | os.PathLike[str]) -> tuple[State, int]:
    """Read a folder that `Snapshot.write` wrote; return the state and its version."""
    state, version, *_ = load_snapshot(path)
    state.rebuild()
    return state, version


def load_snapshot(path: str | os.PathLike[str]) -> Loaded:
    """Read a folder."""
    raw, files, entries = read_folder(path, (MODEL_FILE, GRAPH_FILE))
    try:
        settings = msgspec.convert(raw, Settings)
        model = _read_model(settings, files[MODEL_FILE])
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


def _model_tensors(model: Model) -> Tensors:
    tensors: Tensors = dict(zip(model.weight_names, model.weights, strict=True))
    tensors["scales"] = model.scales
    if model.table is not None:
        tensors |= id_tensors("table_ids", model.table.ids)
        tensors["table_rows"] = model.table.rows
    if model.projection is not None:
        tensors |= {"given_matrix": model.projection.matrix, "given_offset": model.projection.offset}
    tensors |= filter_tensors(model.filter) | model.spec.tensors()
    if model.baseline is not None:
        tensors |= id_tensors("baseline_ids", model.baseline.ids)
        tensors["baseline_vectors"] = model.baseline.vectors
        tensors |= {f"baseline_h{k}": rows for k, rows in enumerate(model.baseline.messages)}
    return tensors


def _graph_tensors(image: StateImage, unit: float | None) -> Tensors:
    graph = image.graph
    return {
        **id_tensors("ids", graph.ids),
        "own": graph.own.astype(np.uint8),
        "a": graph.a,
        "b": graph.b,
        "weight": graph.weight,
        "ghost_weight": graph.ghost_weight,
        "ghost_t": graph.ghost_t,
        **({} if unit is None else {name: getattr(graph, name) for name in _CONTACTS}),
        **({} if graph.parts is None else {f"part_{name}": getattr(graph.parts, name) for name in _PARTS}),
        **history_tensors(image.history),
        **image.tensors,
    }


def _feed_tensors(feed: FeedImage | None) -> Tensors:
    if feed is None:
        return {}
    unsaid = feed.unsaid
    kept = {} if unsaid is None else {**id_tensors("unsaid", unsaid.ids), "said": unsaid.rows}
    return {"moved": feed.moved, "left_at": feed.left_at, **id_tensors("left", feed.left), **kept}


def _read_feed(settings: Settings, tensors: Tensors, width: int) -> FeedImage | None:
    """Take out who moved and left when; a ValueError if it cannot have been so."""
    if settings.log is None:
        return None
    moved, left_at = (_take(tensors, name, np.int64) for name in ("moved", "left_at"))
    left, unsaid = take_ids(tensors, "left", settings.ids), None
    if "said" in tensors:
        unsaid = Unsaid(take_ids(tensors, "unsaid", settings.ids), _take(tensors, "said", np.int32, 2))
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
    for fault, found in faults.items():
        if found:
            raise ValueError(fault)
    return feed


def _check_settings(settings: Settings) -> None:
    """Refuse settings that no model has."""
    if settings.rule not in rule_names():
        raise ValueError(
            f"rule {settings.rule!r}, known: {rule_names()}; install the distribution that has it"
        )
    known = find_spec(settings.rule).features
    grid_bits = math.log2(settings.weight_grid) if settings.weight_grid > 0 else math.nan
    faults = {
        f"features {settings.features!r}, known: {known}": settings.features not in known,
        f"ids {settings.ids!r}": not is_id_type(settings.ids),
        f"orders {settings.orders}": not 1 <= settings.orders <= GREATEST_ORDERS,
        f"weight grid {settings.weight_grid}": not (grid_bits.is_integer() and abs(grid_bits) < 1000),
        f"half-life {settings.half_life}": settings.half_life is not None
        and not (settings.half_life > 0 and math.isfinite(settings.half_life)),
        f"clock {settings.clock}": settings.clock is not None
        and ((settings.half_life is None and settings.unit is None) or not math.isfinite(settings.clock)),
        f"unit {settings.unit}": settings.unit is not None and not LEAST_UNIT < settings.unit < GREATEST_UNIT,
        f"scores of links {sorted(settings.links)} that do not fit": not _links_fit(settings),
        f"version {settings.version}": settings.version < 0,
        "whole weights on another grid, or with a memory": settings.whole_weights is True
        and (settings.weight_grid, settings.half_life) != (1.0, None),
        f"expire {settings.expire}": settings.expire is not msgspec.UNSET
        and (settings.unit is None or settings.half_life is not None or not 0 < settings.expire < math.inf),
        f"window {settings.window}": not 0 <= settings.window <= 16,
        f"seed {settings.seed}": not 0 <= settings.seed < 2**63,
        "features beside the rows": (settings.features == "walks+given")
        != (settings.given is not msgspec.UNSET),
    }
    for fault, found in faults.items():
        if found:
            raise ValueError(fault)


def _read_model(settings: Settings, tensors: Tensors) -> Model:
    _check_settings(settings)
    kind = find_spec(settings.rule)
    names = kind.weight_names(settings.orders)
    weights = tuple(_take(tensors, name, np.float32, 2) for name in names)
    scales = _take(tensors, "scales", np.float64)
    width, dim = weights[0].shape
    if any(matrix.shape != (width, dim) for matrix in weights) or not 1 <= max(width, dim) <= _LARGEST_SIDE:
        raise ValueError("matrices of different or impossible shapes")
    projection = _read_projection(settings, tensors) if settings.features == "walks+given" else None
    given = 0 if projection is None else projection.matrix.shape[1]
    walks = settings.features in ("walks", "walks+given")
    table = _read_table(settings, tensors, scales[: len(scales) - given]) if walks else None
    if table is not None:
        if (width, dim) != (1, 1):
            raise ValueError("matrices in a model that has one number for each order")
        width = dim = table.rows.shape[1] + given
        if (scales[width - given :] != 1).any():
            raise ValueError("given features with a scale other than 1")
    if not all(np.isfinite(matrix).all() for matrix in weights):
        raise ValueError("matrices that hold NaN or infinite values")
    exponents = np.frexp(scales)
    if scales.shape != (width,) or not (np.isfinite(scales).all() and (exponents[0] == 0.5).all()):
        raise ValueError("scales that are not powers of two, one for each column")
    if settings.features in ("hashed", "none") and not (scales == 1).all():
        raise ValueError(f"{settings.features} features with a scale other than 1")
    spec = kind.read(settings.rule_settings, tensors, settings.orders, (width, dim))
    baseline = _read_baseline(settings, tensors, width, dim) if settings.features == "embedding" else None
    shape = settings.ids, settings.directed, settings.unit
    head = None if settings.filter is msgspec.UNSET else read_filter(settings.filter, tensors, *shape)
    if tensors:
        raise ValueError(f"unknown tensors {sorted(tensors)}")
    return Model(
        weights,
        settings.ids,
        settings.features,
        scales,
        settings.seed,
        settings.directed,
        settings.weight_grid,
        settings.half_life,
        spec,
        baseline,
        settings.unit,
        settings.links,
        table,
        settings.whole_weights is True,
        projection,
        {} if settings.relations is msgspec.UNSET else check_relation_weights(settings.relations),
        None if settings.following is msgspec.UNSET else checked_next(settings.following, settings.orders),
        head,
        None if settings.expire is msgspec.UNSET else settings.expire,
    )


def _read_projection(settings: Settings, tensors: Tensors) -> Projection:
    matrix, offset = _take(tensors, "given_matrix", np.float32, 2), _take(tensors, "given_offset", np.float32)
    given = settings.given
    if isinstance(given, msgspec.UnsetType) or not 0 < given.share < 1:
        raise ValueError("a block of features without a share of the vectors")
    if offset.shape != matrix.shape[1:] or not 1 <= matrix.shape[1] <= _LARGEST_SIDE or len(matrix) < 1:
        raise ValueError("a projection of an impossible shape")
    if given.columns is not None and given.columns.width != len(matrix):
        raise ValueError("a projection of other columns than those of the nodes")
    if not (np.isfinite(matrix).all() and np.isfinite(offset).all()):
        raise ValueError("a projection that holds NaN or infinite values")
    return Projection(matrix, offset, given.share, given.columns)


def _links_fit(settings: Settings) -> bool:
    """Say whether heads are of known kinds and right lengths, tame, and in a model that can have some."""
    links = settings.links
    rows = [(head.negatives, head.known, head.dot, head.low, head.high) for head in links.values()]
    numbers = [number for five in rows for row in five for number in row]
    learned = settings.features not in ("embedding", "none")
    plain = 1 + count_products(settings.orders) + 2 * TRAITS
    lengths = {tuple(map(len, five)) for five in rows}
    ranges = all(low <= high for *_, lows, highs in rows for low, high in zip(lows, highs, strict=False))
    return (
        set(links) <= set(SAVED)
        and lengths <= {(plain, plain + PAST, 2 + TRAITS, plain + PAST - 2, plain + PAST - 2)}
        and ranges
        and all(abs(number) < 1e9 for number in numbers)
        and (learned or not links)
    )


def _read_baseline(settings: Settings, tensors: Tensors, width: int, dim: int) -> Baseline:
    ids = take_ids(tensors, "baseline_ids", settings.ids)
    vectors = _take(tensors, "baseline_vectors", np.float32, 2)
    messages = tuple(_take(tensors, f"baseline_h{k}", np.float32, 2) for k in range(settings.orders + 1))
    if width != dim or any(rows.shape != (len(ids), dim) for rows in (vectors, *messages)):
        raise ValueError("a baseline of another shape than the model")
    if not all(np.isfinite(rows).all() for rows in (vectors, *messages)):
        raise ValueError("a baseline that holds NaN or infinite values")
    return Baseline(ids, vectors, messages)


def _read_table(settings: Settings, tensors: Tensors, scales: NDArray[Any]) -> RowTable:
    ids = take_ids(tensors, "table_ids", settings.ids)
    rows = _take(tensors, "table_rows", np.int8, 2)
    if rows.shape != (len(ids), len(scales)) or not 1 <= len(scales) <= _LARGEST_SIDE:
        raise ValueError("rows that do not fit their ids or their scales")
    if rows.min(initial=0) < -127 or (scales != scales[0]).any():
        raise ValueError("rows beyond what the grid can carry")
    names = IdMap(settings.ids)
    names.intern(ids)
    if len(names) != len(ids):
        raise ValueError("an id that has two rows")
    return RowTable(ids, rows, float(scales[0]), settings.window)


def _read_image(settings: Settings, tensors: Tensors, model: Model) -> StateImage:
    ids = take_ids(tensors, "ids", settings.ids)
    own = _take(tensors, "own", np.uint8)
    if own.max(initial=0) > 1:
        raise ValueError("marks of own features other than 0 and 1")
    history = None
    if settings.following is not msgspec.UNSET and settings.history_clock is not msgspec.UNSET:
        history = read_history(settings.ids, settings.history_clock, tensors)
    kept = model.spec.read_state(tensors, len(ids), int(own.sum()), model.dim, model.new_features())
    contact, activity, pair_t, pair_count = (
        np.empty(0, dtype) if settings.unit is None else _take(tensors, name, dtype)
        for name, dtype in _CONTACTS.items()
    )
    graph = GraphImage(
        ids,
        own.astype(np.bool_),
        _take(tensors, "a", np.int32),
        _take(tensors, "b", np.int32),
        _take(tensors, "weight", np.int64),
        _take(tensors, "ghost_weight", np.int64),
        _take(tensors, "ghost_t", np.float64),
        settings.clock,
        contact,
        activity,
        pair_t,
        pair_count,
    )
    if model.relations:
        parts = Parts(*(_take(tensors, f"part_{name}", dtype) for name, dtype in _PARTS.items()))
        graph = replace(graph, parts=parts)
    if tensors:
        raise ValueError(f"unknown tensors {sorted(tensors)}")
    return StateImage(graph, kept, history)
