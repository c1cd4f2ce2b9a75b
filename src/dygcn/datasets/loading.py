"""A data set in memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn.datasets.files import EDGES, EventColumns, event_columns, find, read_folder, read_mat, read_shipped
from dygcn.datasets.registry import DatasetInfo, info, names
from dygcn.errors import DatasetError, OptionError

if TYPE_CHECKING:
    from os import PathLike

    from numpy.typing import NDArray

    from dygcn.engine.records import Int64

MISSING = -1


@dataclass(frozen=True, eq=False)
class Dataset:
    """Events of a real graph in the order of their time, and the classes of its nodes if known.

    Examples
    --------
    >>> data = load("hepth-collab")
    >>> data.events()["src"].dtype, len(data.src), data.labels is None
    (dtype('int64'), 39535, True)
    """

    info: DatasetInfo
    src: Int64
    dst: Int64
    t: Int64
    op: Int64  # +1 adds, -1 removes
    labels: Int64 | None = None  # of node 0, 1, 2 ...; -1 if missing
    classes: tuple[str, ...] = ()  # names of labels 0, 1, 2 ..., if the publisher named them

    def events(self) -> dict[str, Any]:
        """Return the events as `dygcn.fit` takes them."""
        return {"src": self.src, "dst": self.dst, "t": self.t, "op": self.op}


def load(
    name: str, folder: str | PathLike[str] | None = None, seed: int = 0, label: str | None = None
) -> Dataset:
    """Return a data set, after checking its checksums.

    Parameters
    ----------
    name
        One of `names()`.
    folder
        The folder of the set, with ``edges.parquet``, or the parent of such folders. A school of Facebook100
        may also be the publisher's ``.mat`` file. By default the folder that ``DYGCN_DATA`` names, then the
        copies that come with dygcn and dygcn-lab.
    seed
        Of the sample, for ``facebook``; other sets do not use it.
    label
        The column that becomes `Dataset.labels`, one of `DatasetInfo.labels`; the first one by default.

    Raises
    ------
    DatasetError
        The set is unknown, missing, or has another checksum.

    Examples
    --------
    >>> data = load("as-733")
    >>> len(data.src), int((data.op < 0).sum()), int(data.t.max())
    (232638, 110033, 732)
    >>> load("as-734")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    dygcn.errors.DatasetError: 'as-734' is not a data set that dygcn knows; known are as-733, ...
    """
    about = info(name)
    label = _label_name(about, label)
    if about.grown_from:
        whole = load(about.grown_from, folder, label=label)
        src, dst, t = grow(whole.src, whole.dst, seed=seed)
        return Dataset(about, src, dst, t, np.ones_like(t), whole.labels, whole.classes)
    columns = _columns(about, folder, label)
    labels, classes = _codes(columns.labels, about.missing)
    return Dataset(about, columns.src, columns.dst, columns.t, columns.op, labels, classes)


def events_by_name(events: str) -> str | dict[str, Any]:
    """Return the events of a data set with this name; any other text, such as a file's name, unchanged.

    Examples
    --------
    >>> len(events_by_name("hepth-collab")["src"]), events_by_name("friends.csv")
    (39535, 'friends.csv')
    """
    if Path(events).suffix or os.path.exists(events):
        return events
    if events in names():
        return load(events).events()
    near = get_close_matches(events[:100], names(), 1)
    hint = f"did you mean {near[0]!r}?" if near else "dygcn.datasets.names() are the data sets"
    raise DatasetError(f"there is no file {events[:100]!r} and no data set of this name; {hint}")


def _label_name(about: DatasetInfo, label: str | None) -> str | None:
    if label is None:
        return about.labels[0] if about.labels else None
    if label not in about.labels:
        allowed = ", ".join(about.labels) or "none, it has no labels"
        raise OptionError(f"label is {label!r}; allowed for {about.name}: {allowed}")
    return label


def _columns(about: DatasetInfo, folder: str | PathLike[str] | None, label: str | None) -> EventColumns:
    file = find(about, folder)
    if file is None:
        return EventColumns(*event_columns(read_shipped(about)))
    if about.original and file.name != EDGES:
        return read_mat(file, about, about.original, label)
    return read_folder(file, about, label)


def _codes(labels: NDArray[Any] | None, missing: int | None) -> tuple[Int64 | None, tuple[str, ...]]:
    """Number class names in alphabetical order; numbers stay unchanged."""
    if labels is None:
        return None, ()
    if labels.dtype.kind == "U":
        classes, codes = np.unique(labels, return_inverse=True)
        return codes.astype(np.int64), tuple(classes.tolist())
    return (labels if missing is None else np.where(labels == missing, MISSING, labels)), ()


# ---- the paper's Facebook set: a sample of a static graph that grows at each step --------------------------


def grow(
    src: Int64,
    dst: Int64,
    nodes: tuple[int, int] = (2085, 2235),
    edges: tuple[int, int] = (9092, 88642),
    count: int = 36,
    seed: int = 0,
) -> tuple[Int64, Int64, Int64]:
    """Return the paper's Facebook set: src, dst and t of a growing sample of a graph.

    It begins with a sub-graph; each step adds a fixed number of new nodes and edges. Every newcomer brings
    one edge at least; all other edges are drawn uniformly among the nodes that have arrived.
    """
    random = np.random.default_rng(seed)
    low, high = np.minimum(src, dst), np.maximum(src, dst)
    ends = np.unique(np.stack((low, high), axis=1)[low != high], axis=0)
    arrival = _arrivals(np.unique(ends), nodes, count, random)
    since = arrival[ends].max(axis=1)  # the first step at which an edge may come
    totals = np.linspace(*edges, count).round().astype(np.int64)
    when = np.full(len(ends), -1)
    for step in range(count):
        wanted = int(totals[step]) - int((when >= 0).sum())
        first = _edges_of_newcomers(ends, arrival, when, since, step, random) if step else ends[:0, 0]
        when[first] = step
        free = np.flatnonzero((when < 0) & (since <= step))
        when[random.choice(free, wanted - len(first), replace=False)] = step
    chosen = np.flatnonzero(when >= 0)
    chosen = chosen[np.argsort(when[chosen], kind="stable")]
    return ends[chosen, 0], ends[chosen, 1], when[chosen]


def _arrivals(everyone: Int64, nodes: tuple[int, int], count: int, random: np.random.Generator) -> Int64:
    """Return the step at which each node arrives; `count` for nodes that never do."""
    arrival = np.full(int(everyone.max()) + 1, count, np.int64)
    shuffled = random.permutation(everyone)[: nodes[1]]
    arrival[shuffled] = 0
    late = shuffled[nodes[0] :]
    arrival[late] = 1 + np.arange(len(late)) * (count - 1) // max(len(late), 1)
    return arrival


def _edges_of_newcomers(
    ends: Int64, arrival: Int64, when: Int64, since: Int64, step: int, random: np.random.Generator
) -> Int64:
    found = []
    for node in np.flatnonzero(arrival == step):
        mine = np.flatnonzero((when < 0) & (since <= step) & ((ends[:, 0] == node) | (ends[:, 1] == node)))
        if len(mine):
            found.append(int(random.choice(mine)))
    return np.unique(np.array(found, np.int64))
