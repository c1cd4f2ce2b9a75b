"""Maps user ids to nodes and back, in flat arrays, without a Python object per id; nodes are recycled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast
from uuid import UUID

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dygcn._extras import late
from dygcn.engine.events import id_column, python_ids, take
from dygcn.engine.events.columns import as_list
from dygcn.engine.events.kinds import kinds_of, stored_type
from dygcn.engine.graph import ids_kernels as loops
from dygcn.engine.graph.hashing import new_secret
from dygcn.engine.records import Bool, IdColumn, Int8, Nodes, UInt64
from dygcn.errors import AmbiguousId, CapacityError, EventError, listed

pc = late("pyarrow.compute")

# A block of arcs is a power of two long, and its length an int32: no node may have more than 2^30 arcs, so no
# graph more nodes than that, with the eighth by which arrays grow.
GREATEST_NODES = 7 << 27
_BLOCK = 1 << 16
_FEW_ROWS = 1 << 16  # up to these, arrays grow by half
_WHOLE = (int, np.integer)
_ARRAYS = "_table", "keys", "hashes", "_values", "_lengths", "_arena", "_free", "_counts", "_alive", "secret"
_READ = "_table", "keys", "hashes", "_values", "_lengths", "_arena"  # by which ids are found
_END = 1 << 63
_A = TypeVar("_A", bound="NDArray[Any]")
Allocator: TypeAlias = "Callable[..., NDArray[Any]]"


def grown(array: _A, size: int, zeros: Allocator | None = None) -> _A:
    """Return the array with at least `size` rows, new ones zero; amortised over calls. `zeros` allocates."""
    if len(array) >= size:
        return array
    # By rows, never by bytes: arrays that belong together must stay of one length, whatever they hold.
    rows = max(size, len(array) + (len(array) >> (1 if len(array) <= _FEW_ROWS else 3)), 16)
    # Never in place: the old array stays whole and at its address until all arrays of its length have grown.
    # Fresh zero pages come from the system when first touched, and may be huge ones.
    fresh = (zeros or np.zeros)((rows, *array.shape[1:]), array.dtype)
    fresh[: len(array)] = array
    return cast("_A", fresh)


def copied(array: _A, zeros: Allocator) -> _A:
    """Return a copy of an array, in memory of an allocator."""
    fresh = zeros(array.shape, array.dtype)
    fresh[:] = array
    return cast("_A", fresh)


def replace_together(owner: object, **attributes: object) -> None:
    """Replace attributes of an object in one step, so an exception leaves all old or all new.

    Arrays of one length are grown beside the old ones and then replaced together, with the holder that hands
    them to compiled loops.
    """
    vars(owner).update(attributes)


class IdMap:
    """The user ids of one graph and their nodes."""

    def __init__(self, ids: str) -> None:
        self.type, self.kind = ids, stored_type(ids)
        self.kinds = kinds_of(ids)  # None: ids are plain
        self.keys: UInt64 = np.empty(0, np.uint64)  # public; features are drawn from them
        self.secret = new_secret()  # the key of the hashes, for `attached`; it must stay secret
        self.hashes: UInt64 = np.empty(0, np.uint64)  # of the ids, under the secret: positions in tables
        self._values = np.empty(0, np.int64)  # the ids, or where their bytes start in the arena
        self._lengths = np.empty(0, np.int32)
        self._arena = np.empty(0, np.uint8)
        self._table = np.full(16, -1, np.int32)
        self._free = np.empty(0, np.int32)
        self._counts = np.zeros(3, np.int64)  # nodes ever given out, free ones, bytes in the arena
        self._wasted = 0
        self._zeros: Allocator | None = None  # where other processes read the arrays, allocates them
        self._holds = 0  # while there are some, no node is given back
        self._alive = np.empty(0, np.int8)
        self.arrays: loops.IdArrays
        self._replace()

    @property
    def high(self) -> int:
        """One more than the greatest node ever given out."""
        return int(self._counts[0])

    def __len__(self) -> int:
        return int(self._counts[0] - self._counts[1])

    def find(self, column: IdColumn) -> Nodes:
        """Return the node of each id, -1 for an unknown one."""
        if len(column) == 0:
            return np.empty(0, np.int32)
        self.check_kind(column)
        return loops.find_ids(self.arrays, column.values, column.data, False)

    def hashes_of(self, column: IdColumn) -> UInt64:
        """Return the keyed hash of each id, known or not: two ids of one hash cannot be made."""
        self.check_kind(column)
        return loops.hash_ids(self.arrays, column.values, column.data)

    def find_one(self, name: object, kind: str | None = None) -> int:
        """Return the node of one id; -1 if it is unknown, or cannot be an id of this graph.

        In a graph with kinds, an id without kind is looked up in `kind`, or in the only kind that has it; an
        `AmbiguousId` if several have.
        """
        if self.kinds is not None:
            return self._find_of_kind(name, kind)
        if self.kind == "int64":
            if not isinstance(name, _WHOLE) or isinstance(name, bool):
                return -1
            number = int(name)
            if not -_END <= number < _END:
                return -1
            return loops.find_int(self.arrays, number)
        if type(name) is not str and type(name) is not np.str_:
            if not isinstance(name, UUID):
                return -1
            name = str(name)
        try:
            data = name.encode()
        except UnicodeEncodeError:
            return -1
        return loops.find_string(self.arrays, data)

    def _find_of_kind(self, name: object, kind: str | None) -> int:
        assert self.kinds is not None
        if self.kinds.has_kind(name):
            try:
                return loops.find_string(self.arrays, self.kinds.written(name, None).encode())
            except (EventError, UnicodeEncodeError):
                return -1
        try:
            texts = self.kinds.possible(name)
            found = [(text, loops.find_string(self.arrays, text.encode())) for text in texts]
        except UnicodeEncodeError:
            return -1
        found = [(text, node) for text, node in found if node >= 0]
        if kind is not None:
            return next((node for text, node in found if text.startswith(f"{kind}:")), -1)
        if len(found) > 1:
            texts = [text for text, _ in found]
            raise AmbiguousId(
                f"{name!r:.60} is the id of {len(texts)} nodes, {listed(texts)}; say which one, as text "
                f'("{texts[0]}") or as ("{texts[0].partition(":")[0]}", {name!r:.60})'
            )
        return found[0][1] if found else -1

    def read(self, ids: object, kind: str | None = None) -> IdColumn:
        """Return the user's ids as a column; ids without kind are resolved as in `find_one`."""
        kinds = self.kinds
        if kinds is None or isinstance(ids, IdColumn):
            return id_column(ids)
        items = np.ravel(ids).tolist() if isinstance(ids, np.ndarray) else as_list(ids)
        return kinds.column([self._with_kind(one, kind) for one in items])

    def _with_kind(self, one: object, kind: str | None) -> object:
        assert self.kinds is not None
        if self.kinds.has_kind(one):
            return one
        node = self._find_of_kind(one, kind)
        if node < 0:
            return self.kinds.written(one, kind)  # of no kind that is known: an error that names the kinds
        return str(python_ids(self.names(np.array([node], np.int32)))[0])

    def shown(self, column: IdColumn) -> NDArray[Any]:
        """Return ids as users write them: numbers, text, or tuples (kind, id)."""
        return python_ids(column) if self.kinds is None else self.kinds.pairs(column)

    def of_kind(self, nodes: Nodes, kind: str) -> Bool:
        """Return which nodes are of a kind."""
        assert self.kinds is not None
        own = np.frombuffer(f"{self.kinds.check(kind)}:".encode(), np.uint8)
        first, found = self._values[nodes], self._lengths[nodes] >= len(own)
        for at, sign in enumerate(own.tolist()):
            found &= self._arena[np.minimum(first + at, len(self._arena) - 1)] == sign
        return found

    def intern(self, column: IdColumn) -> Nodes:
        """Return the node of each id, giving one to each id never seen."""
        if len(column) <= _BLOCK:
            return self._intern_block(column)
        blocks = []
        for start in range(0, len(column), _BLOCK):
            stop = min(start + _BLOCK, len(column))
            last = stop + (column.data is not None)
            blocks.append(self._intern_block(IdColumn(column.values[start:last], column.data)))
        return np.concatenate(blocks)

    def resolve(self, src: IdColumn, dst: IdColumn, op: Int8) -> tuple[Nodes, Nodes]:
        """Return the nodes of both ends of events; -1 for an unknown end that is only ever removed."""
        if not len(op):  # of no type, perhaps
            return np.empty(0, np.int32), np.empty(0, np.int32)
        self.check_kind(src, dst)
        if len(op) <= _BLOCK:
            more = 0 if src.data is None else _bytes_of(src) + _bytes_of(dst)
            if not loops.has_capacity(self.arrays, 2 * len(op), more):
                self._grow(2 * len(op), more)
            nodes = loops.resolve(self.arrays, src.values, src.data, dst.values, dst.data, op)
            return nodes[0], nodes[1]
        adds = op > 0
        if adds.all():
            return self.intern(src), self.intern(dst)
        # An edge that is only removed must not create its ends.
        rows = np.flatnonzero(adds)
        self.intern(take(src, rows))
        self.intern(take(dst, rows))
        return self.find(src), self.find(dst)

    def _intern_block(self, column: IdColumn) -> Nodes:
        if len(column) == 0:
            return np.empty(0, np.int32)
        self.check_kind(column)
        more = _bytes_of(column)
        if not loops.has_capacity(self.arrays, len(column), more):
            self._grow(len(column), more)
        return loops.find_ids(self.arrays, column.values, column.data, True)

    def check_kind(self, *columns: IdColumn) -> None:
        """Refuse ids of another type."""
        for column in columns:
            if (column.data is None) is not (self.kind == "int64"):
                raise EventError(f"this graph has {self.kind} ids, not {column.kind} ones; one type a graph")

    def _grow(self, new: int, new_bytes: int) -> None:
        size = self.high + new
        if size > GREATEST_NODES:
            raise CapacityError(
                f"there would be {size} nodes; one process numbers {GREATEST_NODES}: remove nodes that are "
                "no longer needed, or divide the graph"
            )
        names = "keys", "hashes", "_values", "_free", "_alive"
        fresh = {name: grown(getattr(self, name), size) for name in names}
        if self.kind == "string":
            fresh["_lengths"] = grown(self._lengths, size)
            fresh["_arena"] = grown(self._arena, int(self._counts[2]) + new_bytes)
        if 2 * (len(self) + new) > len(self._table):
            fresh["_table"] = self._rebuilt(1 << (2 * (len(self) + new)).bit_length())
        self._replace(**fresh)

    def _replace(self, **fresh: Any) -> None:
        """Replace some arrays, and the holder that passes all of them to loops."""
        now = vars(self) | fresh
        if self._zeros is not None and not fresh.keys().isdisjoint(_READ):
            # All of them: the old arrays stay unchanged, so their readers find no position beyond their end.
            fresh |= {name: copied(now[name], self._zeros) for name in _READ}
            now |= fresh
        replace_together(self, **fresh, arrays=loops.IdArrays(*(now[name] for name in _ARRAYS)))

    @classmethod
    def attached(cls, ids: str, arrays: dict[str, NDArray[Any]], secret: UInt64) -> IdMap:
        """Return a map over arrays that another process changes; it can only find ids."""
        made = cls(ids)
        made.secret = secret
        made._replace(**arrays)
        return made

    def read_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that `attached` needs to find ids."""
        return {name: getattr(self, name) for name in _READ}

    def share(self, zeros: Allocator) -> None:
        """Move the arrays for finding ids to memory that other processes can read."""
        self._zeros = zeros
        self._replace(keys=self.keys)

    def _live(self) -> Nodes:
        return self._table[self._table >= 0]

    def _rebuilt(self, size: int) -> Nodes:
        table = np.full(size, -1, np.int32)
        loops.rebuild_table(self._live(), table, self.hashes)
        return table

    def names(self, nodes: Nodes) -> IdColumn:
        """Return the user ids of nodes."""
        if self.kind == "int64":
            return IdColumn(self._values[nodes])
        return IdColumn(*loops.gather_strings(self.arrays, np.ascontiguousarray(nodes, np.int32)))

    def release(self, nodes: Nodes) -> None:
        """Release nodes for other ids. Nodes that are already free are left alone."""
        if self._holds:
            return
        self._wasted += loops.forget(self.arrays, np.ascontiguousarray(nodes, np.int32))
        if self._wasted > max(1 << 20, int(self._counts[2]) // 2):
            self._compact()

    def hold(self) -> list[int]:
        """Stop recycling nodes; return the counters from which `let_go` releases nodes given out since."""
        self._holds += 1
        counts: list[int] = self._counts.tolist()
        return counts

    def let_go(self, before: list[int]) -> None:
        """Release the nodes given out since `hold`, and recycle again; nested holds end in reverse order."""
        high, free, _ = self._counts.tolist()
        if [high, free] != before[:2]:
            again, fresh = self._free[free : before[1]], np.arange(before[0], high)
            # The stack of free nodes has only shrunk: in this order the same nodes stand on it again. Above
            # them stand those that an earlier hold will put back.
            above = slice(before[1], before[1] + len(fresh))
            earlier = self._free[above].copy()
            loops.forget(self.arrays, np.concatenate((again, fresh)).astype(np.int32))
            self._free[above], self._counts[:] = earlier, before
        self._holds -= 1

    def end_holds(self) -> None:
        """End all holds: nodes are recycled again."""
        self._holds = 0

    def _compact(self) -> None:
        live = np.sort(self._live())
        offsets, data = loops.gather_strings(self.arrays, live)
        values, counts = self._values.copy(), self._counts.copy()
        values[live] = offsets[:-1]
        counts[2] = len(data)
        self._replace(_values=values, _arena=data, _counts=counts, _wasted=0)

    def repair(self) -> None:
        """Recompute which nodes are in use, from the table, after an exception between the two updates."""
        alive = np.zeros_like(self._alive)
        alive[self._live()] = 1
        self._replace(_alive=alive)

    def given(self) -> Nodes:
        """Return every node that has an id."""
        return np.flatnonzero(self._alive[: self.high]).astype(np.int32)

    def sorted(self, nodes: Nodes) -> Nodes:
        """Return the nodes in the order of their user ids (strings: by their UTF-8 bytes)."""
        if self.kind == "int64":
            return nodes[np.argsort(self._values[nodes])]
        if not len(nodes):
            return nodes
        names = self.names(nodes)
        assert names.data is not None
        binary = pa.Array.from_buffers(
            pa.large_binary(), len(nodes), [None, pa.py_buffer(names.values), pa.py_buffer(names.data)]
        )
        # Not by `to_numpy`: it imports pandas, where that is installed.
        return nodes[np.frombuffer(pc.sort_indices(binary).buffers()[1], np.uint64, len(nodes))]


def _bytes_of(column: IdColumn) -> int:
    return 0 if column.data is None else int(column.values[-1] - column.values[0])
