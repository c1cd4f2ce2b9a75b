"""Fit: read the events, hand them to the rule that was asked for, return the live embedding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dygcn.engine._blas import one_blas_thread
from dygcn.engine.events import cut_steps, read_events, seconds, sort_by_time
from dygcn.engine.models import find_fitting
from dygcn.engine.models.choices import Choices
from dygcn.errors import EventError
from dygcn.live.embedding import LiveEmbedding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.engine.training import Recipe
    from dygcn.engine.training.samples import Progress
    from dygcn.paper import RollingRecipe


def fit(
    events: object,
    dim: int = 128,
    orders: int = 2,
    rule: str = "exact",
    features: object = "walks",
    memory: float | None = None,
    seed: int = 0,
    *,
    columns: Sequence[str] | None = None,
    base: object = None,
    labels: object = None,
    width: int = 256,
    directed: bool = False,
    steps: int | Sequence[float] | None = None,
    recipe: Recipe | RollingRecipe | None = None,
    progress: Progress | None = None,
) -> LiveEmbedding:
    """Fit an embedding on the history of a graph; what it returns follows the graph from there on.

    Parameters
    ----------
    events
        Anything tabular with `src`, `dst` and optionally `t`, `op` (+1 or -1) and `weight`: a path
        (Parquet, CSV, NDJSON), an Arrow table, a pandas or polars frame, a dict of arrays, an iterable of
        tuples. Without `t` the order of the rows is the time. Tuples, lists and arrays have no column names:
        two columns are (src, dst), four and five (src, dst, t, op[, weight]); three need `columns`.
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
        ``"hashed"``: random signs drawn from the id, with matrices trained on the events. ``"auto"``: the one
        of these two that predicts the last quarter of the time steps better, which takes both fits.
        Or a table of ids and values; or `dygcn.Embedding` to keep your own vectors fresh.
    memory
        Half-life, in units of `t` (or a timedelta), of the weight that a removed edge leaves; None: it
        leaves nothing.
    seed
        Of the factorisation, hashed features, starting matrices and training.
    columns
        What the columns of tuples, lists or an array are, e.g. ``("src", "dst", "weight")``: names out of
        src, dst, t, op and weight, in any order. Not for events that have names.
    base
        For the paper's rules, where their first vectors come from: ``"gcn"`` (the default), ``"hashed"``,
        ``"graphsage"``, ``"gin"``, or a `dygcn.Embedding`.
    labels
        For the paper's rules, a dict of id to class: adds a task loss, weighed in the recipe.
    width
        Columns of hashed features.
    directed
        If so, the source of an edge aggregates its target. The score stays symmetric.
    steps
        How training time is cut: so many equal parts, or the values of `t` at which a step ends. By
        default every value of `t` is a step (40 equal parts where there are more than 200 values or only
        one, or no `t`; 12 for more than a million events).
    recipe
        Settings of the training: `dygcn.engine.training.Recipe` (of which walks use `held_out` alone), or
        `dygcn.RollingRecipe` for the paper's rules.
    progress
        Called as ``progress(done, total, what)``.

    Examples
    --------
    >>> import dygcn
    >>> live = dygcn.fit({"src": [1, 2, 3], "dst": [2, 3, 1]}, dim=8)
    >>> live.vectors([1, 2]).shape
    (2, 8)
    """
    asked = features, base, labels, recipe
    choices = Choices(dim, orders, rule, seconds(memory), seed, width, directed, *asked)
    batch = sort_by_time(read_events(events, columns=columns))
    if len(batch) == 0:
        raise EventError("there are no events to fit on")
    if memory is not None and batch.t is None:
        raise EventError("memory= needs the column t: it is a half-life in units of t")
    parts = cut_steps(batch, steps)
    with one_blas_thread():
        return LiveEmbedding(find_fitting(rule).fit(batch, parts, choices, progress))
