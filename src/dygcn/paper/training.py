"""Training with torch: arrays for the equations, the paper's loss, Adam, the GCN and the rules' matrices."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dygcn._extras import extra
from dygcn.engine.records import Float32, Float64, Int64, Nodes, Progress
from dygcn.errors import TrainingWarning
from dygcn.paper import equations
from dygcn.paper.bases import GraphSnapshot, PlayedHistory, degree_features
from dygcn.paper.options import BaseRecipe, RollingRecipe
from dygcn.paper.plans import Mix

with extra("torch"):
    import torch


Tensor = torch.Tensor
_WARM_UP = 10  # rounds
_BASE_PAIRS, _RULE_PAIRS = 8192, 4096  # linked pairs of a step of Adam, and negatives
FEWEST_PAIRS = 64  # below this there is nothing to learn from, and the starting matrices stay
_STEEPEST = 1.0  # gradients are no longer than this


class _WeightedSum(torch.autograd.Function):
    """A sparse matrix times a table; its transpose, cached, propagates the gradient."""

    @staticmethod
    def forward(context: Any, forth: Tensor, back: Tensor, table: Tensor) -> Tensor:
        context.back = back
        return forth @ table

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[None, None, Tensor]:
        return None, None, context.back @ gradients[0]


class TorchArrays:
    """Arrays of the training: torch, for gradients."""

    def __init__(self) -> None:
        # The mix is kept beside its tensors, so that its identity is not given to another.
        self._matrices: dict[tuple[int, int], tuple[Mix, Tensor, Tensor]] = {}

    def take(self, table: Tensor, nodes: Nodes) -> Tensor:
        return table[_index(nodes)]

    def put(self, table: Tensor, nodes: Nodes, rows: Tensor) -> Tensor:
        return table.index_copy(0, _index(nodes), rows)

    def combine(self, mix: Mix, table: Tensor) -> Tensor:
        key = id(mix), len(table)
        if key not in self._matrices:
            self._matrices[key] = (mix, *_both_ways(mix, len(table)))
        _, forth, back = self._matrices[key]
        result: Tensor = _WeightedSum.apply(forth, back, table)  # type: ignore[no-untyped-call]
        return result

    def product(self, rows: Tensor, matrix: Tensor) -> Tensor:
        return rows @ matrix

    def activate(self, rows: Tensor, activation: str) -> Tensor:
        if activation == "relu":
            return torch.relu(rows)
        return torch.tanh(rows) if activation == "tanh" else rows

    def mean_length(self, rows: Tensor) -> float:
        return float(rows.detach().norm(dim=1).mean())

    def bounded(self, rows: Tensor) -> Tensor:
        """Return rows unchanged: a step with an infinite loss is skipped."""
        return rows


def _index(nodes: Nodes | Int64) -> Tensor:
    return torch.from_numpy(np.asarray(nodes, dtype=np.int64))


def _both_ways(mix: Mix, columns: int) -> tuple[Tensor, Tensor]:
    rows = len(mix.first) - 1
    receiver = np.repeat(np.arange(rows), np.diff(mix.first))
    order = np.argsort(mix.row, kind="stable")
    first = np.zeros(columns + 1, np.int64)
    np.cumsum(np.bincount(mix.row, minlength=columns), out=first[1:])
    forth = _sparse(mix.first, mix.row, mix.factor, columns)
    return forth, _sparse(first, receiver[order], mix.factor[order], rows)


def _sparse(first: Int64, column: Int64, value: Float64, columns: int) -> Tensor:
    rows, places, values = (torch.from_numpy(x) for x in (first, column, value.astype(np.float32)))
    size = len(first) - 1, columns
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "support is in beta state"
        return torch.sparse_csr_tensor(rows, places, values, size=size, check_invariants=False)


class LinkLoss:
    """The paper's loss (eq. neg): ``-log s(z_v z_u) - log(1 - s(z_v z_u-))``, u linked to v and u- random."""

    def __init__(self, kind: str, temperature: float = 6.0) -> None:
        self.kind = kind
        self.sharpness = torch.tensor([float(np.log(temperature)), 0.0], requires_grad=True)

    @property
    def parameters(self) -> list[Tensor]:
        """Trained parameters besides the matrices."""
        return [self.sharpness] if self.kind == "cosine" else []

    def __call__(self, z: Tensor, left: Int64, right: Int64, negatives: Int64) -> Tensor:
        """Return the mean loss of linked rows (left, right) and of (left, negatives)."""
        if self.kind == "cosine":
            z = torch.nn.functional.normalize(z, eps=1e-6)
        a, b, c = (z[_index(rows)] for rows in (left, right, negatives))
        near, far = (a * b).sum(1), (a * c).sum(1)
        if self.kind == "cosine":
            scale, bias = self.sharpness[0].exp(), self.sharpness[1]
            near, far = scale * near + bias, scale * far + bias
        soft = torch.nn.functional.softplus
        return soft(-near).mean() + soft(far).mean()


def draw(pairs: Int64, nodes: Int64 | Nodes, count: int, random: np.random.Generator) -> list[Int64]:
    """Return linked rows (left, right), each pair either way round, and random nodes."""
    drawn = pairs[random.integers(len(pairs), size=min(count, 2 * len(pairs)))]
    end, each = random.integers(0, 2, len(drawn)), np.arange(len(drawn))
    negatives = random.choice(np.asarray(nodes, dtype=np.int64), len(drawn))
    return [drawn[each, end], drawn[each, 1 - end], negatives]


def descend(
    parameters: Sequence[Tensor],
    extra_parameters: Sequence[Tensor],
    rounds: int,
    rate: float,
    loss_of: Callable[[int], Tensor | None],
    after: Callable[[], None] | None = None,
    progress: Progress | None = None,
    what: str = "training",
) -> None:
    """Minimise with Adam; the rate warms up, then decays to zero along half a cosine.

    A loss or a gradient that is not finite (plain sums explode) is passed over, and a warning says how often.
    Temperatures take ten times the rate.
    """
    passed_over = 0
    groups = [{"params": list(parameters), "lr": 0.0}]
    if extra_parameters:
        groups.append({"params": list(extra_parameters), "lr": 0.0})
    optimiser = torch.optim.Adam(groups)
    for i in range(rounds):
        now = rate * min((i + 1) / _WARM_UP, 1.0) * 0.5 * (1 + np.cos(np.pi * i / rounds))
        for group, times in zip(optimiser.param_groups, (1, 10), strict=False):
            group["lr"] = times * now
        optimiser.zero_grad()
        loss = loss_of(i)
        if loss is not None:
            loss.backward()  # type: ignore[no-untyped-call]
            if _shorten(parameters):
                optimiser.step()
            else:
                passed_over += 1
        if after is not None:
            with torch.no_grad():
                after()
        if progress is not None:
            progress(i + 1, rounds, what)
    if passed_over:
        warnings.warn(
            f"{what}: {passed_over} of {rounds} rounds gave no finite gradient and were passed over; "
            "RollingRecipe.steady() has options that keep sums from exploding",
            TrainingWarning,
            stacklevel=2,
        )


def _shorten(parameters: Sequence[Tensor]) -> bool:
    """Clip the gradient to the length `_STEEPEST`; return whether it is finite. Squares need float64."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    length = float(sum(float(gradient.double().square().sum()) for gradient in gradients)) ** 0.5
    if not np.isfinite(length):
        return False
    for gradient in gradients:
        gradient *= min(1.0, _STEEPEST / max(length, 1e-300))
    return True


def glorot(rows: int, columns: int, random: np.random.Generator) -> Float32:
    """Return a uniform starting matrix (Glorot and Bengio, 2010)."""
    limit = np.sqrt(6 / (rows + columns))
    return random.uniform(-limit, limit, (rows, columns)).astype(np.float32)


def fit_gcn(
    snapshots: Sequence[GraphSnapshot],
    dim: int,
    recipe: BaseRecipe,
    seed: int,
    start: Mapping[str, Float32] | None = None,
    progress: Progress | None = None,
) -> dict[str, Float32]:
    """Train the paper's GCN: return its matrices ``in`` (degrees, dim) and ``out`` (dim, dim)."""
    random = np.random.default_rng([seed, 4])
    degrees = 1 + max((int(snapshot.degree.max(initial=1)) for snapshot in snapshots), default=1)
    if start is None:
        start = {"in": glorot(degrees, dim, random), "out": glorot(dim, dim, random)}
    table = start["in"]  # greater degrees begin with copies of its last row
    more = np.repeat(table[-1:], max(degrees - len(table), 0), axis=0)
    begin = np.concatenate((table, more)), start["out"]
    weights = [torch.tensor(matrix, requires_grad=True) for matrix in begin]
    arrays, loss = TorchArrays(), LinkLoss(recipe.loss)
    snapshots = [snapshot for snapshot in snapshots if len(snapshot.pairs)]

    def loss_of(_: int) -> Tensor:
        """Return the loss (eq. neg, without labels) of one of the snapshots that have an edge."""
        snapshot = snapshots[int(random.integers(len(snapshots)))]
        degree = degree_features(snapshot, len(begin[0]))
        z = equations.gcn(arrays, snapshot.mix, degree, weights, recipe.output)
        return loss(z, *draw(snapshot.pairs, snapshot.linked, _BASE_PAIRS, random))

    rounds = recipe.epochs if snapshots else 0
    descend(weights, loss.parameters, rounds, recipe.rate, loss_of, None, progress, "training the base")
    return {name: w.detach().numpy() for name, w in zip(("in", "out"), weights, strict=True)}


# ---- matrices of the rules: the paper's Unsupervised Training, on a sequence of graphs ---------------------


def first_matrices(dim: int, orders: int, spectral: bool, start: str, seed: int) -> list[Float32]:
    """Return W_0..W_K (and W_s) before training."""
    random = np.random.default_rng([seed, 6])
    count = orders + 1 + spectral
    if start == "glorot":
        return [glorot(dim, dim, random) for _ in range(count)]
    eye = np.eye(dim, dtype=np.float32)
    little = [np.float32(0.05) * glorot(dim, dim, random) for _ in range(orders)]
    return [eye, *little] + [0.5 * eye] * spectral


def fit_rolled(
    history: PlayedHistory,
    tables: Sequence[Float32],
    start: Sequence[Float32],
    recipe: RollingRecipe,
    spectral: bool,
    seed: int,
    progress: Progress | None = None,
) -> tuple[Float32, ...]:
    """Return trained matrices."""
    linked = [len(snapshot.pairs) for snapshot in history.snapshots[1:]]  # at the end of each plan
    steps, pairs = np.flatnonzero(linked), sum(linked)
    if pairs < FEWEST_PAIRS:
        _say_untrained(
            f"{pairs} linked pairs in {len(history.plans)} steps are too few (least: {FEWEST_PAIRS})"
        )
        return tuple(start)
    labelled = history.snapshots[0].classes is not None and recipe.task_weight
    if not recipe.link_weight and not labelled:
        _say_untrained("link_weight is 0 and there are no labels, so there is no loss")
        return tuple(start)
    random = np.random.default_rng([seed, 8])
    weights = [torch.tensor(matrix, requires_grad=True) for matrix in start]
    run = _Run(history, tables, recipe, weights[0].shape[1], random)

    def loss_of(i: int) -> Tensor | None:
        return run.loss(int(steps[int(random.integers(len(steps)))]), weights)

    def after() -> None:
        if recipe.bound is not None:
            for k, matrix in enumerate(weights):
                limit = recipe.bound / 2 if spectral and k == len(weights) - 1 else recipe.bound
                left, values, right = torch.linalg.svd(matrix)
                if float(values[0]) > limit:
                    matrix.copy_(left @ torch.diag(values.clamp(max=limit)) @ right)

    with torch.no_grad():
        after()
    descend(weights, run.beside, recipe.rounds, recipe.rate, loss_of, after, progress, "training the rule")
    return tuple(matrix.detach().numpy() for matrix in weights)


class _Run:
    """Rolls bases forward and computes the loss."""

    def __init__(
        self,
        history: PlayedHistory,
        tables: Sequence[Float32],
        recipe: RollingRecipe,
        dim: int,
        random: np.random.Generator,
    ) -> None:
        self._history, self._tables, self._recipe = history, tables, recipe
        self._arrays, self._links, self._random = TorchArrays(), LinkLoss(recipe.loss), random
        self.beside = self._links.parameters
        known = [one.classes.max(initial=0) for one in history.snapshots if one.classes is not None]
        if known:
            self._head = torch.zeros((dim + 1, 1 + int(max(known))), requires_grad=True)
            self.beside = [*self.beside, self._head]

    def loss(self, first: int, weights: Sequence[Tensor]) -> Tensor | None:
        """Start from the base at step `first`, roll forward, and return the mean loss over the steps."""
        history, recipe = self._history, self._recipe
        z, losses = torch.zeros((history.high, weights[0].shape[0])), []
        z[_index(history.snapshots[first].nodes)] = torch.from_numpy(self._tables[first])
        for step in range(first, min(first + recipe.rollout, len(history.plans))):
            z = equations.advance(self._arrays, history.plans[step], z, weights, recipe.options)
            found = self._step_loss(step, z)
            if found is not None:
                losses.append(found)
        return torch.stack(losses).mean() if losses else None

    def _step_loss(self, step: int, z: Tensor) -> Tensor | None:
        recipe, now = self._recipe, self._history.snapshots[step + 1]
        total = torch.zeros(())
        pairs = now.nodes[now.pairs].astype(np.int64)
        if len(pairs) and recipe.link_weight:
            total = recipe.link_weight * self._links(
                z, *draw(pairs, now.nodes[now.linked], _RULE_PAIRS, self._random)
            )
        if now.classes is not None and recipe.task_weight and (now.classes >= 0).any():
            known = now.classes >= 0
            rows = z[torch.from_numpy(now.nodes[known].astype(np.int64))]
            scores, wanted = rows @ self._head[:-1] + self._head[-1], torch.from_numpy(now.classes[known])
            total = total + recipe.task_weight * torch.nn.functional.cross_entropy(scores, wanted)
        return total if total.requires_grad else None


def _say_untrained(reason: str) -> None:
    warnings.warn(f"the matrices stay as they started: {reason}", TrainingWarning, stacklevel=5)
