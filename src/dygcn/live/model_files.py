"""A model, its filter and its history in the files of a folder: written, and checked when read."""

from __future__ import annotations

import math
import operator
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dygcn.engine.events.kinds import is_id_type, kinds_of
from dygcn.engine.features.inputs import RowTable
from dygcn.engine.features.tables import NodeColumns
from dygcn.engine.filter.head import FilterHead
from dygcn.engine.graph.ids import IdMap
from dygcn.engine.history import HistoryImage
from dygcn.engine.history.columns import NAMES
from dygcn.engine.models.checks import check_relation_weights
from dygcn.engine.models.choices import GREATEST_ORDERS, GREATEST_UNIT, LEAST_UNIT
from dygcn.engine.models.folder import Tensors, take_tensor
from dygcn.engine.models.links import PAST, SAVED, TRAITS, LinkHead, NextHead, count_products
from dygcn.engine.models.model import Baseline, Model, find_spec, rule_names
from dygcn.engine.models.projection import Projection
from dygcn.engine.records import IdColumn

_LARGEST_SIDE = 1 << 14
_MOST_COLUMNS = 1 << 14
_GREATEST_POWER = 100.0
_GREATEST_WEIGHT = 1e6  # the square of a step over that of a singular value: those of a fit are below 100
_LEAST_LIFE, _GREATEST = 1e-290, 1e300
_HISTORY: dict[str, tuple[Any, int]] = {
    "times": (np.float64, 2),
    "marks": (np.float32, 2),
    "counts": (np.int64, 2),
    "answers": (np.int32, 2),
    "partners": (np.int32, 2),
    "pair_src": (np.int32, 1),
    "pair_dst": (np.int32, 1),
    "pair_t": (np.float64, 1),
    "pair_gone": (np.float64, 1),
    "pair_fast": (np.float32, 1),
    "pair_n": (np.int32, 1),
}
_SPANS = 1e-200, 1e200  # times in any unit; no part of a span is zero, no multiple infinite


class LogPosition(msgspec.Struct, forbid_unknown_fields=True):
    """The part of a snapshot that comes from the durable log."""

    sequence: int
    batch_id: int
    chain: str
    streams: dict[str, int]
    epoch: str  # as the log packs it, in hexadecimal digits: its entry may be pruned
    tolerance: float
    heard: list[float] = []  # when the clients among the streams were heard of last
    forgotten: str = ""  # fingerprints of streams that were forgotten
    floor: int = 0  # the sequence up to which departures are unknown
    refused: list[int] = []  # entries whose change was shown to readers and never happened
    erasures: int | msgspec.UnsetType = msgspec.UNSET  # how many there were, where there were any


class GivenSettings(msgspec.Struct, forbid_unknown_fields=True):
    """The block of given features, without its matrix."""

    share: float
    columns: NodeColumns | None = None


class FilterSettings(msgspec.Struct, forbid_unknown_fields=True):
    """A filter without its rows and the weights of its columns; see `FilterHead`."""

    ridge: float
    half_life: float
    trend_half_life: float
    trend: float
    profile_half_life: float
    degree: float
    paths: float
    asks: tuple[str, ...]
    answers: tuple[str, ...]


class FolderSettings(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The live embedding's part of the manifest."""

    rule: str
    orders: int
    ids: str
    features: str
    seed: int
    directed: bool
    weight_grid: float
    clock: float | None
    version: int
    nodes: int
    edges: int
    half_life: float | None = None
    rule_settings: dict[str, Any] | None = msgspec.field(default=None, name="paper")
    unit: float | None = None
    links: dict[str, LinkHead] = {}
    log: LogPosition | None = None
    window: int = 0  # steps of the walks that the rows of the model were made of
    whole_weights: bool = False
    given: GivenSettings | None = None  # where features stand beside the rows
    relations: dict[str, float] = {}
    following: NextHead | None = None  # where a history is kept
    history_clock: float | msgspec.UnsetType | None = msgspec.UNSET  # likewise; None: it has no event
    filter: FilterSettings | None = None
    expire: float | None = None  # where edges leave by the clock


_OF_MODEL = ("ids", "features", "seed", "directed", "half_life", "unit", "following", "expire")


def settings_of(model: Model, history: HistoryImage | None, **of_graph: Any) -> FolderSettings:
    """Return the settings of a model, with those of a graph and its log."""
    given, head, of_filter = model.projection, model.filter, FilterSettings.__struct_fields__
    clock: float | msgspec.UnsetType | None = msgspec.UNSET
    if history is not None:
        clock = history.clock if math.isfinite(history.clock) else None  # JSON has no infinity
    return FolderSettings(
        rule=model.rule,
        orders=model.orders,
        weight_grid=model.grid,
        rule_settings=model.spec.settings(),
        links=dict(model.links),
        window=0 if model.table is None else model.table.window,
        whole_weights=model.whole,
        given=None if given is None else GivenSettings(given.share, given.columns),
        relations=dict(model.relations),
        history_clock=clock,
        filter=None if head is None else FilterSettings(*(getattr(head, name) for name in of_filter)),
        **{name: getattr(model, name) for name in _OF_MODEL},
        **of_graph,
    )


def refuse(faults: dict[str, bool], about: str = "") -> None:
    """Raise ValueError with the first fault that is true."""
    for fault, found in faults.items():
        if found:
            raise ValueError(f"{about}{fault}")


def id_tensors(name: str, ids: IdColumn) -> Tensors:
    """Return the tensors of a column of ids."""
    return {name: ids.values} if ids.data is None else {name: ids.values, f"{name}_utf8": ids.data}


def take_ids(tensors: Tensors, name: str, kind: str) -> IdColumn:
    """Read a column of ids from the tensors of a file; raise ValueError if its type is wrong."""
    values = take_tensor(tensors, name, np.int64)
    if kind == "int64":
        return IdColumn(values)
    data = take_tensor(tensors, f"{name}_utf8", np.uint8)
    lengths = np.diff(values, prepend=0)  # the first offset is 0
    fit = len(values) > 0 and values[-1] == len(data)
    if not fit or lengths[0] != 0 or ((lengths < 0) | (lengths > 256)).any():
        raise ValueError("ids whose offsets do not fit")
    text = data.tobytes()
    text.decode("utf-8")
    if any(text[i] & 0xC0 == 0x80 for i in values[:-1].tolist() if i < len(text)):
        raise ValueError("an id that is not UTF-8")
    ids, kinds = IdColumn(values, data), kinds_of(kind)
    if kinds is not None and not kinds.fit(ids):
        raise ValueError("an id of another kind, or of another type than its kind has")
    return ids


def model_tensors(model: Model) -> Tensors:
    """Return the tensors of a model."""
    tensors: Tensors = dict(zip(model.weight_names, model.weights, strict=True))
    tensors["scales"] = model.scales
    if model.table is not None:
        tensors |= id_tensors("table_ids", model.table.ids)
        tensors["table_rows"] = model.table.rows
    if model.projection is not None:
        tensors |= {"given_matrix": model.projection.matrix, "given_offset": model.projection.offset}
    if model.filter is not None:
        tensors |= id_tensors("filter_ids", model.filter.ids)
        tensors |= {"filter_rows": model.filter.rows, "filter_weights": model.filter.weights}
    if model.baseline is not None:
        tensors |= id_tensors("baseline_ids", model.baseline.ids)
        tensors["baseline_vectors"] = model.baseline.vectors
        tensors |= {f"baseline_h{k}": rows for k, rows in enumerate(model.baseline.messages)}
    return tensors | model.spec.tensors()


def history_tensors(history: HistoryImage | None) -> Tensors:
    """Return the tensors of a history."""
    if history is None:
        return {}
    arrays = {f"history_{name}": getattr(history, name) for name in _HISTORY}
    return {**id_tensors("history_ids", history.ids), **arrays}


def _check_settings(settings: FolderSettings) -> None:
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
        "whole weights on another grid, or with a memory": settings.whole_weights
        and (settings.weight_grid, settings.half_life) != (1.0, None),
        f"expire {settings.expire}": settings.expire is not None
        and (settings.unit is None or settings.half_life is not None or not 0 < settings.expire < math.inf),
        f"window {settings.window}": not 0 <= settings.window <= 16,
        f"seed {settings.seed}": not 0 <= settings.seed < 2**63,
        "features beside the rows": (settings.features == "walks+given") != (settings.given is not None),
    }
    refuse(faults)


def read_model(settings: FolderSettings, tensors: Tensors) -> Model:
    """Read a model from the tensors of a file; raise ValueError if no fit can have made it."""
    _check_settings(settings)
    kind = find_spec(settings.rule)
    names = kind.weight_names(settings.orders)
    weights = tuple(take_tensor(tensors, name, np.float32, 2) for name in names)
    scales = take_tensor(tensors, "scales", np.float64)
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
    head = None if settings.filter is None else _read_filter(settings, settings.filter, tensors)
    if tensors:
        raise ValueError(f"unknown tensors {sorted(tensors)}")
    if settings.following is not None:
        _check_next(settings.following, settings.orders)
    return Model(
        weights,
        scales=scales,
        grid=settings.weight_grid,
        spec=spec,
        baseline=baseline,
        links=settings.links,
        table=table,
        whole=settings.whole_weights,
        projection=projection,
        relations=check_relation_weights(settings.relations) if settings.relations else {},
        filter=head,
        **{name: getattr(settings, name) for name in _OF_MODEL},
    )


def _read_projection(settings: FolderSettings, tensors: Tensors) -> Projection:
    matrix = take_tensor(tensors, "given_matrix", np.float32, 2)
    offset, given = take_tensor(tensors, "given_offset", np.float32), settings.given
    if given is None or not 0 < given.share < 1:
        raise ValueError("a block of features without a share of the vectors")
    if offset.shape != matrix.shape[1:] or not 1 <= matrix.shape[1] <= _LARGEST_SIDE or len(matrix) < 1:
        raise ValueError("a projection of an impossible shape")
    if given.columns is not None and given.columns.width != len(matrix):
        raise ValueError("a projection of other columns than those of the nodes")
    if not (np.isfinite(matrix).all() and np.isfinite(offset).all()):
        raise ValueError("a projection that holds NaN or infinite values")
    return Projection(matrix, offset, given.share, given.columns)


def _links_fit(settings: FolderSettings) -> bool:
    """Return whether heads have known kinds, right lengths and finite bounds, and the model allows heads."""
    links = settings.links
    if not links:
        return True
    rows = [(head.negatives, head.known, head.dot, head.low, head.high) for head in links.values()]
    plain = 1 + count_products(settings.orders) + 2 * TRAITS
    lengths = {(plain, plain + PAST, 2 + TRAITS, plain + PAST - 2, plain + PAST - 2)}
    known = set(links) <= set(SAVED) and settings.features not in ("embedding", "none")
    ranges = all(low <= high for *_, lows, highs in rows for low, high in zip(lows, highs, strict=False))
    tame = all(abs(number) < 1e9 for five in rows for row in five for number in row)
    return known and ranges and tame and {tuple(map(len, five)) for five in rows} == lengths


def _read_baseline(settings: FolderSettings, tensors: Tensors, width: int, dim: int) -> Baseline:
    ids = take_ids(tensors, "baseline_ids", settings.ids)
    vectors = take_tensor(tensors, "baseline_vectors", np.float32, 2)
    messages = tuple(
        take_tensor(tensors, f"baseline_h{k}", np.float32, 2) for k in range(settings.orders + 1)
    )
    if width != dim or any(rows.shape != (len(ids), dim) for rows in (vectors, *messages)):
        raise ValueError("a baseline of another shape than the model")
    if not all(np.isfinite(rows).all() for rows in (vectors, *messages)):
        raise ValueError("a baseline that holds NaN or infinite values")
    return Baseline(ids, vectors, messages)


def _read_table(settings: FolderSettings, tensors: Tensors, scales: NDArray[Any]) -> RowTable:
    ids = take_ids(tensors, "table_ids", settings.ids)
    rows = take_tensor(tensors, "table_rows", np.int8, 2)
    if rows.shape != (len(ids), len(scales)) or not 1 <= len(scales) <= _LARGEST_SIDE:
        raise ValueError("rows that do not fit their ids or their scales")
    if rows.min(initial=0) < -127 or (scales != scales[0]).any():
        raise ValueError("rows beyond what the grid can carry")
    names = IdMap(settings.ids)
    names.intern(ids)
    if len(names) != len(ids):
        raise ValueError("an id that has two rows")
    return RowTable(ids, rows, float(scales[0]), settings.window)


def _read_filter(model: FolderSettings, settings: FilterSettings, tensors: Tensors) -> FilterHead:
    names = take_ids(tensors, "filter_ids", model.ids)
    rows = take_tensor(tensors, "filter_rows", np.int8, 2)
    weights = take_tensor(tensors, "filter_weights", np.float32)
    lives = settings.half_life, settings.trend_half_life, settings.profile_half_life
    powers = settings.trend, settings.degree
    kinds = kinds_of(model.ids)
    known = () if kinds is None else kinds.names
    faults = {
        "rows that do not fit": rows.shape != (len(names), len(weights)) or len(weights) > _MOST_COLUMNS,
        "rows beyond 8 bits": bool(rows.min(initial=0) < -127),
        "weights that no product can have": not (np.abs(weights) < _GREATEST_WEIGHT).all(),
        "settings out of range": not all(
            0 <= one < _GREATEST for one in (*lives, settings.ridge, settings.paths)
        )
        or not all(0 <= one <= _GREATEST_POWER for one in powers),
        "half-lives without times": any(lives) and model.unit is None,
        "half-lives that are too short": any(0 < life < _LEAST_LIFE for life in lives),
        "other kinds than the graph": not {*settings.asks, *settings.answers} <= set(known)
        or not bool(settings.asks) == bool(settings.answers) == bool(known),
        "a graph with a direction": model.directed,
    }
    refuse(faults, "a filter with ")
    return FilterHead(names, rows, weights, **msgspec.structs.asdict(settings))


def read_history(ids: str, clock: float | None, tensors: Tensors) -> HistoryImage:
    """Read a history from the tensors of a file."""
    names = take_ids(tensors, "history_ids", ids)
    arrays: list[Any] = [take_tensor(tensors, f"history_{name}", *how) for name, how in _HISTORY.items()]
    arrays.append(-math.inf if clock is None else clock)
    return HistoryImage(names, *arrays)


def _check_next(head: NextHead, orders: int) -> None:
    rows = head.weights, head.listed, head.low, head.high
    sizes, allowed = set(map(len, rows)), {len(NAMES), len(NAMES) + 2 * count_products(orders)}
    numbers = [number for row in (*rows, head.alone) for number in row]
    tame = all(abs(number) < 1e18 for number in numbers) and _SPANS[0] < head.span < _SPANS[1]
    tame = tame and not any(map(operator.gt, head.low, head.high))
    alone = len(head.alone) == (len(NAMES) if head.products else 0)
    if not (alone and tame and len(sizes) == 1 and sizes <= allowed):
        raise ValueError("a score of what comes next that does not fit")
