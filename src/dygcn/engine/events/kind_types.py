"""The kinds of a graph that is about to be fitted: which there are, and the type of the ids of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dygcn._late import late
from dygcn.engine.events.columns import as_arrow, id_column
from dygcn.engine.events.kinds import Kinds, as_list, check_names, plain_column
from dygcn.engine.events.showing import listed, shown
from dygcn.errors import EventError

if TYPE_CHECKING:
    from dygcn.engine.records import IdColumn

pc = late("pyarrow.compute")


def infer_kinds(declared: Sequence[str], ends: Iterable[tuple[object, object]]) -> Kinds:
    """Return the kinds of a graph that is about to be fitted, with the type of ids that each has."""
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
    """Yield kinds and types of ids of a column: its own kind, and those that tuples name."""
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
    """Refuse text of one kind that begins like another: nobody wrote it with kinds in mind."""
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
