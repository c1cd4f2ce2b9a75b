"""Node classification with classifiers that are fitted once and then frozen.

`FrozenClassifier` is the paper's: fitted on all labelled nodes, so most of what it is asked for later it was
fitted on. `HeldOutClassifier` is fitted on one half of them and asked for the other half, and for newcomers.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from dygcn._extras import extra
from dygcn.engine.measures import unit_rows
from dygcn.engine.records import Bool, Float32, Float64, Int64


def _fitted(vectors: Float32 | Float64, labels: Int64, **options: float) -> Any:
    with extra("evidence", of="dygcn-lab"):
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    model = LogisticRegression(**options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it stops before it converges: the paper's choice, and ours
        return model.fit(vectors, labels)


class FrozenClassifier:
    """Logistic regression with scikit-learn's default settings, fitted on the vectors of one moment.

    `vectors`: (nodes, dim) at the moment of fitting; `labels`: (nodes,) class of each node, below 0 where
    there is none; `active`: (nodes,) which nodes have an edge at that moment.
    """

    def __init__(self, vectors: Float32, labels: Int64, active: Bool) -> None:
        self._labels = labels
        self._known = active & (labels >= 0)
        self._model = _fitted(vectors[self._known], labels[self._known])

    def accuracy(self, vectors: Float32, active: Bool) -> tuple[float, float]:
        """Return the share of right classes among all active nodes, and among those that came later.

        The second is NaN where nobody came.
        """
        judged = active & (self._labels >= 0)
        right = np.zeros(len(judged), np.bool_)
        right[judged] = self._model.predict(vectors[judged]) == self._labels[judged]
        return _share(right, judged), _share(right, judged & ~self._known)


class HeldOutClassifier:
    """Logistic regression (C = 10) on the directions of the vectors of a random half of the labelled nodes.

    Newcomers are classified by the same half, so that the two figures differ by who is asked for alone.

    `vectors`, `labels`, `active`: as for `FrozenClassifier`; `random`: draws the half.
    """

    def __init__(self, vectors: Float32, labels: Int64, active: Bool, random: np.random.Generator) -> None:
        self._labels = labels
        known = np.flatnonzero(active & (labels >= 0))
        half = random.permutation(known)[: (len(known) + 1) // 2]
        self._old, self._used = active, np.zeros(len(labels), np.bool_)
        self._used[half] = True
        classes, counts = np.unique(labels[half], return_counts=True)
        self._most = int(classes[np.argmax(counts)])
        many = len(classes) > 1
        self._model = _fitted(unit_rows(vectors[half]), labels[half], C=10, max_iter=200) if many else None

    def accuracy(self, vectors: Float32, active: Bool) -> dict[str, float]:
        """Return the share of right classes by figure; NaN where there is nobody to ask for.

        ``held-out``: nodes of the half that was not fitted on. ``held-out.newcomers``: nodes that had no edge
        when the classifier was fitted. ``majority`` and ``majority.newcomers``: what the most frequent class
        of the fitted half gets for both, whatever the vectors.
        """
        judged = active & (self._labels >= 0) & ~self._used
        most = self._labels == self._most
        right = most.copy()
        if self._model is not None and judged.any():
            right[judged] = self._model.predict(unit_rows(vectors[judged])) == self._labels[judged]
        rest, late = judged & self._old, judged & ~self._old
        return {
            "held-out": _share(right, rest),
            "held-out.newcomers": _share(right, late),
            "majority": _share(most, rest),
            "majority.newcomers": _share(most, late),
        }


def _share(right: Bool, among: Bool) -> float:
    return float(right[among].mean()) if among.any() else float("nan")
