"""The paper's equations, each one once. Training and the live path call the same functions.

They are written on any kind of array. `Arrays` is what an array library must offer: the live path brings
`NumpyArrays`, compiled loops with a fixed order of summation; training brings torch (`TorchArrays`), which
also gives the derivatives. Where the paper writes ``W z``, these are ``z @ W``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from dygcn.engine.records import Float, Nodes
from dygcn.paper.plans import Mix, Plan, RuleOptions
from dygcn.paper.products import add_combined, add_product

T = TypeVar("T", bound=Any)


class Arrays(Protocol[T]):
    """The operations that the equations need from an array library."""

    def take(self, table: T, nodes: Nodes) -> T:
        """Return the rows of nodes."""

    def put(self, table: T, nodes: Nodes, rows: T) -> T:
        """Return the table with the rows of nodes replaced."""

    def combine(self, mix: Mix, table: T) -> T:
        """Return one weighted sum of rows for each entry of the mix."""

    def product(self, rows: T, matrix: T) -> T:
        """Return rows times matrix."""

    def activate(self, rows: T, activation: str) -> T:
        """Return sigma of every number; "relu", "tanh" or "none"."""

    def mean_length(self, rows: T) -> float:
        """Return the mean length of rows, through which no gradient flows."""

    def bounded(self, rows: T) -> T:
        """Keep numbers from overflowing, where vectors are stored."""


LARGEST = 1e30  # no stored number is larger, so that nothing ever becomes infinite or NaN


class NumpyArrays:
    """Arrays of the live path: float64 in between, stored float32; rows are the same in any batch."""

    def take(self, table: Float, nodes: Nodes) -> Float:
        rows: Float = table[nodes]
        return rows

    def put(self, table: Float, nodes: Nodes, rows: Float) -> Float:  # into the table itself
        table[nodes] = self.bounded(rows)
        return table

    def mean_length(self, rows: Float) -> float:
        return float(np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1)).mean())

    def bounded(self, rows: Float) -> Float:
        """Cut numbers off at `LARGEST`."""
        return np.clip(np.nan_to_num(rows, nan=0.0, posinf=LARGEST, neginf=-LARGEST), -LARGEST, LARGEST)

    def combine(self, mix: Mix, table: Float) -> Float:
        out = np.zeros((len(mix.first) - 1, table.shape[1]))
        add_combined(mix.first, mix.row, mix.factor, np.ascontiguousarray(table), out)
        return out

    def product(self, rows: Float, matrix: Float) -> Float:
        if rows.shape[1] != matrix.shape[0]:
            raise ValueError(f"rows of width {rows.shape[1]} times a matrix of {matrix.shape[0]} rows")
        out = np.zeros((len(rows), matrix.shape[1]))
        add_product(np.ascontiguousarray(rows), np.ascontiguousarray(matrix), out)
        return out

    def activate(self, rows: Float, activation: str) -> Float:
        if activation == "relu":
            return np.maximum(rows, 0)
        return np.tanh(rows) if activation == "tanh" else rows


def convolve(arrays: Arrays[T], mix: Mix, table: T, matrix: T, activation: str) -> T:
    """One layer of the static GCN: ``sigma(A^ Z W)``, eqs. gconv, aggr and update."""
    return arrays.activate(arrays.product(arrays.combine(mix, table), matrix), activation)


def welcome(arrays: Arrays[T], plan: Plan, table: T) -> T:
    """Start each new node as the aggregation of its linked nodes (*The Process of New Nodes*)."""
    return arrays.put(table, plan.arrived, arrays.combine(plan.first_look, table))


def update_rows(arrays: Arrays[T], own: T, change: T, W0: T, Wk: T, activation: str) -> T:
    """``z' = sigma(W0 z + Wk da)``: eqs. 1update, 2update and kupdate."""
    return arrays.activate(arrays.product(own, W0) + arrays.product(change, Wk), activation)


def roll(arrays: Arrays[T], plan: Plan, table: T, weights: Sequence[T], activation: str) -> list[T]:
    """Algorithm 1: return the new rows of V_1..V_K. In matrix form: eqs. dyn_gcn1 and dgc, masked.

    `table` is Z^t, newcomers included (`welcome`); `weights` are W_0..W_K.
    """
    changed: list[T] = []
    source = table  # order 1 aggregates z^t itself over the changed arcs: eq. change_aggr1
    for nodes, mix, matrix in zip(plan.influence.orders, plan.changes, weights[1:], strict=True):
        own = arrays.take(table, nodes)
        change = arrays.combine(mix, source)
        changed.append(arrays.bounded(update_rows(arrays, own, change, weights[0], matrix, activation)))
        source = changed[-1] - own  # z^(t+1) - z^t of this ring, for eq. change_aggr2
    return changed


def spread(arrays: Arrays[T], mix: Mix, table: T, Ws: T) -> T:
    """Apply one pass over the whole graph: ``(I + D^-1/2 A D^-1/2) Z Ws``, eq. spectural_dygcn."""
    return arrays.product(arrays.combine(mix, table), Ws)


def advance(arrays: Arrays[T], plan: Plan, table: T, weights: Sequence[T], options: RuleOptions) -> T:
    """Return all of Z^(t+1): Algorithm 1, or Algorithm 2 where the plan has a pass."""
    table = welcome(arrays, plan, table)
    changed = roll(arrays, plan, table, weights[: len(plan.changes) + 1], options.activation)
    for nodes, rows in zip(plan.influence.orders, changed, strict=True):
        table = arrays.put(table, nodes, rows)
    if plan.whole is not None:
        nodes, mix = plan.whole
        passed = spread(arrays, mix, table, weights[-1])
        if options.level:
            now, before = (arrays.mean_length(rows) for rows in (passed, arrays.take(table, nodes)))
            passed = passed * (before / now) if now > 0 and before > 0 else passed
        table = arrays.put(table, nodes, passed)
    return table


def gcn(arrays: Arrays[T], mix: Mix, degree: Nodes, weights: Sequence[T], output: str) -> T:
    """The paper's static base: two layers of eq. gconv on one-hot degrees.

    ``X W`` of a one-hot X is the row of W at the degree, so the first layer takes rows.
    """
    first = arrays.activate(arrays.combine(mix, arrays.take(weights[0], degree)), "relu")
    return convolve(arrays, mix, first, weights[1], output)
