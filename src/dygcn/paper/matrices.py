"""Learning the matrices of the paper's rules: its *Unsupervised Training*, on a sequence of graphs."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from dygcn._extras import extra
from dygcn.errors import TrainingWarning
from dygcn.paper import equations
from dygcn.paper.tensors import LinkLoss, TorchArrays, descend, draw, glorot

with extra("torch"):
    import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.engine.records import Float32, Int64, Nodes, Progress
    from dygcn.paper.history import GraphSnapshot, PlayedHistory
    from dygcn.paper.options import RollingRecipe

FEWEST_PAIRS = 64  # below this there is nothing to learn from, and the starting matrices stay


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
    steps = [
        i for i in range(len(history.plans)) if len(history.snapshots[_target(history, i, recipe)].pairs)
    ]
    pairs = sum(len(history.snapshots[_target(history, i, recipe)].pairs) for i in steps)
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

    def loss_of(i: int) -> torch.Tensor | None:
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


def _target(history: PlayedHistory, step: int, recipe: RollingRecipe) -> int:
    """Return whose edges the vectors after plans[step] must tell from negatives."""
    return min(step + 1 + recipe.ahead, len(history.snapshots) - 1)


class _Run:
    """Rolls bases forward and asks what it costs."""

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
        if history.snapshots[0].classes is not None:
            classes = 1 + max(int(_classes(snapshot).max(initial=0)) for snapshot in history.snapshots)
            self._head = torch.zeros((dim + 1, classes), requires_grad=True)
            self.beside = [*self.beside, self._head]

    def _base(self, step: int, weights: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return Z of a snapshot, by node."""
        z = torch.zeros((self._history.high, weights[0].shape[0]))
        nodes = self._history.snapshots[step].nodes.astype(np.int64)
        z[torch.from_numpy(nodes)] = torch.from_numpy(self._tables[step])
        return z

    def loss(self, first: int, weights: Sequence[torch.Tensor]) -> torch.Tensor | None:
        """Start from the base at step `first`, roll, and return the mean loss over the steps."""
        history, recipe = self._history, self._recipe
        z, losses = self._base(first, weights), []
        for step in range(first, min(first + recipe.rollout, len(history.plans))):
            z = equations.advance(self._arrays, history.plans[step], z, weights, recipe.options)
            found = self._step_loss(step, z)
            if found is not None:
                losses.append(found)
        return torch.stack(losses).mean() if losses else None

    def _step_loss(self, step: int, z: torch.Tensor) -> torch.Tensor | None:
        recipe, target = self._recipe, self._history.snapshots[_target(self._history, step, self._recipe)]
        now = self._history.snapshots[step + 1]
        total = torch.zeros(())
        pairs = self._pairs(step, target.nodes[target.pairs])
        if len(pairs) and len(now.linked) and recipe.link_weight:
            total = recipe.link_weight * self._links(
                z, *draw(pairs, now.nodes[now.linked], recipe.pairs, self._random)
            )
        if now.classes is not None and recipe.task_weight and (now.classes >= 0).any():
            known = now.classes >= 0
            rows = z[torch.from_numpy(now.nodes[known].astype(np.int64))]
            scores, wanted = rows @ self._head[:-1] + self._head[-1], torch.from_numpy(now.classes[known])
            total = total + recipe.task_weight * torch.nn.functional.cross_entropy(scores, wanted)
        return total if total.requires_grad else None

    def _pairs(self, step: int, pairs: Nodes) -> Int64:
        """Return those pairs whose two ends have a vector after this step."""
        here = np.zeros(self._history.high, np.bool_)
        here[self._history.snapshots[step + 1].nodes] = True
        kept: Int64 = pairs[here[pairs].all(axis=1)].astype(np.int64)
        return kept


def _classes(snapshot: GraphSnapshot) -> Int64:
    assert snapshot.classes is not None
    return snapshot.classes


def _say_untrained(reason: str) -> None:
    warnings.warn(f"the matrices stay as they started: {reason}", TrainingWarning, stacklevel=5)
