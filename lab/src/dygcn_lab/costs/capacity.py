"""What shards of a graph need, predicted from counts: degrees in, mirrors, messages, bytes and additions out.

Nothing here is fitted to a graph. Nodes belong to shards by a hash, so each neighbour of a node is in each
of P shards with a chance of 1/P, independently; with g = 1 - 1/P, a node of d neighbours has none in a given
shard with a chance of g^d. Everything follows from that and from degrees. What one of each costs is measured
(`Constants`). Of undirected graphs: there, whoever is a neighbour aggregates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dygcn.engine.graph.ids import GREATEST_NODES
from dygcn.engine.records import Float64, Int64
from dygcn.errors import OptionError

SLOTS = 4096
_SILENT = 1 << 26  # neighbours: one of them changes a mean of +-1 by less than half a step of 2^-24
_BINS = 2_000


@dataclass(frozen=True)
class Degrees:
    """How many nodes have how many neighbours."""

    degree: Float64  # (n,) above 0
    nodes: Float64  # (n,) how many have it; not always whole

    @classmethod
    def of(cls, degrees: Int64) -> Degrees:
        """Count degrees of nodes; nodes without neighbours are left out.

        Examples
        --------
        >>> Degrees.of(np.array([3, 1, 1, 0, 1])).nodes.tolist()
        [3.0, 1.0]
        """
        degree, nodes = np.unique(degrees[degrees > 0], return_counts=True)
        return cls(degree.astype(np.float64), nodes.astype(np.float64))

    @classmethod
    def power_law(cls, nodes: float, arcs: float, greatest: float) -> Degrees:
        """Return degrees ~ d^-a from 1 to the greatest, with the a that gives so many arcs."""
        edges = np.unique(np.rint(np.geomspace(1, greatest + 1, _BINS)))
        degree = np.sqrt(edges[:-1] * (edges[1:] - 1))
        low, high = 0.0, 10.0
        if not 1 <= arcs / nodes <= greatest:
            raise OptionError(f"{arcs / nodes:g} arcs a node; allowed is 1 to the greatest, {greatest:g}")
        for _ in range(200):
            a = (low + high) / 2
            share = (edges[1:] - edges[:-1]) * degree**-a
            share /= share.sum()
            low, high = (a, high) if share @ degree > arcs / nodes else (low, a)
        return cls(degree, share * nodes)

    @property
    def arcs(self) -> float:
        """Ends of edges: two an edge."""
        return float(self.degree @ self.nodes)

    def at_ends(self, value: Float64) -> float:
        """Return the mean of a value by degree over ends of edges: who has many is met often."""
        return float((self.degree * self.nodes) @ value) / self.arcs


def mirrors(degrees: Degrees, shards: int) -> float:
    """Return how many mirrors all shards have: for each node, the other shards that own a neighbour."""
    return float(degrees.nodes @ _holders(degrees.degree, shards))


def _holders(degree: Float64, shards: int) -> Float64:
    return (shards - 1) * (1 - (1 - 1 / shards) ** degree)


def arcs_held(arcs: float, shards: int) -> float:
    """Return how many arcs all shards store: both arcs of an edge at each of its owners."""
    return arcs * (2 - 1 / shards)


@dataclass(frozen=True)
class Told:
    """What shards tell each other, and the rows of mirrors that they change for it."""

    changes: float = 0.0
    first_rows: float = 0.0
    messages: float = 0.0  # with something in them
    mirror_rows: float = 0.0

    def __add__(self, other: Told) -> Told:
        both = zip(vars(self).values(), vars(other).values(), strict=True)
        return Told(*(mine + yours for mine, yours in both))

    def times(self, factor: float) -> Told:
        """Return it so many times."""
        return Told(*(factor * one for one in vars(self).values()))


@dataclass(frozen=True)
class Touched:
    """Nodes whose arcs a batch changed, and these arcs."""

    before: Float64  # (n,) neighbours of the node
    after: Float64  # (n,)
    union: Float64  # (n,) neighbours that it had or has
    node: Int64  # (a,) of each changed arc, whose it is: a position among the nodes
    old: Float64  # (a,) 1 if it was there
    new: Float64  # (a,) 1 if it is there


def told_of(touched: Touched, shards: int) -> Told:
    """Return what is told of one batch.

    Of a node, a shard is told changes if it has a neighbour before and after, but not those whose other end
    it owns; and the whole row, if it has one after and had none.
    """
    if shards == 1:
        return Told()
    g, others = 1 - 1 / shards, shards - 1
    first = others * (g**touched.before - g**touched.union).sum()
    at = touched.node
    apart = touched.before[at] - touched.old, touched.after[at] - touched.new, touched.union[at] - 1
    changes = others * g * _kept(*apart, g).sum()
    rows = others * _kept(touched.before, touched.after, touched.union, g).sum()
    pairs = shards * others
    return Told(
        float(changes), float(first), float(pairs * -np.expm1(-(changes + first) / pairs)), float(rows)
    )


def _kept(before: Float64, after: Float64, union: Float64, g: float) -> Float64:
    """Return the chance that a shard has one of the neighbours before, and one of those after."""
    return 1 - g**before - g**after + g**union


def told_of_churn(degrees: Degrees, shards: int, batch: int) -> Told:
    """Return what is told of an event, if edges of a graph come and go at random: half of the events add.

    Examples
    --------
    >>> told = told_of_churn(Degrees.of(np.full(10, 10_000)), 2, 1)    # all are mirrored: never a first row
    >>> round(told.changes, 3), round(told.first_rows, 3)
    (1.0, 0.0)
    """
    if shards == 1:
        return Told()
    g, others, pairs = 1 - 1 / shards, shards - 1, shards * (shards - 1)
    met = 1 - degrees.at_ends(g ** (degrees.degree - 1))
    changes, first = 2 * others * g * met, others / shards * (1 - met)
    messages = pairs * -np.expm1(-batch * (changes + first) / pairs) / batch
    return Told(changes, first, float(messages), 2 * others * met)


def additions(degrees: Degrees, batch: int) -> float:
    """Return the additions of an event in one process with K = 2, where edges come and go at random.

    The two ends add the row of the other end. Each changed node is then added once a batch for every
    neighbour, unless it has so many that one of them does not change its message.
    """
    speaking = np.where(degrees.degree <= _SILENT, degrees.degree, 0.0)
    changed = -np.expm1(-2 * batch * degrees.degree / degrees.arcs)
    return 2 + float((degrees.nodes * speaking) @ changed) / batch


@dataclass(frozen=True)
class Constants:
    """What one of each costs, as measured; `capacity_page` reads them from results."""

    node: float  # bytes in memory
    mirror: float
    arc: float
    holder: float  # of a node and a shard: who mirrors it is counted for all shards
    change: float  # bytes on the way
    first_row: float
    message: float
    additions: float  # a second, by one thread
    log_event: float  # bytes
    snapshot_node: float
    snapshot_edge: float
    message_seconds: float  # of CPU, both ends together
    moved: float  # bytes of an id that moved, on its way to the front
    moved_seconds: float  # of CPU, at the front
    front_node: float  # bytes at the front: its vector, and once more in the index


@dataclass(frozen=True)
class Machine:
    """A machine that one can rent: an assumption, and not a measurement."""

    memory: float = 512e9  # bytes
    cores: int = 64
    network: float = 25e9 / 8  # bytes a second
    filled: float = 0.6  # of the memory: the rest is for snapshots that are written, and for growth


@dataclass(frozen=True)
class Demand:
    """A graph, and how fast it changes."""

    degrees: Degrees
    events: float  # a second
    batches: float = 10.0  # a second

    @property
    def batch(self) -> int:
        """Events of a batch."""
        return max(round(self.events / self.batches), 1)


@dataclass(frozen=True)
class Needs:
    """What a demand needs with a number of shards. Bytes and counts are of all shards together."""

    shards: int
    machines: int
    own: float
    mirrors: float
    arcs: float
    memory: tuple[float, float, float, float]  # bytes of nodes, mirrors, arcs, and counts of who mirrors
    additions: float  # an event
    told: Told  # an event
    event_bytes: float  # on the way, an event, between shards
    network: float  # bytes a second, into a machine: what its shards are told, and the log for each of them
    front: float  # bytes a second out of the front: every shard reads every event
    messages: float  # a second, to each shard: one from every other a batch, also empty ones
    log: float  # bytes a second
    snapshot: float  # bytes
    moved: float  # ids an event, at most: all that was added to, each node once a batch
    front_memory: float  # bytes


def memory_of(
    constants: Constants, own: float, copies: float, arcs: float, shards: int
) -> tuple[float, float, float, float]:
    """Return the bytes of nodes, mirrors, arcs, and counts of who mirrors whom, of all shards.

    Examples
    --------
    >>> memory_of(Constants(500, 100, 20, 4, *[0] * 11), own=10, copies=5, arcs=40, shards=2)
    (5000, 500, 800, 80)
    """
    counted = own * shards * constants.holder
    return own * constants.node, copies * constants.mirror, arcs * constants.arc, counted


def bytes_told(constants: Constants, told: Told) -> float:
    """Return the bytes of what is told."""
    return (
        told.changes * constants.change
        + told.first_rows * constants.first_row
        + told.messages * constants.message
    )


def needs(demand: Demand, constants: Constants, machine: Machine, shards: int) -> Needs:
    """Return what a demand needs with so many shards, a thread each."""
    degrees, batch = demand.degrees, demand.batch
    own, held = float(degrees.nodes.sum()), arcs_held(degrees.arcs, shards)
    copies, told = mirrors(degrees, shards), told_of_churn(degrees, shards, batch)
    memory = memory_of(constants, own, copies, held, shards)
    per_event = bytes_told(constants, told)
    added = additions(degrees, batch)
    machines = max(sum(memory) / (machine.memory * machine.filled), shards / machine.cores, 1.0)
    count = int(np.ceil(machines))
    return Needs(
        shards,
        count,
        own,
        copies,
        held,
        memory,
        added + told.mirror_rows,
        told,
        per_event,
        demand.events * (per_event + constants.log_event * shards) / count,
        demand.events * constants.log_event * shards,
        demand.batches * (shards - 1) if demand.events else 0.0,
        demand.events * constants.log_event,
        own * constants.snapshot_node + degrees.arcs / 2 * constants.snapshot_edge * (2 - 1 / shards),
        min(added, own / batch),
        own * constants.front_node,
    )


def why_not(found: Needs, demand: Demand, constants: Constants, machine: Machine) -> str:
    """Return what so many shards have too little of, or nothing."""
    busy = found.messages * constants.message_seconds  # share of a thread
    if busy > 1:
        return "messages"  # a thread does not send and take them in time
    if found.additions * demand.events / found.shards > constants.additions * (1 - busy):
        return "additions"  # a thread does not do its share in time
    if (found.own + found.mirrors) / found.shards > GREATEST_NODES:
        return "numbers"  # a process would have more nodes and mirrors than it can number
    if sum(found.memory) / found.shards > machine.memory * machine.filled:
        return "memory"  # a shard does not fit a machine
    if max(found.network, found.front) > machine.network:
        return "network"  # a machine, or the front, sends more than it can
    return ""


def front_lacks(found: Needs, demand: Demand, constants: Constants, machine: Machine) -> str:
    """Return what the front has too little of, however many shards there are, or nothing."""
    moved = demand.events * found.moved
    lacking = {
        "memory": found.front_memory > machine.memory * machine.filled,
        "moved ids": max(moved * constants.moved_seconds, moved * constants.moved / machine.network) > 1,
    }
    short = " and ".join(what for what, is_so in lacking.items() if is_so)
    return f"the front: {short}" if short else ""


def fewest(demand: Demand, constants: Constants, machine: Machine) -> tuple[Needs | None, str]:
    """Return the needs with the fewest shards (a power of two) that suffice; or None, and why none do."""
    limits: dict[str, int] = {}
    for bits in range(SLOTS.bit_length()):
        found = needs(demand, constants, machine, 1 << bits)
        reason = why_not(found, demand, constants, machine)
        if not reason:
            return found, ""
        limits[reason] = 1 << bits
    return None, ", then ".join(f"{reason} up to {shards:,} shards" for reason, shards in limits.items())
