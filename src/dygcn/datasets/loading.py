"""Data sets in memory, and their files: where these are, their checksums, and how each is read."""

from __future__ import annotations

import hashlib
import io
import os
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn._extras import extra, late
from dygcn.datasets.registry import DatasetInfo, info, names, shipped_names
from dygcn.errors import DatasetError, OptionError

if TYPE_CHECKING:
    from os import PathLike

    import pyarrow as pa
    import pyarrow.parquet as pq
    from numpy.typing import NDArray

    from dygcn.datasets.registry import Original
    from dygcn.engine.records import Int64
else:
    pa, pq = late("pyarrow"), late("pyarrow.parquet")  # names() needs neither


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


VARIABLE = "DYGCN_DATA"
OWN, LAB = "dygcn.datasets", "dygcn_lab.datasets"  # packages that contain copies
EDGES, NODES = "edges.parquet", "nodes.parquet"
ATTRIBUTES = ("status", "gender", "major", "second_major", "dorm", "year", "high_school")  # of Facebook100


@dataclass(frozen=True, eq=False)
class EventColumns:
    """Events of a set, and one label column as its file has it: numbers or strings."""

    src: Int64
    dst: Int64
    t: Int64
    op: Int64
    labels: NDArray[Any] | None = None


def find(about: DatasetInfo, folder: str | PathLike[str] | None) -> Path | None:
    """Return the file with the edges of a set, or None for the copy that comes with dygcn or dygcn-lab.

    Raises `DatasetError` if there is neither. If `folder` is given, the set must be in it.
    """
    if folder is not None:
        candidates = _candidates(about, Path(folder).expanduser(), alone=True)
    elif variable := os.environ.get(VARIABLE):
        candidates = _candidates(about, Path(variable).expanduser(), alone=False)
    else:
        candidates = []
    for file in candidates:
        if file.is_file():
            return file
    if folder is None and about.ships_in and find_spec(about.ships_in.partition(".")[0]):
        return None
    raise DatasetError(_not_found(about, candidates))


def _candidates(about: DatasetInfo, root: Path, alone: bool) -> list[Path]:
    """Return the possible files. `alone`: the folder may also be that of this set alone."""
    if about.original and root.suffix == Path(about.original.file).suffix:
        return [root]
    wanted = [EDGES] if about.original is None else [EDGES, about.original.file]
    inside = [root / about.name / file for file in wanted]
    return inside + [root / file for file in wanted if alone or file != EDGES]


def _not_found(about: DatasetInfo, candidates: list[Path]) -> str:
    where = "looked for " + " and ".join(map(str, candidates)) if candidates else f"{VARIABLE} is not set"
    found = f"the data set {about.name} was not found: {where}. "
    if about.ships_in == LAB:
        return found + "A copy comes with the laboratory: pip install dygcn-lab"
    if about.ships_in:
        return found + "Without folder= the copy that comes with dygcn is loaded"
    original = f" or {about.original.file}" if about.original else ""
    return found + (
        f"Only {' and '.join(shipped_names(OWN))} comes with dygcn. This one is published by "
        f"{about.publisher}, {about.address}. Put {EDGES}{original} into a folder called {about.name}, and "
        f"name the parent of that folder in {VARIABLE} or as folder=. docs/datasets.md describes the files"
    )


def read_checked(path: Path, about: DatasetInfo) -> bytes:
    """Return the content of a file; raise `DatasetError` if its checksum is not the registry's."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DatasetError(f"{path} of the data set {about.name} cannot be read: {error.strerror}") from error
    check(content, about.sha256[path.name], str(path), about)
    return content


def read_shipped(about: DatasetInfo) -> bytes:
    """Return the content of the copy that comes with dygcn or dygcn-lab."""
    file = about.shipped_file
    content = files(about.ships_in).joinpath("shipped", file).read_bytes()
    check(content, about.sha256[file], f"{file} of this installation", about)
    return content


def check(content: bytes, expected: str, what: str, about: DatasetInfo) -> None:
    """Raise `DatasetError` if a content has not the expected checksum."""
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise DatasetError(
            f"{what} is not the {about.name} that dygcn knows: expected sha256 {expected[:12]}..., found "
            f"{found[:12]}.... It is damaged, of another version, or another set: get it again. For your own "
            f"events, pass the path of their file to dygcn.fit"
        )


# ---- converted files ---------------------------------------------------------------------------------------


def read_folder(edges: Path, about: DatasetInfo, label: str | None) -> EventColumns:
    """Return the columns of a converted folder; nodes.parquet is read for labels only."""
    columns = event_columns(read_checked(edges, about))
    labels = None
    if label is not None:
        content = read_checked(edges.with_name(NODES), about)
        labels = _label_column(pq.read_table(pa.BufferReader(content), columns=[label]).column(label))
    return EventColumns(*columns, labels)


def event_columns(content: bytes) -> tuple[Int64, Int64, Int64, Int64]:
    """Return src, dst, t and op of a parquet file; without op every event adds."""
    file = pq.ParquetFile(pa.BufferReader(content))
    present = [name for name in ("src", "dst", "t", "op") if name in file.schema_arrow.names]
    table = file.read(columns=present)
    src, dst, t = (table.column(name).to_numpy().astype(np.int64) for name in ("src", "dst", "t"))
    op = table.column("op").to_numpy().astype(np.int64) if "op" in present else np.ones(len(src), np.int64)
    return src, dst, t, op


def _label_column(column: pa.ChunkedArray) -> NDArray[Any]:
    if pa.types.is_integer(column.type):
        return np.asarray(column.to_numpy().astype(np.int64))
    return np.array(column.cast(pa.string()).to_pylist(), dtype=np.str_)


# ---- Facebook100, from the publisher's .mat files ----------------------------------------------------------


def read_mat(path: Path, about: DatasetInfo, original: Original, label: str | None) -> EventColumns:
    """Read a .mat file of a school: ``A`` holds friendships, ``local_info`` attributes of each person."""
    matrix, attributes = _matrices(path)
    src, dst, t = arrivals(matrix.row, matrix.col, len(attributes))
    numbers = (src, dst, attributes)
    content = b"".join(np.ascontiguousarray(part, dtype="<i8").tobytes() for part in numbers)
    check(content, original.content, f"the content of {path}", about)
    labels = None if label is None else attributes[:, ATTRIBUTES.index(label)]
    return EventColumns(src, dst, t, np.ones(len(src), np.int64), labels)


def arrivals(row: Int64, column: Int64, nodes: int) -> tuple[Int64, Int64, Int64]:
    """Return src, dst and an artificial t: a quarter of the nodes at 0, then one node at a time.

    Edges are returned once each, the lower end first, sorted by t, src and dst.
    """
    once = row < column
    src, dst = row[once].astype(np.int64), column[once].astype(np.int64)
    first = nodes // 4
    t = np.where(dst < first, 0, dst - first + 1)
    order = np.lexsort((dst, src, t))
    return src[order], dst[order], t[order]


def _matrices(path: Path) -> tuple[Any, Int64]:
    with extra("facebook100"):
        from scipy.io import loadmat  # noqa: PLC0415
    try:
        content = loadmat(io.BytesIO(path.read_bytes()), variable_names=("A", "local_info"))
        matrix, attributes = content["A"].tocoo(), content["local_info"].astype(np.int64)
    except Exception as error:  # a damaged file may fail in any way
        raise DatasetError(
            f"{path} cannot be read as a school of Facebook100, a MATLAB 5 file with a sparse A and a "
            f"local_info ({type(error).__name__}: {error}). Get it again from its publisher"
        ) from error
    if attributes.ndim != 2 or attributes.shape[1] != len(ATTRIBUTES):
        raise DatasetError(
            f"local_info of {path} has the shape {attributes.shape}; expected is one row a person with "
            f"{', '.join(ATTRIBUTES)}"
        )
    return matrix, attributes
