"""Two small convex fits, by Newton's method: a logistic regression, and a softmax over lists.

Columns are standardised first; one without any spread gets 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dygcn.engine.records import Bool, Float64

PENALTY = 1.0  # of a standardised coefficient, in units of one pair
LIST_PENALTY = 1e-3  # the same, in units of all lists
_FLAT = 1e-6
_ROUNDS = 50
_NEVER = -1e30  # the score of an entry that does not count


def _standard(columns: Float64) -> tuple[Float64, Float64, Float64]:
    """Return centred and scaled columns, their centres and their scales (infinite where all are equal)."""
    centre, scale = columns.mean(axis=0), columns.std(axis=0)
    scale = np.where(scale < _FLAT, np.inf, scale)
    return (columns - centre) / scale, centre, scale


def logistic(columns: Float64, truth: Float64) -> Float64:
    """Return bias and coefficients of a ridge logistic regression.

    Examples
    --------
    >>> x = np.linspace(-2, 2, 400)[:, None]
    >>> odds = 1.5 * x[:, 0] - 0.5
    >>> truth = (np.random.default_rng(0).random(400) < 1 / (1 + np.exp(-odds))).astype(float)
    >>> bool(np.abs(logistic(x, truth) - [-0.5, 1.5]).max() < 0.25)
    True
    """
    standard, centre, scale = _standard(columns)
    inputs = np.concatenate((np.ones((len(columns), 1)), standard), axis=1)
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


def softmax(columns: Float64, masked: Bool) -> Float64:
    """Return coefficients with which the first entry of each list scores highest, by the softmax of the list.

    Parameters
    ----------
    columns
        (lists, entries, n); the first entry of each list is the right one.
    masked
        (lists, entries) entries that do not count.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> columns = random.standard_normal((200, 5, 2))
    >>> columns[:, 0, 1] += 2.0
    >>> first, second = softmax(columns, np.zeros((200, 5), bool)).tolist()
    >>> second > 1 > abs(first)
    True
    """
    lists, entries, n = columns.shape
    standard, _, scale = _standard(columns.reshape(-1, n))
    inputs = standard.reshape(lists, entries, n)
    found = np.zeros(n)
    loss = _list_loss(inputs, masked, found)
    for _ in range(_ROUNDS):
        shares = _shares(inputs, masked, found)
        mean = np.einsum("le,len->ln", shares, inputs)
        slope = (mean - inputs[:, 0]).mean(axis=0) + 2 * LIST_PENALTY * found
        spread = np.einsum("len,lem->nm", inputs * shares[:, :, None], inputs) - mean.T @ mean
        step = np.linalg.solve(spread / lists + 2 * LIST_PENALTY * np.eye(n), slope)
        size = 1.0
        while (after := _list_loss(inputs, masked, found - size * step)) > loss and size > 1e-3:
            size /= 2
        found, loss = found - size * step, after
        if np.abs(size * step).max() < 1e-5:
            break
    return found / scale


def _shares(inputs: Float64, masked: Bool, found: Float64) -> Float64:
    """Return the softmax of each list."""
    scores = np.where(masked, _NEVER, inputs @ found)
    grown = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Float64 = grown / grown.sum(axis=1, keepdims=True)
    return shares


def _list_loss(inputs: Float64, masked: Bool, found: Float64) -> float:
    scores = np.where(masked, _NEVER, inputs @ found)
    most = scores.max(axis=1)
    chosen = scores[:, 0] - most - np.log(np.exp(scores - most[:, None]).sum(axis=1))
    return float(LIST_PENALTY * found @ found - chosen.mean())
