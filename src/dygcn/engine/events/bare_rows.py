"""Rows without column names (tuples, lists, arrays), and the names of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dygcn.engine.events.showing import shown
from dygcn.errors import EventError, OptionError

COLUMNS = ("src", "dst", "t", "op", "weight")
FIELDS = (*COLUMNS, "relation")
"""Of an event; the last one only where it is asked for."""
KINDS = ("src_kind", "dst_kind")  # only of graphs whose nodes have kinds, and only under these names
_UNDERSTOOD = {2: COLUMNS[:2], 4: COLUMNS[:4], 5: COLUMNS}  # three columns could be two things
_ROWS = (tuple, list)
_SHAPE = "an event is (src, dst), (src, dst, t, op[, weight]), or as columns= says, all of one length"
_THREE = (
    "events have three columns without names; is the third one a weight or a time? "
    'say columns=("src", "dst", "weight") or columns=("src", "dst", "t"), or pass a table with column names'
)
_SIX = f"events have six columns without names; say columns= with these in their order: {', '.join(FIELDS)}"
_TWO_LONG = '; if these are sources and targets, pass {"src": ..., "dst": ...}'
_SQUARE = "; if this is an adjacency matrix, pass scipy.sparse.coo_array(A)"
_EDGE_INDEX = 'if it is an edge_index, say columns=("src", "dst")'


def check_columns(columns: object) -> tuple[str, ...] | None:
    """Check the names that a user gave to columns, and return them.

    Examples
    --------
    >>> check_columns(["src", "dst", "weight"])
    ('src', 'dst', 'weight')
    >>> check_columns(("src", "time"))
    Traceback (most recent call last):
    ...
    dygcn.errors.OptionError: columns is ('src', 'time'); allowed are different names out of src, dst, t, ...
    """
    if columns is None:
        return None
    names = tuple(columns) if isinstance(columns, _ROWS) else ()
    known = all(isinstance(name, str) and name in FIELDS + KINDS for name in names)
    if not known or len(set(names)) != len(names) or not {"src", "dst"} <= set(names):
        raise OptionError(
            f"columns is {shown(columns)}; allowed are different names out of {', '.join(FIELDS)}, "
            "src and dst among them, in the order in which the rows hold them"
        )
    return names


def by_name(values: Sequence[Any], columns: tuple[str, ...] | None, pairs: bool) -> dict[str, Any]:
    """Return the columns by name: the names that the user gave, or those for their number.

    Parameters
    ----------
    values
        The columns, 2 to 6.
    columns
        Their names, checked, where the user gave some.
    pairs
        Whether these are rows of `add` or `remove`. One `columns` is for both, so rows of two columns may
        stand beside longer ones: they are the ends, in the order in which `columns` has them.

    Examples
    --------
    >>> by_name([[1], [2]], None, pairs=False)
    {'src': [1], 'dst': [2]}
    >>> by_name([[1], [2], [0.5]], ("dst", "src", "weight"), pairs=False)
    {'dst': [1], 'src': [2], 'weight': [0.5]}
    """
    if columns is None:
        if len(values) not in _UNDERSTOOD:
            raise EventError(_THREE if len(values) == 3 else _SIX)
        columns = _UNDERSTOOD[len(values)]
    elif pairs and len(values) == 2:
        columns = tuple(name for name in columns if name in ("src", "dst"))
    if len(columns) != len(values):
        raise OptionError(
            f"columns has {len(columns)} names ({', '.join(columns)}), and the events have "
            f"{len(values)} columns; name every column"
        )
    return dict(zip(columns, values, strict=True))


def is_edge_index(rows: NDArray[Any], columns: tuple[str, ...] | None) -> bool:
    """Tell sources and targets, each in a row of their own, from rows of events.

    An array of two rows is both if it has 2 to 5 columns: it is then rows of events, unless `columns` names
    the two ends and nothing else, and the array has more than two columns.

    Examples
    --------
    >>> is_edge_index(np.ones((2, 9), int), None), is_edge_index(np.ones((2, 4), int), None)
    (True, False)
    >>> is_edge_index(np.ones((2, 4), int), ("src", "dst")), is_edge_index(np.ones((9, 2), int), None)
    (True, False)
    """
    if rows.ndim != 2 or len(rows) != 2 or rows.shape[1] == 2:
        return False
    if columns is not None:
        return len(columns) == 2
    if not 2 < rows.shape[1] <= len(COLUMNS):
        return True
    if rows.dtype.kind in "iu":
        _refuse_doubtful(rows)
    return False


def _refuse_doubtful(rows: NDArray[Any]) -> None:
    """Refuse two rows of three to five integers that are no events."""
    if rows.shape[1] == 3:
        raise EventError(f"{_THREE}; {_EDGE_INDEX}")
    if not np.isin(rows[:, 3], (1, -1)).all():
        names = ", ".join(COLUMNS[: rows.shape[1]])
        raise EventError(
            f"an array of 2 x {rows.shape[1]} is read as two rows ({names}), and op is "
            f"{' and '.join(map(str, rows[:, 3].tolist()))}; allowed are +1 and -1; {_EDGE_INDEX}"
        )


def columns_of(rows: Sequence[Any], accepted: str, named: int = 0) -> list[list[Any]]:
    """Turn rows into columns; every row must have as many as the first, and no more than can have names."""
    most = max(len(FIELDS), named)
    for row, item in enumerate(rows):
        if type(item) not in _ROWS and not _is_row(item):
            hint = f"one edge is a list of one: [{shown(tuple(rows))}]; " if _is_edge(rows) else ""
            raise EventError(f"{shown(item)} is not an event; {hint}{accepted}", row)
        if len(item) != len(rows[0]) or not 2 <= len(item) <= most:
            raise EventError(f"{_SHAPE}, not {shown(item)}{_hint(rows, item)}", row)
    return [list(column) for column in zip(*rows, strict=True)]


def _hint(rows: Sequence[Any], item: Sequence[Any]) -> str:
    if len(item) != len(rows[0]):
        return ""
    return _TWO_LONG if len(rows) == 2 else _SQUARE if len(rows) == len(item) > len(FIELDS) else ""


def _is_edge(rows: Sequence[Any]) -> bool:
    return len(rows) == 2 and all(isinstance(end, str | int) for end in rows)


def _is_row(item: object) -> bool:
    if isinstance(item, np.ndarray):
        return item.ndim > 0
    return isinstance(item, Sequence) and not isinstance(item, str | bytes)
