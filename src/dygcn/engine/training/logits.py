"""Two small convex fits, by Newton's method: a logistic regression, and a softmax over lists.

Columns are standardised first; one without any spread gets 0.
"""

from __future__ import annotations

import numpy as np

from dygcn.engine.records import Float64

PENALTY = 1.0  # of a standardised coefficient, in units of one pair
LIST_PENALTY = 1e-4  # the same, in units of all lists
_FLAT = 1e-6
_ROUNDS = 50
_MANY = 800  # lists, of which a quarter says nearly the same
_ENOUGH = 1e-10  # of the loss of a list: a step that gains less is the last


def logistic(columns: Float64, truth: Float64) -> Float64:
    """Return bias and coefficients of a ridge logistic regression."""
    centre, scale = columns.mean(axis=0), columns.std(axis=0)
    scale = np.where(scale < _FLAT, np.inf, scale)
    inputs = np.concatenate((np.ones((len(columns), 1)), (columns - centre) / scale), axis=1)
    penalty = np.diag(np.append(1e-9, np.full(len(scale), PENALTY)))
    found = np.zeros(inputs.shape[1])
    for _ in range(_ROUNDS):
        chance = (1 + np.tanh(inputs @ found / 2)) / 2
        slope = inputs.T @ (chance - truth) + penalty @ found
        bend = (inputs * (chance * (1 - chance))[:, None]).T @ inputs + penalty
        step = np.linalg.solve(bend, slope)
        found -= step
        if np.abs(step).max() < 1e-6:
            break
    coefficients = found[1:] / scale
    return np.append(found[0] - float(coefficients @ centre), coefficients)


def softmax(columns: Float64, log_weight: Float64, begin: Float64 | None = None) -> Float64:
    """Return coefficients that make the first entry of each list likeliest, by the softmax of the list.

    Columns are (lists, entries, n); `log_weight` is the logarithm of how many an entry stands for, minus
    infinity if it does not count; `begin` are coefficients that are near, by default those of a quarter.
    """
    lists, _, n = columns.shape
    if begin is None and lists > _MANY:
        begin = softmax(columns[::4], log_weight[::4])
    seen = columns[np.isfinite(log_weight)]
    centre, scale = seen.mean(axis=0), seen.std(axis=0)
    scale = np.where(scale < _FLAT, np.inf, scale)
    inputs = (columns - centre) / scale
    found = np.zeros(n) if begin is None else begin * np.where(np.isinf(scale), 0.0, scale)
    loss, shares = _shares(inputs, log_weight, found)
    flat = inputs.reshape(-1, n).astype(np.float32)  # enough for a step; where it ends, the slope says
    for _ in range(_ROUNDS):
        mean = np.einsum("le,len->ln", shares, inputs)
        slope = (mean - inputs[:, 0]).mean(axis=0) + 2 * LIST_PENALTY * found
        spread = (flat * shares.astype(np.float32).reshape(-1, 1)).T @ flat - mean.T @ mean
        step = np.linalg.solve(spread / lists + 2 * LIST_PENALTY * np.eye(n), slope)
        size = 1.0
        while True:
            after, others = _shares(inputs, log_weight, found - size * step)
            if after <= loss or size <= 1e-3:
                break
            size /= 2
        gained, found, loss, shares = loss - after, found - size * step, after, others
        if gained < _ENOUGH:
            break
    return found / scale


def list_loss(columns: Float64, log_weight: Float64, coefficients: Float64) -> float:
    """Return the mean over lists of minus log P of the first entry."""
    return _shares(columns, log_weight, coefficients, penalty=0.0)[0]


def _shares(
    inputs: Float64, log_weight: Float64, found: Float64, penalty: float = LIST_PENALTY
) -> tuple[float, Float64]:
    """Return the penalised loss, and the softmax of each list."""
    scores = inputs @ found + log_weight
    most = scores.max(axis=1, keepdims=True)
    grown = np.exp(scores - most)
    total = grown.sum(axis=1, keepdims=True)
    loss = (most[:, 0] + np.log(total[:, 0]) - scores[:, 0]).mean()
    return float(penalty * found @ found + loss), grown / total
