"""Kinds of nodes: user 1 and item 1 are two nodes.

In a graph with kinds a node is (kind, id). Inside, and wherever ids are text (commands, paths, JSON, logs,
sinks), it is written ``kind:id``, as in ``item:50``, so nothing that holds an id can lose its kind. The type
of the ids of such a graph names all kinds: ``user:int64,item:string``.

Text is split at its first colon, and only if what stands before it is a kind of the graph. An id that looks
like that by itself is written with its own kind: ``user:item:50`` is the user called "item:50".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dygcn._extras import late
from dygcn.engine.events.columns import NO_TEXTS, as_arrow, checked_strings, id_column, python_ids, strings_of
from dygcn.engine.records import IdColumn
from dygcn.errors import EventError, OptionError, listed, shown

pc = late("pyarrow.compute")
uuid = late("uuid")

MOST = 100
APART = "apart"  # of a file that begins a graph with kinds: each column of ids has a type of its own
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,32}")
_TYPES = ("int64", "string")
_TEXT = (str, np.str_)
_WHOLE = (int, np.integer)
_END = 1 << 63
_LONGEST = 20  # signs of an int64
_DECIMAL = "^(0|-?[1-9][0-9]{0,17})$"


class KindId(NamedTuple):
    """A node of a graph with kinds. It equals the plain tuple, and is ``kind:id`` as text."""

    kind: str
    id: int | str

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"

    def __repr__(self) -> str:
        return repr(tuple(self))


class KindIds(np.ndarray[Any, Any]):
    """An array of nodes with kinds: `in` finds a tuple, where NumPy would take the tuple for an array."""

    def __contains__(self, one: object) -> bool:
        return one in self.tolist()

    def __eq__(self, other: object) -> Any:
        if isinstance(other, tuple):
            return np.fromiter((one == other for one in self.tolist()), np.bool_, len(self))
        return super().__eq__(_objects(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> Any:
        return ~np.asarray(self == other, np.bool_)

    __hash__ = None


def as_text(one: Any) -> Any:
    """Return an id with a kind as text, for JSON and tables; other ids unchanged."""
    return str(one) if isinstance(one, KindId) else one


def stored_type(ids: str) -> str:
    """Return the stored type of ids: with kinds it is text."""
    return "string" if ":" in ids else ids


@lru_cache(maxsize=64)
def kinds_of(ids: str) -> Kinds | None:
    """Return the kinds in a type of ids; None for plain ids."""
    if ids in _TYPES:
        return None
    parts = [part.partition(":") for part in ids.split(",")]
    kinds = Kinds(tuple(name for name, _, _ in parts), tuple(of for _, _, of in parts))
    if not all(of in _TYPES for of in kinds.types):
        raise OptionError(f"ids are of type {shown(ids)}; allowed are int64, string, and one of both a kind")
    return kinds


def is_id_type(ids: str) -> bool:
    """Return whether a text names a type of ids."""
    try:
        kinds_of(ids)
    except OptionError:
        return False
    return True


def check_names(names: Sequence[Any]) -> tuple[str, ...]:
    """Refuse duplicate names, and names that no kind may have."""
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise OptionError(
                f"{shown(name)} cannot be a kind; allowed are 1 to 32 letters, digits, '_', '-' and '.'"
            )
    if len({name.lower() for name in names}) < len(names) or not 2 <= len(names) <= MOST:
        raise OptionError(
            f"kinds are {shown(tuple(names))}; allowed are 2 to {MOST} names that differ by more than case"
        )
    return tuple(names)


@dataclass(frozen=True)
class Kinds:
    """The kinds of a graph, and the type of the ids of each."""

    names: tuple[str, ...]
    types: tuple[str, ...]

    def __post_init__(self) -> None:
        check_names(self.names)

    def __str__(self) -> str:
        return ",".join(f"{name}:{of}" for name, of in zip(self.names, self.types, strict=True))

    def type_of(self, kind: str) -> str:
        """Return the type of the ids of a kind."""
        return self.types[self.names.index(kind)]

    def check(self, kind: object) -> str:
        """Return a kind; raise if the graph has no such kind."""
        if kind not in self.names:
            raise OptionError(f"kind is {shown(kind)}; the kinds of this graph are {listed(self.names)}")
        return str(kind)

    def is_id(self, one: object) -> TypeGuard[tuple[str, Any]]:
        """Return whether a value is one id (kind, id), and not a tuple of ids."""
        return (
            isinstance(one, tuple)
            and len(one) == 2
            and isinstance(one[0], str)
            and one[0] in self.names
            and not isinstance(one[1], tuple)
        )

    # ---- one id ----------------------------------------------------------------------------------------

    def prefix_of(self, text: str) -> str | None:
        """Return the kind that is a text's prefix; None if it has none."""
        name, colon, _ = text.partition(":")
        return name if colon and name in self.names else None

    def written(self, one: object, kind: str | None) -> str:
        """Return an id as text "kind:id"; without a kind of its own, an id is of `kind`."""
        text = self.text_of(one, kind)
        if text is None:
            raise EventError(self._reason(*self._taken_apart(one, kind)))
        return text

    def text_of(self, one: object, kind: str | None) -> str | None:
        """Return what `written` does; None instead of an exception, since raising many is slow."""
        kind, one = self._taken_apart(one, kind)
        if kind is None or isinstance(one, tuple):
            return None
        if isinstance(one, uuid.UUID):
            one = str(one)
        if self.type_of(kind) == "string":
            return f"{kind}:{one}" if isinstance(one, _TEXT) else None
        one = _whole(one) if isinstance(one, _TEXT) else one
        if not isinstance(one, _WHOLE) or isinstance(one, bool) or not -_END <= int(one) < _END:
            return None
        return f"{kind}:{int(one)}"

    def _taken_apart(self, one: object, kind: str | None) -> tuple[str | None, object]:
        """Return the kind in an id, or else `kind`, and the id without it."""
        if self.is_id(one):
            return one
        if isinstance(one, _TEXT) and (found := self.prefix_of(one)) is not None:
            return found, one[len(found) + 1 :]
        return kind, one

    def _reason(self, kind: str | None, one: object) -> str:
        if isinstance(one, tuple):
            return f"{shown(one)} is no id; the kinds of this graph are {listed(self.names)}"
        if kind is None:
            return f"{shown(one)} has no kind; {self._advice(one)}"
        return f"{shown(one)} is no id of kind {kind}, whose ids are {self.type_of(kind)}"

    def has_kind(self, one: object) -> bool:
        """Return whether an id names its kind, in a tuple or as a prefix."""
        return self.is_id(one) or (isinstance(one, str) and self.prefix_of(one) is not None)

    def possible(self, one: object) -> list[str]:
        """Return the texts "kind:id" that an id without kind may mean, one for each kind of its type."""
        if isinstance(one, uuid.UUID):
            one = str(one)
        if isinstance(one, _WHOLE) and not isinstance(one, bool):
            ends = zip(self.names, self.types, strict=True)
            return [f"{name}:{int(one)}" for name, of in ends if of == "int64"]
        return [f"{name}:{one}" for name in self.names] if isinstance(one, _TEXT) else []

    def _advice(self, one: object) -> str:
        kind = self.names[0]
        return (
            f'the kinds of this graph are {listed(self.names)}: say ("{kind}", {shown(one)}), or "{kind}:..."'
        )

    def fit(self, column: IdColumn) -> bool:
        """Return whether all stored ids are of these kinds and of their types."""
        words, known = as_arrow(column), np.zeros(len(column), np.bool_)
        for name, of in zip(self.names, self.types, strict=True):
            own = pc.starts_with(words, f"{name}:")
            known |= own.to_numpy(zero_copy_only=False)
            if of == "int64":
                text = pc.utf8_slice_codeunits(words.filter(own), len(name) + 1)
                try:
                    same = text.cast(pa.int64()).cast(pa.large_string()).equals(text)
                except pa.ArrowInvalid:
                    same = False
                if not same:
                    return False
        return bool(known.all())

    # ---- columns -----------------------------------------------------------------------------------------

    def column(self, values: object, kind: object = None, name: str = "id") -> IdColumn:
        """Read a column of ids as text with kinds.

        `kind` is that of ids without kind: one for all, or a column of them; None: every id has one.
        """
        if isinstance(values, IdColumn) and values.data is not None and self.fit(values):
            return values  # with kinds already
        if kind is None or isinstance(kind, str):
            plain = plain_column(values, name)
            if plain is not None:
                return self._of_one_kind(plain, kind, name)
            return self._one_by_one(values, kind, name)
        return self._by_kind_column(values, kind, name)

    def _of_one_kind(self, plain: IdColumn, kind: str | None, name: str) -> IdColumn:
        words = as_arrow(plain)
        if plain.data is None:
            if kind is None or self.type_of(kind) != "int64":
                return self._one_by_one(plain.values[:1].tolist(), kind, name) if len(plain) else NO_TEXTS
            return _joined(kind, words, name)
        marked = np.zeros(len(plain), np.bool_)
        for one in self.names:
            marked |= pc.starts_with(words, f"{one}:").to_numpy(zero_copy_only=False)
        whole = [one for one in self.names if self.type_of(one) == "int64"]
        if kind in whole and not marked.any() and pc.all(pc.match_substring_regex(words, _DECIMAL)).as_py():
            return self._of_one_kind(IdColumn(words.cast(pa.int64()).to_numpy()), kind, name)
        if not marked.any() and kind is not None and kind not in whole:
            return _joined(kind, words, name)
        if marked.all() and self.fit(plain):
            return plain
        return self._one_by_one(words.to_pylist(), kind, name)

    def _by_kind_column(self, values: object, kind: object, name: str) -> IdColumn:
        found = id_column(kind, f"{name}_kind")
        if found.data is None:
            raise EventError(f"column {name}_kind holds numbers; the kinds are {listed(self.names)}")
        of = as_arrow(found)
        for one in pc.unique(of).to_pylist():
            if one not in self.names:
                row = pc.index(of, pa.scalar(one, pa.large_string())).as_py()
                raise EventError(f"{name}_kind is {shown(one)}; the kinds are {listed(self.names)}", row)
        plain = plain_column(values, name)
        if plain is not None and len(plain) == len(of):
            types = {self.type_of(one) for one in pc.unique(of).to_pylist()}
            if types == {plain.kind}:
                return _joined(of, as_arrow(plain), name)
        rows = zip(as_list(values), of.to_pylist(), strict=False)
        texts = [self._row((some, one), None, row, name) for row, (one, some) in enumerate(rows)]
        return self._texts(texts, name)

    def _one_by_one(self, values: object, kind: str | None, name: str) -> IdColumn:
        if not isinstance(values, Iterable) or isinstance(values, str | bytes):
            values = [values]
        rows = enumerate(as_list(values))
        return self._texts([self._row(one, kind, row, name) for row, one in rows], name)

    def _row(self, one: object, kind: str | None, row: int, name: str) -> str:
        try:
            return self.written(one, kind)
        except EventError as error:
            raise EventError(f"{name}: {error.reason}", row) from None

    def _texts(self, texts: list[str], name: str) -> IdColumn:
        return id_column(texts, name) if texts else NO_TEXTS

    def pairs(self, column: IdColumn) -> NDArray[Any]:
        """Return stored ids as an array of tuples (kind, id)."""
        whole = {name for name, of in zip(self.names, self.types, strict=True) if of == "int64"}
        parts = [text.split(":", 1) for text in as_arrow(column).to_pylist()]
        found = [KindId(kind, int(one) if kind in whole else one) for kind, one in parts]
        return _objects(found).view(KindIds)

    def columns_of(self, column: IdColumn) -> tuple[pa.Array, pa.Array]:
        """Return the kinds and the ids of stored ids as two columns; ids are text if their types differ."""
        parts = pc.split_pattern(as_arrow(column), ":", max_splits=1).flatten()
        kinds, ids = (parts.take(pa.array(np.arange(at, len(parts), 2))) for at in (0, 1))
        whole = set(self.types) == {"int64"}
        return kinds.cast(pa.string()), ids.cast(pa.int64() if whole else pa.string())


def _objects(items: list[Any]) -> NDArray[Any]:
    """Return an array of objects; NumPy would make tuples another dimension."""
    made = np.empty(len(items), object)
    for row, one in enumerate(items):
        made[row] = one
    return made


def as_list(values: Any) -> list[Any]:
    """Return any stored column as a list."""
    if isinstance(values, IdColumn):
        values = python_ids(values)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        values = values.to_pylist()
    return list(values.tolist() if hasattr(values, "tolist") else values)


def read_ids(values: object, ids: str | None, kind: object = None) -> IdColumn:
    """Read a column of ids of a type; ids without kind get `kind`."""
    kinds = None if ids is None else kinds_of(ids)
    if kinds is None:
        return id_column(values)
    return kinds.column(values, kind if not isinstance(kind, str) or kind in kinds.names else None)


# ---- of a graph that is about to be fitted -----------------------------------------------------------------


def infer_kinds(declared: Sequence[str], ends: Iterable[tuple[object, object]]) -> Kinds:
    """Return the kinds of a graph before its fit, with the type of each one's ids.

    `declared`: their names; empty: as columns of kinds name them. `ends`: for each column of ids its values,
    and the kind of these: one name, or a column of names.
    """
    types: dict[str, set[str]] = {name: set() for name in declared}
    for values, kind in ends:
        if isinstance(kind, str):
            for one, of in _typed(values, kind, declared):
                types.setdefault(one, set()).add(of)
            continue
        column = id_column(kind, "kind")
        if column.data is None:
            raise EventError("a column of kinds holds numbers; a kind is a name, such as user")
        names = as_arrow(column)
        plain = plain_column(values, "id")
        for one in pc.unique(names).to_pylist():
            if plain is not None:
                types.setdefault(one, set()).add(plain.kind)
                continue
            rows = np.flatnonzero(pc.equal(names, one).to_numpy(zero_copy_only=False))
            items = as_list(values)
            types.setdefault(one, set()).update(_type_of(items[row]) for row in rows)
    other = next((name for name in types if declared and name not in declared), None)
    if other is not None:
        raise EventError(
            f"{shown(other)} is the kind of a node, and kinds= names {listed(declared)}; name all kinds"
        )
    mixed = next((name for name, of in types.items() if len(of) > 1), None)
    if mixed is not None:
        raise EventError(
            f"ids of kind {mixed} are numbers and text; one type a kind: .astype(str) makes text"
        )
    names = check_names(tuple(types))
    return Kinds(names, tuple(next(iter(types[name]), "int64") for name in names))


def _typed(values: object, kind: str, declared: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Yield (kind, type) of ids in a column: the column's kind, and those in tuples."""
    plain = plain_column(values, "id")
    if plain is not None:
        _refuse_other_kinds(plain, kind, declared)
        return [(kind, plain.kind)] if len(plain) else []
    found = set()
    for one in as_list(values):
        named = isinstance(one, tuple) and len(one) == 2
        found.add((one[0], _type_of(one[1])) if named else (kind, _type_of(one)))
    return found


def _refuse_other_kinds(plain: IdColumn, kind: str, declared: Sequence[str]) -> None:
    """Refuse ids of one kind that begin with another kind's prefix: they would be ambiguous."""
    words = as_arrow(plain)
    for other in declared if plain.data is not None else ():
        found = pc.index(pc.starts_with(words, f"{other}:"), True).as_py()
        if other != kind and found >= 0:
            text = words[found].as_py()
            raise EventError(
                f"{shown(text)} of kind {kind} reads as the {other} {shown(text[len(other) + 1 :])}; if it "
                f'is a {kind}, write "{kind}:{text:.60}"',
                found,
            )


def _type_of(one: object) -> str:
    return id_column([one]).kind


# ---- columns -----------------------------------------------------------------------------------------------


def plain_column(values: object, name: str) -> IdColumn | None:
    """Return ids of one type as a column; None if tuples or several types are among them."""
    if isinstance(values, list | tuple) and len({type(one) for one in values}) > 1:
        return None
    if isinstance(values, list | tuple) and values and isinstance(values[0], tuple):
        return None
    if isinstance(values, np.ndarray) and values.dtype == object:
        return plain_column(values.tolist(), name)
    return id_column(values, name)


def _joined(kind: str | pa.Array, words: pa.Array, name: str) -> IdColumn:
    kinds = pa.scalar(kind, pa.large_string()) if isinstance(kind, str) else kind
    colon, text = pa.scalar(":", pa.large_string()), words.cast(pa.large_string())
    return checked_strings(*strings_of(pc.binary_join_element_wise(kinds, text, colon)), name)


def _whole(text: str) -> object:
    """Return the int that a text spells exactly, else the text."""
    if len(text) > _LONGEST:
        return text
    try:
        number = int(text)
    except ValueError:
        return text
    return number if str(number) == text else text
