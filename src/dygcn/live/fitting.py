"""Fit: read the events, pass them to the chosen rule, return the live embedding."""

from __future__ import annotations

import dataclasses
from collections.abc import Sized
from typing import TYPE_CHECKING, Unpack

import numpy as np

from dygcn._extras import late
from dygcn._progress import progress_of
from dygcn.engine._blas import one_blas_thread
from dygcn.engine.events import ColumnOptions, cut_steps, duration, read_graph, sort_by_time
from dygcn.engine.features.tables import read_nodes
from dygcn.engine.models.choices import Choices, FitTask, find_fitting
from dygcn.engine.training.relations import find_relation_weights
from dygcn.errors import EventError, OptionError, shown
from dygcn.live.embedding import LiveEmbedding
from dygcn.live.other_names import names_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from dygcn import datasets
    from dygcn._progress import Asked, Plan
    from dygcn.engine.records import EventBatch
    from dygcn.engine.training import Recipe
    from dygcn.paper import RollingRecipe
else:
    datasets = late("dygcn.datasets")  # only the names of sets need it


@dataclasses.dataclass(frozen=True, slots=True)
class ReadEvents:
    """Events read before the fit, with the type of their ids, which may have kinds."""

    ids: str
    batch: EventBatch


@names_options
def fit(
    events: object,
    dim: int = 128,
    orders: int = 2,
    rule: str = "exact",
    features: object = "walks",
    memory: float | str | timedelta | None = None,
    seed: int = 0,
    *,
    expire: float | str | timedelta | None = None,
    kinds: Sequence[str] | bool | None = None,
    relation_weights: Mapping[str, float] | str | None = None,
    base: object = None,
    labels: object = None,
    nodes: object = None,
    width: int = 256,
    directed: bool = False,
    whole_weights: bool = False,
    steps: int | Sequence[float] | None = None,
    recommend: bool | str = "auto",
    recipe: Recipe | RollingRecipe | None = None,
    progress: Asked = "auto",
    **names: Unpack[ColumnOptions],
) -> LiveEmbedding:
    """Fit an embedding on the history of a graph; what it returns follows the graph from there on.

    Parameters
    ----------
    events
        Anything tabular with `src`, `dst` and optionally `t`, `op` (+1 or -1) and `weight`: a path
        (Parquet, CSV, NDJSON), an Arrow table, a pandas or polars frame, a dict of arrays, an iterable of
        tuples. Without `t` the order of the rows is the time. Tuples, lists and arrays have no column names:
        two columns are (src, dst), four and five (src, dst, t, op[, weight]); three need `columns`.
        Or a graph of networkx, igraph, scipy.sparse or PyG, an edge_index of two rows, or the name of a data
        set (`dygcn.datasets`).
    dim
        Length of the vectors. With an `Embedding` it is the length of the vectors that you bring.
    orders
        K: how far a change is propagated.
    rule
        ``"exact"``: the state is a function of the graph and never drifts. ``"rolling"`` and
        ``"spectral"``: the paper's two algorithms; fitting them needs the extra ``torch``. The spectral rule
        does not use `orders`: it updates the first one, then passes over the whole graph.
    features
        Where h_0 comes from. ``"walks"``: rows that are made once, here, by factorising statistics of short
        walks over the graph at the end of the events; nodes that come later start as their neighbours.
        ``"hashed"``: random signs drawn from the id, with matrices trained on the events.
        ``["walks", x]``: features x of your own beside the rows of walks, in one vector; x is a table of ids
        and values. Such a table alone: matrices are trained on it. Or `dygcn.Embedding` to keep your own
        vectors fresh.
    memory
        Half-life, in units of `t` (or a timedelta, or text such as ``"7d"``), of the weight that a removed
        edge leaves; None: it leaves nothing.
    seed
        Of the factorisation, hashed features, starting matrices and training.
    expire
        How long an edge stays after its last contact, in units of `t`, or as text: ``"90d"``, ``"12h"``,
        ``"30m"``, ``"45s"``, ``"2w"``; None: until it is removed. For views and purchases, which no event
        ever takes back. Not together with `memory`; only the exact rule has it.
    src, dst, t, op, weight
        What a table calls these columns, where it calls them otherwise: ``src="user_id"``. Of a graph, `t`
        and `weight` name attributes of edges.
    shared_ids
        Whether an id that is in both columns is one node. Ids in common are refused where `src` and `dst`
        name columns that do not say that both hold the same things, as ``source`` and ``target`` do, or
        ``user_1`` and ``user_2``; `kinds` tells them apart. Rows without names, and columns that are called
        src and dst, are not looked at.
    kinds
        What the nodes of the first and of the second column are, as in ``kinds=("user", "item")``: user 1 and
        item 1 are then two nodes, ``("user", 1)`` and ``("item", 1)``. True: what `src` and `dst` name. A
        table of more than two kinds has columns called ``src_kind`` and ``dst_kind`` instead.
    relation
        The column (or attribute of edges) that says what an edge is: ``relation="action"`` for view, cart and
        buy. A pair weighs the sum over its relations of the relation's weight times the event's; an event
        replaces or removes what its own relation adds. Only the exact rule has relations.
    relation_weights
        The weight of each relation, at least 0: ``{"view": 1, "cart": 2, "buy": 4}``. A relation of weight 0
        makes no edge. ``"equal"``, the default: 1 each. ``"choose"``: those out of 0, 1/4, 1 and 4 that
        predict the last quarter of the events best; up to 22 small fits.
    columns
        What the columns of tuples, lists or an array are, e.g. ``("src", "dst", "weight")``: names out of
        src, dst, t, op, weight and relation, in any order. Not for events that have names.
    base
        For the paper's rules, where their first vectors come from: ``"gcn"`` (the default), or a
        `dygcn.Embedding`.
    labels
        For the paper's rules, a dict of id to class: adds a task loss, weighed in the recipe.
    nodes
        A table of nodes, the short way to ``features=["walks", x]``: a column `id` (or named as `src` or
        `dst` are, or the index of a pandas frame), and columns of numbers, text, categories or truth values.
    width
        Columns of hashed features.
    directed
        If so, the source of an edge aggregates its target. The score stays symmetric.
    whole_weights
        All weights are whole numbers, now and later; an edge without one has weight 1. A node may then have
        2^38 neighbours of weight one, and not 2^22. Any other weight is refused. Not together with `memory`.
    steps
        How training time is cut: so many equal parts, or the values of `t` at which a step ends. By
        default every value of `t` is a step (40 equal parts where there are more than 200 values or only
        one, or no `t`; 12 for more than a million events).
    recommend
        Whether a filter is fitted for `recommend`: that of EASE, cut at 128 columns, which follows every
        event and lets edges age. ``"auto"``: where nodes have kinds, which say who asks. It takes 1.7 kB a
        node that can be recommended, and 0.8 kB a node that asks; half of it beyond 20,000 answers.
    recipe
        Settings of the training: `dygcn.engine.training.Recipe` (of which walks use `held_out` alone), or
        `dygcn.RollingRecipe` for the paper's rules.
    progress
        ``"auto"``: a bar in terminals and notebooks, elsewhere a line of the logger ``dygcn`` now and then;
        nothing for a fit of less than two seconds. False: nothing. Or a function, called as
        ``progress(done, total, what)``.

    Examples
    --------
    >>> import dygcn
    >>> live = dygcn.fit({"src": [1, 2, 3], "dst": [2, 3, 1]}, dim=8)
    >>> live.vectors([1, 2]).shape
    (2, 8)
    >>> shop = dygcn.fit({"user": [1, 2], "item": [1, 1]}, src="user", dst="item", kinds=True, dim=8)
    >>> list(shop)
    [('item', 1), ('user', 1), ('user', 2)]
    """
    _refuse_columns(events, dim, orders)
    asked = features, base, labels, recipe, bool(whole_weights)
    more = {"recommend": recommend, "expire": duration(expire)}
    choices = Choices(dim, orders, rule, duration(memory), seed, width, directed, *asked, **more)
    source = datasets.events_by_name(events) if isinstance(events, str) else events
    ids, unsorted = (
        (source.ids, source.batch)
        if isinstance(source, ReadEvents)
        else read_graph(source, directed, kinds, **names)
    )
    if nodes is not None:
        features = _beside_walks(
            nodes,
            features,
            [name for name in (names.get("src"), names.get("dst")) if isinstance(name, str)],
            ids,
        )
    choices, batch = dataclasses.replace(choices, features=features, ids=ids), sort_by_time(unsorted)
    if len(batch) == 0:
        raise EventError("there are no events to fit on")
    _check_columns(batch, choices, relation_weights)
    parts, chosen = cut_steps(batch, steps), relation_weights == "choose"
    with one_blas_thread(), progress_of(progress, phases_of(rule, features, chosen)) as notify:
        if batch.relation is not None:
            weights = find_relation_weights(batch, relation_weights, choices, notify)
            choices = dataclasses.replace(choices, relations=weights)
        return LiveEmbedding(find_fitting(rule).fit(FitTask(batch, parts, choices, notify)))


def _check_columns(batch: EventBatch, choices: Choices, weights: object) -> None:
    """Refuse events that make no node, options about columns that they lack, relations for other rules."""
    ends = [(end.values, end.data) for end in (batch.src, batch.dst)]
    alone = isinstance(choices.features, str | list) and isinstance(choices.base, str | None)
    if alone and all(np.array_equal(one, other) for one, other in zip(*ends, strict=True)):
        raise EventError(
            "every event is a self loop, an edge of a node with itself; loops are left out, so there is "
            "nothing to fit on"
        )
    if choices.memory is not None and batch.t is None:
        raise EventError("memory= needs the column t: it is a half-life in units of t")
    if choices.expire is not None and batch.t is None:
        raise EventError("expire= needs the column t: edges leave by the clock, the greatest t seen")
    if batch.relation is None and weights is not None:
        raise OptionError('relation_weights needs relations: name their column, as in relation="action"')
    if batch.relation is not None and choices.rule != "exact":
        raise OptionError(
            f"relations are for rule='exact'; the rule is {choices.rule!r}: leave out relation="
        )


_HELD_OUT = ("factorising walks", 5), ("looking at held-out steps", 3)
_WALKS = ("playing events", 1), *_HELD_OUT, ("factorising walks", 5)
_TRAINED = ("playing events", 4), ("training", 2), ("training", 4)
_PAPER = *_TRAINED, ("playing events", 2), ("training the base", 10), ("training the rule", 10)


def phases_of(rule: str, features: object, chosen: bool = False) -> Plan:
    """Return the phases of a fit, with rough shares of its time; some may be left out.

    Weights of relations may be chosen before all else.
    """
    if chosen:
        return ("weighing relations", 20), *phases_of(rule, features)
    if rule != "exact":
        return _PAPER
    kind = "walks" if isinstance(features, list) else features if isinstance(features, str) else ""
    return _WALKS if kind == "walks" else _TRAINED


def _beside_walks(nodes: object, features: object, also: list[str], ids: str) -> list[object]:
    """Return the value of `features` that a table of nodes stands for."""
    if not (isinstance(features, str | list) and features in ("walks", ["walks"])):
        raise OptionError(
            'nodes= puts features beside walks, so features is "walks" with it, or left out; features of '
            'another form go into one table: features=["walks", x]'
        )
    return ["walks", read_nodes(nodes, also, ids)]


def _refuse_columns(events: object, dim: object, orders: object) -> None:
    """Refuse ``fit(df, "user", "item")`` and ``fit(df.user, df.item)``; the error shows the right call."""
    if isinstance(dim, Sized) and not isinstance(dim, str):
        src, dst = (f"{getattr(one, 'name', None) or '...'!s:.40}" for one in (events, dim))
        raise OptionError(
            f'name the columns: fit(df, src="{src}", dst="{dst}"), or pass {{"src": ..., "dst": ...}}; what '
            "follows the events is dim, a whole number"
        )
    if isinstance(dim, str):
        other = shown(orders) if isinstance(orders, str) else '"..."'
        raise OptionError(
            f"columns are named by keyword: fit(df, src={shown(dim)}, dst={other}); what follows the events "
            "is dim, a whole number"
        )
