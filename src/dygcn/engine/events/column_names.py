"""Columns that a table calls otherwise than src, dst, t, op and weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import takewhile
from typing import Any

from dygcn.engine.events.bare_rows import COLUMNS, FIELDS, KINDS
from dygcn.engine.events.columns import common_ids
from dygcn.engine.events.kinds import check_names
from dygcn.engine.events.showing import listed, shown
from dygcn.engine.records import IdColumn
from dygcn.errors import EventError, OptionError

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


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """What a table calls the columns of an event; of a graph, what it calls attributes of edges.

    A field that is None is looked for under its own name, a relation only if `related`. `shared_ids`: an id
    that is in both columns is one node. False if nothing is named.

    Examples
    --------
    >>> bool(ColumnNames()), ColumnNames(src="user", dst="item").columns_of(["user", "item", "t", "op_code"])
    (False, {'src': 'user', 'dst': 'item', 't': 't'})
    """

    src: str | None = None
    dst: str | None = None
    t: str | None = None
    op: str | None = None
    weight: str | None = None
    shared_ids: bool = False
    relation: str | None = None
    related: bool = False

    def __post_init__(self) -> None:
        given = [(field, getattr(self, field)) for field in FIELDS if getattr(self, field) is not None]
        for field, name in given:
            if not isinstance(name, str):
                raise OptionError(f"{field} is {shown(name)}; allowed is the name of a column, as text")
        names = [name for _, name in given]
        twice = [field for field, name in given if names.count(name) > 1]
        if twice:
            raise OptionError(f"{' and '.join(twice)} name the same column, {getattr(self, twice[0])!r}")

    @property
    def named(self) -> dict[str, str]:
        """The columns that the user named, by field."""
        return {field: name for field in FIELDS if (name := getattr(self, field)) is not None}

    def __bool__(self) -> bool:
        return bool(self.named)

    @property
    def possible(self) -> dict[str, str]:
        """The column of each field, were all of them there; a column that was named is of one field only."""
        named, fields = self.named, FIELDS if self.related else COLUMNS
        rest = {field: field for field in fields if field not in named and field not in named.values()}
        return named | rest

    def columns_of(self, there: Sequence[str]) -> dict[str, str]:
        """Return the columns of a table by field.

        Parameters
        ----------
        there
            The names of all of its columns.

        Raises
        ------
        EventError
            If a column that was named is not there, or one of the ends.
        """
        named = self.named
        for field, name in named.items():
            if name not in there:
                known = f"{_meant(name, there)} (columns: {listed(there) or 'none'})"
                raise EventError(f"there is no column {shown(name)}, as {field}= says{known}")
        found = {field: name for field, name in self.possible.items() if name in there}
        missing = [end for end in ("src", "dst") if end not in found]
        if missing:
            known = listed(there) or "none"
            raise EventError(f"there is no column {missing[0]!r} (columns: {known}); {_advice(there, named)}")
        return found | {name: name for name in KINDS if name in there and name not in found.values()}

    def kinds_named(self, kinds: object) -> tuple[str, str] | None:
        """Return the kinds of both ends as `fit` was told: their names, or True for those of the columns.

        Examples
        --------
        >>> ColumnNames(src="user_id", dst="item").kinds_named(True)
        ('user', 'item')
        """
        if kinds is None or kinds is False:
            return None
        if kinds is True and (self.src is None or self.dst is None):
            raise OptionError('kinds=True takes the names of src= and dst=; say kinds=("user", "item")')
        named = (_plain(self.src or ""), _plain(self.dst or "")) if kinds is True else kinds
        if not isinstance(named, tuple | list):
            raise OptionError(f'kinds is {shown(kinds)}; allowed are names, as in kinds=("user", "item")')
        return check_names(named)  # type: ignore[return-value]

    def kinds_of_ends(
        self, columns: dict[str, Any], kinds: Sequence[str], *, by_place: bool = False
    ) -> dict[str, Any]:
        """Return the kind of ids without kind at each end: one, a column of kinds, or None: nothing says it.

        The columns `src_kind` and `dst_kind` say it, or the names of the columns, or, where there are two
        kinds, the place. Two kinds are never both ends of a table by mistake.

        Parameters
        ----------
        by_place
            Whether kinds were declared in the order of the columns.

        Examples
        --------
        >>> ColumnNames(src="item_id", dst="who").kinds_of_ends({}, ("user", "item"))
        {'src': 'item', 'dst': 'user'}
        """
        named = [columns.get(name) for name in KINDS]
        if any(one is not None for one in named):
            missing = [name for name, one in zip(KINDS, named, strict=True) if one is None]
            if missing:
                raise EventError(f"there is no column {missing[0]!r}; say the kinds of both ends, or of none")
            return dict(zip(("src", "dst"), named, strict=True))
        ends = [None if by_place else _kind_called(getattr(self, end), kinds) for end in ("src", "dst")]
        if len(kinds) == 2 and None in ends:
            one, other = kinds
            swapped = ends[0] == other or ends[1] == one
            ends = [other, one] if swapped else [one, other]
        return dict(zip(("src", "dst"), ends, strict=True))

    def check_ends(self, src: IdColumn, dst: IdColumn) -> None:
        """Refuse ids that both ends have where the names of the columns do not say that they are one thing.

        Examples
        --------
        >>> from dygcn.engine.events import id_column
        >>> ends = id_column([1, 2]), id_column([7, 1])
        >>> ColumnNames(src="from_user", dst="to_user").check_ends(*ends)
        >>> ColumnNames(src="user", dst="item").check_ends(*ends)
        Traceback (most recent call last):
        ...
        dygcn.errors.EventError: user and item have ids in common: user 1 and item 1 would be one node. ...
        """
        one, other = self.src or "src", self.dst or "dst"
        if self.shared_ids or self.src is self.dst is None or _of_one_kind(one, other):
            return
        common = common_ids(src, dst)
        if common:
            a, b, first = listed([one]), listed([other]), f"{common[0]!s:.24}"
            raise EventError(
                f"{a} and {b} have ids in common: {a} {first} and {b} {first} would be one node. Different "
                f'things? Say kinds=("{_plain(a)}", "{_plain(b)}"). The same things? Say shared_ids=True'
            )


OWN_NAMES, RELATED = ColumnNames(), ColumnNames(related=True)


def column_names(
    src: str | None,
    dst: str | None,
    t: str | None,
    op: str | None,
    weight: str | None,
    shared_ids: bool,
    relation: str | None = None,
    related: object = False,
) -> ColumnNames:
    """Return the names of columns; the same object where none is given, which updates by the edge look at."""
    if not related and src is dst is t is op is weight is relation is None:
        return OWN_NAMES
    return ColumnNames(src, dst, t, op, weight, shared_ids, relation, bool(related))


def _kind_called(name: str | None, kinds: Sequence[str]) -> str | None:
    """Return the kind that a column is called after: user, User or user_id for user."""
    if name is None or name in kinds:
        return name
    return next((kind for kind in kinds if kind.lower() in (name.lower(), _plain(name))), None)


def _of_one_kind(one: str, other: str) -> bool:
    """Tell whether two columns hold things of one kind, by their names: from and to, user_1 and user_2."""
    names = _plain(one), _plain(other)
    backwards = (name[::-1] for name in _without_beginning(*names))
    rest = (name[::-1] for name in _without_beginning(*backwards))
    return any(b in _ONE_KIND.get(a, ()) or a in _ONE_KIND.get(b, ()) for a, b in (names, rest))


def _without_beginning(one: str, other: str) -> tuple[str, str]:
    """Return two texts without the beginning that they have in common."""
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    return one[same:], other[same:]


def _meant(name: str, there: Sequence[str]) -> str:
    """Return a question, if a column has nearly this name."""
    near = get_close_matches(name, there[:_COMPARED], 1)
    return f"; did you mean {shown(near[0])}?" if near else ""


def _advice(there: Sequence[str], named: dict[str, str]) -> str:
    """Return the call that names the likely ends, if some columns look like them."""
    call = named | _guess([name for name in there if name not in named.values()], set(named))
    if {"src", "dst"} <= call.keys() | set(there):
        words = ", ".join(f'{field}="{name}"' for field, name in call.items())
        return f"say which they are: {words}"
    return 'name the ends of an edge, as in src="user", dst="item", and give a file a header'


def _guess(there: Sequence[str], known: set[str]) -> dict[str, str]:
    """Return the columns that look like fields which are neither known nor there, by field."""
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
    return {
        field: plain[found[0]]
        for field, found in likely.items()
        if found and field not in known and field not in there
    }


def _plain(name: str) -> str:
    """Return a name in small letters, without underscores and a last "id": userId and user_id are user."""
    text = name.lower().replace("_", "").replace(" ", "").replace("-", "")
    return text.removesuffix("id") or text
