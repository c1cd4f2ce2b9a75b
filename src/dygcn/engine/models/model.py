"""The model: everything that `fit` decides and updates never change; and the registry of rules.

A rule is found by its name in `RULES`. Its module is imported, and registers it, when it is first needed.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from dygcn._extras import load_plugin, plugins
from dygcn.engine.events import join_ids, take
from dygcn.engine.features.inputs import Features, Given, Hashed, RowTable, Walks
from dygcn.engine.filter.head import FilterHead
from dygcn.engine.graph import Graph
from dygcn.engine.graph.ids import IdMap
from dygcn.engine.models.checks import one_of
from dygcn.engine.models.folder import Tensors, take_tensor
from dygcn.engine.models.links import COUNT_HALF_LIFE, FILTER, KINDS, LinkHead, NextHead
from dygcn.engine.propagation import ExactRule, Rule
from dygcn.engine.records import Float32, Float64, IdColumn, Int64, ScoreKind
from dygcn.errors import FeatureError

if TYPE_CHECKING:
    from dygcn.engine.models.projection import Projection

RULES = {"exact": "dygcn.engine.models.model", "rolling": "dygcn.paper", "spectral": "dygcn.paper"}
"""Name -> the module that registers the rule."""
GROUP = "dygcn.rules"
"""The group of entry points for rules of other distributions: name -> its `RuleSpec`."""


class RuleSpec(ABC):
    """The specification of a rule: its settings, and what depends on them.

    Parameters are fields of the class, class variables what all models of the rule have in common.
    """

    name: ClassVar[str]
    fitting: ClassVar[str]
    """Name of the module that fits the rule, of the shape of `choices.Fitting`."""
    from_graph: ClassVar[bool]
    """Whether the state follows from model and graph: then it can be computed anew, and no border between
    batches shows in it."""
    nodes_stay: ClassVar[bool]
    """Whether a node that lost its last edge stays in the graph."""
    features: ClassVar[tuple[str, ...]]
    """What `Model.features` may be."""
    drifts: ClassVar[bool] = False
    """Whether vectors drift; then the spec has `after_update` and `restart`, too."""
    more_weights: ClassVar[tuple[str, ...]] = ()
    """Names of the matrices behind W_0..W_K."""

    @classmethod
    def weight_names(cls, orders: int) -> tuple[str, ...]:
        """Return the names of the matrices."""
        return (*(f"W{k}" for k in range(orders + 1)), *cls.more_weights)

    @abstractmethod
    def new_rule(self, weights: Sequence[Float32], features: Features) -> Rule:
        """Return the state of an empty graph."""

    @abstractmethod
    def read_state(self, tensors: Tensors, nodes: int, owners: int, dim: int, features: Features) -> Tensors:
        """Read what `Rule.image` returned from the tensors of a saved graph, or raise ValueError.

        `owners` is how many of the nodes have features of their own.
        """

    def settings(self) -> dict[str, Any] | None:
        """Return the rule's settings for the manifest of a folder, in JSON types."""
        return None

    def tensors(self) -> Tensors:
        """Return the rule's tensors for the model's file."""
        return {}

    @classmethod
    def read(cls, settings: object, tensors: Tensors, orders: int, shape: tuple[int, int]) -> Self:
        """Restore a spec from `settings` and `tensors`; raise ValueError if no model can have these.

        What belongs to the rule is taken out of `tensors`; `shape` is that of each of the model's matrices.
        """
        if settings is not None:
            raise ValueError(f"settings of another rule than {cls.name!r}")
        return cls()

    def describe(self) -> dict[str, str]:
        """Return the settings worth printing."""
        return {}

    def after_update(self, state: Any, version: int) -> None:
        """Check the state after an update; warn if it drifted."""
        raise NotImplementedError

    def restart(self, state: Any, base: object) -> Callable[[], Any]:
        """Prepare a fresh base, computed or the user's; return the call that installs it."""
        raise NotImplementedError


S = TypeVar("S", bound=RuleSpec)
_registered: dict[str, type[RuleSpec]] = {}


def register(spec: type[S]) -> type[S]:
    """Register a rule under its name."""
    _registered[spec.name] = spec
    return spec


def find_spec(name: str) -> type[RuleSpec]:
    """Return the specification of a rule by name."""
    if name not in _registered and name in RULES:
        import_module(RULES[name])
    elif name not in _registered:
        _registered[name] = load_plugin(GROUP, name, RULES)
    return _registered[name]


def rule_names() -> tuple[str, ...]:
    """Return the names of dygcn's rules and of other distributions' rules."""
    return tuple(dict.fromkeys([*RULES, *plugins(GROUP)]))


@register
@dataclass(frozen=True)
class ExactSpec(RuleSpec):
    """The exact rule, which has no settings: its state follows from the model and the graph."""

    name = "exact"
    fitting = "dygcn.engine.training.fitting"
    from_graph = True
    nodes_stay = False
    features = ("walks", "walks+given", "given", "hashed", "embedding")

    def new_rule(self, weights: Sequence[Float32], features: Features) -> ExactRule:
        """Return sums of an empty graph."""
        return ExactRule(features, len(weights) - 1)

    def read_state(self, tensors: Tensors, nodes: int, owners: int, dim: int, features: Features) -> Tensors:
        """Load the features of nodes that were given their own."""
        first = features.first if isinstance(features, Given) else 0  # column of the given block
        rows = take_tensor(tensors, "features", np.int8 if first else np.int32, 2)
        if rows.shape != (owners, features.width - first):
            raise ValueError("features that do not fit the nodes that own them")
        beyond = (
            rows.min(initial=0) < -127 if first else np.abs(rows).max(initial=0) > 1 << Given.message_bits
        )
        if beyond or (len(rows) and isinstance(features, Walks | Hashed)):
            raise ValueError("features beyond what the grid can carry")
        return {"features": rows}


@dataclass(frozen=True, eq=False)
class Baseline:
    """An embedding that the user brought, with its messages at t0."""

    ids: IdColumn  # (n,)
    vectors: Float32  # (n, dim) z_0, which is also x
    messages: tuple[Float32, ...]  # for k = 0..K, (n, dim): h_k at t0, or z_0 where there was none

    @cached_property
    def _map(self) -> IdMap:
        ids = IdMap(self.ids.kind)
        ids.intern(self.ids)
        return ids

    def rows_of(self, names: IdColumn) -> Int64:
        """Return the row of each id in the embedding; -1 where it has none."""
        return self._map.find(names).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Model:
    """Matrices and settings of a fitted embedding, without any graph.

    Parameters
    ----------
    weights
        ``W_0..W_K``, each (width, dim), rows times matrix, then those that the rule has besides; for
        ``"walks"`` the weight of each order, (1, 1).
    ids
        Type of the user ids, ``"int64"`` or ``"string"``; of a graph with kinds, the type of each:
        ``"user:int64,item:string"``.
    features
        ``"walks"``, ``"walks+given"``, ``"given"``, ``"hashed"`` or ``"embedding"``; ``"none"`` for a rule
        without features.
    scales
        Power-of-two scale of each feature column.
    grid
        Weights are whole multiples of this.
    half_life
        Of the ghost of a removed edge, or None.
    spec
        The rule, with the settings that only it has.
    unit
        Time that counts as one when contacts grow old; None: times are not looked at.
    links
        How links are scored, by kind; empty: by the cosine.
    table
        For ``"walks"``: the row of each node that `fit` made one for.
    whole
        Weights that are no multiple of the grid are refused, and not rounded.
    projection
        How given features become the last block of columns; None: there is no such block.
    relations
        The weight of each relation, by name; empty: events have none.
    following
        How what comes next is scored, from the history of events; None: no history is kept.
    filter
        How recommendations are scored, from whom others took; None: by the score of a link.
    expire
        How long an edge stays after its last contact, or None: until it is removed.
    """

    weights: tuple[Float32, ...]
    ids: str
    features: str
    scales: Float64
    seed: int = 0
    directed: bool = False
    grid: float = 2.0**-16
    half_life: float | None = None
    spec: RuleSpec = field(default_factory=ExactSpec)
    baseline: Baseline | None = field(default=None, repr=False)
    unit: float | None = None
    links: Mapping[str, LinkHead] = field(default_factory=dict)
    table: RowTable | None = field(default=None, repr=False)
    whole: bool = False
    projection: Projection | None = field(default=None, repr=False)
    relations: Mapping[str, float] = field(default_factory=dict)
    following: NextHead | None = field(default=None, repr=False)
    filter: FilterHead | None = field(default=None, repr=False)
    expire: float | None = None

    def __repr__(self) -> str:
        rows = "" if self.table is None else f", rows={len(self.table)}"
        more = *(("next",) if self.following else ()), *(("filter",) if self.filter else ())
        links = ", ".join((*self.links, *more)) or "cosine"
        half_life = "" if self.half_life is None else f", memory={self.half_life:g}"
        expire = "" if self.expire is None else f", expire={self.expire:g}"
        relations = f", relations={dict(self.relations)}" if self.relations else ""
        return (
            f"Model(dim={self.dim}, orders={self.orders}, rule={self.rule!r}, "
            f"features={self.features!r}{rows}, ids={self.ids!r}, directed={self.directed}{half_life}{expire}"
            f"{relations}, links={links!r})"
        )

    @property
    def rule(self) -> str:
        """Name of the rule."""
        return self.spec.name

    @property
    def orders(self) -> int:
        """K, the number of orders that a change propagates over."""
        return len(self.weights) - 1 - len(self.spec.more_weights)

    @property
    def weight_names(self) -> tuple[str, ...]:
        """The names of the matrices: W0..WK, and those that the rule has besides."""
        return self.spec.weight_names(self.orders)

    @property
    def matrices(self) -> dict[str, Float32]:
        """The matrices by name, rows times matrix: ``W0..WK``; for the spectral rule W0, W1, Ws."""
        return dict(zip(self.weight_names, self.weights, strict=True))

    @property
    def width(self) -> int:
        """Columns of the features and of every message."""
        return len(self.scales)

    @property
    def dim(self) -> int:
        """Columns of the vectors."""
        return self.width if self.table is not None else int(self.weights[0].shape[1])

    @property
    def blocks(self) -> tuple[tuple[slice, float], ...]:
        """The columns of each block of a vector, and the block's length."""
        if self.projection is None:
            return ((slice(0, self.width), 1.0),)
        first, share = self.width - self.projection.matrix.shape[1], self.projection.share
        return (
            (slice(0, first), float(np.sqrt(1.0 - share))),
            (slice(first, self.width), float(np.sqrt(share))),
        )

    @property
    def floor(self) -> float:
        """Messages shorter than this are not scaled up to length one."""
        return 1e-6 * float(np.max(self.scales))

    def score_kind(self, links: str = "new") -> ScoreKind:
        """Return what a score means: "log-odds", "rank", "cosine" or "filter".

        ``"log-odds"``: learned, above 0 where a link is likelier than not, among as many random pairs;
        ``"rank"``: learned, only their order means something; ``"cosine"``: nothing was learned.
        """
        one_of("links", links, KINDS)
        if links == FILTER:
            return "filter"
        if not self.asks_history(links) and not {links, "all"} & set(self.links):
            return "cosine"
        return "log-odds" if links == "new" and "new" in self.links else "rank"

    def asks_history(self, links: str) -> bool:
        """Return whether a kind of score uses the history of events."""
        return links in ("next", "listed") and self.following is not None

    def new_rule(self) -> Rule:
        """Return the state of an empty graph."""
        return self.spec.new_rule(self.weights, self.new_features())

    def new_features(self) -> Features:
        """Return where x comes from, without any row yet."""
        if self.table is not None:
            return Walks(self.table) if self.projection is None else Given(self.scales, self.table)
        if self.features in ("given", "embedding"):
            return Given(self.scales)
        return Hashed(self.width, self.seed)

    def without(self, ids: object) -> Model:
        """Return the model without the rows of these ids, as if `fit` had made none for them.

        `remove_nodes` takes a node out of the graph and leaves the model as it is, so the row, which was made
        of the node's links, stays. A model without the row is another model: start it anew (`dygcn.start`),
        and write into a new folder. Ids without a row are left alone.

        Examples
        --------
        >>> import dygcn
        >>> live = dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=8)
        >>> len(live.model.table), len(live.model.without(["bob"]).table)
        (3, 2)
        """
        if isinstance(ids, str):
            raise FeatureError(f"{ids!r} is one id; pass a list of ids")
        if self.named_ids is None:
            raise FeatureError(f"a model with features={self.features!r} has no rows of its own to take away")
        gone = IdMap(self.ids)
        gone.intern(gone.read(ids))

        def kept(named: IdColumn) -> Int64:
            return np.flatnonzero(gone.find(named) < 0)

        table, base, found = self.table, self.baseline, self
        if self.filter is not None:
            found = dataclasses.replace(found, filter=self.filter.some(kept(self.filter.ids)))
        if table is not None:
            keep = kept(table.ids)
            rest = RowTable(take(table.ids, keep), table.rows[keep], table.scale, table.window)
            return dataclasses.replace(found, table=rest)
        assert base is not None
        keep = kept(base.ids)
        messages = tuple(rows[keep] for rows in base.messages)
        return dataclasses.replace(
            found, baseline=Baseline(take(base.ids, keep), base.vectors[keep], messages)
        )

    @property
    def named_ids(self) -> IdColumn | None:
        """The ids that the model has rows or vectors of; None for a model without any."""
        rows = self.baseline if self.table is None else self.table
        if rows is None or self.filter is None:
            return None if rows is None else rows.ids
        known = IdMap(self.ids)
        known.intern(rows.ids)
        more = self.filter.ids
        return join_ids((rows.ids, take(more, np.flatnonzero(known.find(more) < 0))))

    def new_graph(self) -> Graph:
        """Return an empty graph for this model."""
        limit = 1 << (62 - self.new_features().message_bits)
        return Graph(
            self.ids,
            directed=self.directed,
            grid=self.grid,
            limit=limit,
            half_life=self.half_life,
            stay=self.spec.nodes_stay,
            count_half_life=None if self.unit is None else COUNT_HALF_LIFE * self.unit,
            whole=self.whole,
            relations=self.relations,
            expire=self.expire,
        )


def order_weights(orders: int) -> tuple[Float32, ...]:
    """Return the weights of unit(h_0)..unit(h_K) in a vector of a walk model: 1, 1, 1/2, 1/4 and so on."""
    return tuple(np.array([[2.0 ** -max(k - 1, 0)]], np.float32) for k in range(orders + 1))
