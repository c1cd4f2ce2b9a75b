"""Which columns events have: by the names that a table gives them, or by their order in bare rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import takewhile
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from dygcn.engine.events.columns import common_ids
from dygcn.engine.events.kinds import check_names
from dygcn.engine.records import IdColumn
from dygcn.errors import EventError, OptionError, listed, shown

COLUMNS = ("src", "dst", "t", "op", "weight")
FIELDS = (*COLUMNS, "relation")  # the last one only of graphs with relations
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


_ONE_KIND = {  # both ends are things of one kind; without case, underscores and a last "id"
    "source": ("target", "destination", "dest", "sink"),
    "src": ("dst", "dest", "target", "tgt"),
    "from": ("to",),
    "fromnode": ("tonode",),
    "u": ("v",),
    "i": ("j",),
    "a": ("b",),
    "1": ("2",),
    "0": ("1",),
    "head": ("tail",),
    "sender": ("receiver", "recipient"),
    "payer": ("payee",),
    "origin": ("destination", "dest"),
    "start": ("end",),
    "left": ("right",),
    "parent": ("child",),
    "citing": ("cited",),
    "caller": ("callee",),
    "buyer": ("seller",),
    "follower": ("followee", "followed"),
    "user": ("friend",),
    "subject": ("object",),
    "node1": ("node2",),
    "id1": ("id2",),
}
_TWO_KINDS = {
    "user": ("item", "product", "movie", "book", "song", "track", "article", "business"),
    "customer": ("item", "product"),
    "u": ("i",),
}
_ENDS = {one: _ONE_KIND.get(one, ()) + _TWO_KINDS.get(one, ()) for one in _ONE_KIND | _TWO_KINDS}
_TIMES = ("time", "timestamp", "ts", "date", "datetime", "createdat", "edgetime")
_COMPARED = 1000  # columns: a longer list would take seconds
_WEIGHTS = ("w", "weights", "edgeweight")


class ColumnOptions(TypedDict, total=False):
    """The options that name the columns of events, of every call that reads them; see `dygcn.fit`."""

    columns: Sequence[str] | None
    src: str | None
    dst: str | None
    t: str | None
    op: str | None
    weight: str | None
    shared_ids: bool
    relation: str | None


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """The names of a table's columns, or of a graph's edge attributes, by field of an event.

    A field that the user did not name is looked for under its own name, a relation only if `related`.
    `shared_ids`: an id that is in both columns is one node. `rows`: the columns of rows without names. False
    if nothing is named.
    """

    named: Mapping[str, str] = field(default_factory=dict)
    shared_ids: bool = False
    related: bool = False
    rows: tuple[str, ...] | None = None

    def __bool__(self) -> bool:
        return bool(self.named)

    @property
    def possible(self) -> dict[str, str]:
        """The expected column of each field; a column that the user named stands for one field only."""
        named, fields = self.named, FIELDS if self.related else COLUMNS
        return dict(named) | {one: one for one in fields if one not in named and one not in named.values()}

    def columns_of(self, there: Sequence[str]) -> dict[str, str]:
        """Return the columns of a table by field; `there` are all of the table's names."""
        named = self.named
        for one, name in named.items():
            if name not in there:
                known = f"{_meant(name, there)} (columns: {listed(there) or 'none'})"
                raise EventError(f"there is no column {shown(name)}, as {one}= says{known}")
        found = {one: name for one, name in self.possible.items() if name in there}
        missing = [end for end in ("src", "dst") if end not in found]
        if missing:
            known = listed(there) or "none"
            raise EventError(f"there is no column {missing[0]!r} (columns: {known}); {_advice(there, named)}")
        return found | {name: name for name in KINDS if name in there and name not in found.values()}

    def kinds_named(self, kinds: object) -> tuple[str, str] | None:
        """Return the kinds of both ends from the option `kinds`; True: the names of the columns."""
        if kinds is None or kinds is False:
            return None
        src, dst = self.named.get("src"), self.named.get("dst")
        if kinds is True and (src is None or dst is None):
            raise OptionError('kinds=True takes the names of src= and dst=; say kinds=("user", "item")')
        named = (_plain(src or ""), _plain(dst or "")) if kinds is True else kinds
        if not isinstance(named, tuple | list):
            raise OptionError(f'kinds is {shown(kinds)}; allowed are names, as in kinds=("user", "item")')
        return check_names(named)  # type: ignore[return-value]

    def kinds_of_ends(
        self, columns: dict[str, Any], kinds: Sequence[str], *, by_order: bool = False
    ) -> dict[str, Any]:
        """Return for each end the kind of ids without one: a kind, a column of kinds, or None: unknown.

        The columns `src_kind` and `dst_kind` name it, or the names of the columns do, or, where there are two
        kinds, the order of the ends (`by_order`: this alone).
        """
        named = [columns.get(name) for name in KINDS]
        if any(one is not None for one in named):
            missing = [name for name, one in zip(KINDS, named, strict=True) if one is None]
            if missing:
                raise EventError(f"there is no column {missing[0]!r}; say the kinds of both ends, or of none")
            return dict(zip(("src", "dst"), named, strict=True))
        ends = [None if by_order else _kind_called(self.named.get(end), kinds) for end in ("src", "dst")]
        if len(kinds) == 2 and None in ends:
            one, other = kinds
            swapped = ends[0] == other or ends[1] == one
            ends = [other, one] if swapped else [one, other]
        return dict(zip(("src", "dst"), ends, strict=True))

    def check_ends(self, src: IdColumn, dst: IdColumn) -> None:
        """Refuse ids that occur at both ends, unless the columns' names are of one kind of things."""
        one, other = (self.named.get(end, end) for end in ("src", "dst"))
        if self.shared_ids or not {"src", "dst"} & self.named.keys() or _of_one_kind(one, other):
            return
        common = common_ids(src, dst)
        if common:
            a, b, first = listed([one]), listed([other]), f"{common[0]!s:.24}"
            raise EventError(
                f"{a} and {b} have ids in common: {a} {first} and {b} {first} would be one node. Different "
                f'things? Say kinds=("{_plain(a)}", "{_plain(b)}"). The same things? Say shared_ids=True'
            )


OWN_NAMES = ColumnNames()


def column_names(related: object = False, **options: Unpack[ColumnOptions]) -> ColumnNames:
    """Return the names of columns; `related`: the graph has relations and needs that column."""
    unknown = [name for name in options if name not in ColumnOptions.__annotations__]
    if unknown:
        raise TypeError(f"got an unexpected keyword argument {unknown[0]!r}")
    columns, rows = options.get("columns"), None
    if columns is not None:
        rows = tuple(columns) if isinstance(columns, _ROWS) else ()
        known = all(isinstance(name, str) and name in FIELDS + KINDS for name in rows)
        if not known or len(set(rows)) != len(rows) or not {"src", "dst"} <= set(rows):
            raise OptionError(
                f"columns is {shown(columns)}; allowed are different names out of {', '.join(FIELDS)}, "
                "src and dst among them, in the order in which the rows hold them"
            )
    given: dict[str, Any] = dict(options)
    named = {name: given[name] for name in FIELDS if given.get(name) is not None}
    for name, column in named.items():
        if not isinstance(column, str):
            raise OptionError(f"{name} is {shown(column)}; allowed is the name of a column, as text")
    twice = [name for name, column in named.items() if list(named.values()).count(column) > 1]
    if twice:
        raise OptionError(f"{' and '.join(twice)} name the same column, {named[twice[0]]!r}")
    return ColumnNames(named, options.get("shared_ids", False), bool(related), rows)


def _kind_called(name: str | None, kinds: Sequence[str]) -> str | None:
    """Return the kind that a column is named after: `user` for user, User or user_id."""
    if name is None or name in kinds:
        return name
    return next((kind for kind in kinds if kind.lower() in (name.lower(), _plain(name))), None)


def _of_one_kind(one: str, other: str) -> bool:
    """Return whether two column names mean one kind of things, such as from and to, user_1 and user_2."""
    names = _plain(one), _plain(other)
    backwards = (name[::-1] for name in _without_beginning(*names))
    rest = (name[::-1] for name in _without_beginning(*backwards))
    return any(b in _ONE_KIND.get(a, ()) or a in _ONE_KIND.get(b, ()) for a, b in (names, rest))


def _without_beginning(one: str, other: str) -> tuple[str, str]:
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    return one[same:], other[same:]


def _meant(name: str, there: Sequence[str]) -> str:
    near = get_close_matches(name, there[:_COMPARED], 1)
    return f"; did you mean {shown(near[0])}?" if near else ""


def _advice(there: Sequence[str], named: Mapping[str, str]) -> str:
    """Return the advice of an error: the call that names the likely ends, if some columns look like them."""
    call = dict(named) | _guess([name for name in there if name not in named.values()], set(named))
    if {"src", "dst"} <= call.keys() | set(there):
        words = ", ".join(f'{field}="{name}"' for field, name in call.items())
        return f"say which they are: {words}"
    return 'name the ends of an edge, as in src="user", dst="item", and give a file a header'


def _guess(there: Sequence[str], known: set[str]) -> dict[str, str]:
    """Return likely columns for fields that were not named and have no column of their name."""
    plain = {_plain(name): name for name in reversed(there)}
    first = [one for one in _ENDS if one in plain]
    pairs = [(one, other) for one in first for other in _ENDS[one] if other in plain]
    second = [one for ones in _ENDS.values() for one in ones if one in plain]
    likely = {
        "src": [pairs[0][0]] if pairs else first,
        "dst": [pairs[0][1]] if pairs else [one for one in second if one not in first[:1]],
        "t": [one for one in _TIMES if one in plain],
        "weight": [one for one in _WEIGHTS if one in plain],
    }
    unknown = {one: found for one, found in likely.items() if one not in known and one not in there}
    return {one: plain[found[0]] for one, found in unknown.items() if found}


def _plain(name: str) -> str:
    """Return a name in lower case, without underscores and a trailing "id": `user` for userId and user_id."""
    text = name.lower().replace("_", "").replace(" ", "").replace("-", "")
    return text.removesuffix("id") or text


# ---- bare rows: tuples, lists, arrays ----------------------------------------------------------------------


def by_name(values: Sequence[Any], columns: tuple[str, ...] | None, pairs: bool) -> dict[str, Any]:
    """Return 2 to 6 columns by name: the user's names, or the default names for their number.

    `pairs`: these are rows of `add` or `remove`. One `columns` is for both, so rows of two columns may stand
    beside longer ones: they are the ends, in the order in which `columns` has them.
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
    """Return whether an array is an edge_index, a row of sources and a row of targets.

    An array of two rows is both if it has 2 to 5 columns: it is then rows of events, unless `columns` names
    the two ends and nothing else, and the array has more than two columns.
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
    """Refuse two rows of three to five integers that look like an edge_index, not like events."""
    if rows.shape[1] == 3:
        raise EventError(f"{_THREE}; {_EDGE_INDEX}")
    if not np.isin(rows[:, 3], (1, -1)).all():
        names = ", ".join(COLUMNS[: rows.shape[1]])
        raise EventError(
            f"an array of 2 x {rows.shape[1]} is read as two rows ({names}), and op is "
            f"{' and '.join(map(str, rows[:, 3].tolist()))}; allowed are +1 and -1; {_EDGE_INDEX}"
        )


def split_rows(rows: Sequence[Any], accepted: str, named: int = 0) -> list[list[Any]]:
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
