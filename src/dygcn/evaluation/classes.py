"""Node classification with a classifier that is fitted once and then frozen, as the paper does."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn._extras import extra

if TYPE_CHECKING:
    from dygcn.records import Bool, Float32, Int64


class FrozenClassifier:
    """Logistic regression with scikit-learn's default settings, fitted on the vectors of one moment.

    Parameters
    ----------
    vectors
        (nodes, dim) at the moment of fitting.
    labels
        (nodes,) class of each node, below 0 where there is none.
    active
        (nodes,) which nodes have an edge at that moment.
    """

    def __init__(self, vectors: Float32, labels: Int64, active: Bool) -> None:
        with extra("evidence"):
            from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
        self._labels = labels
        self._known = active & (labels >= 0)
        self._model: Any = LogisticRegression()
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # default settings may stop before they converge: the paper's choice
            self._model.fit(vectors[self._known], labels[self._known])

    def accuracy(self, vectors: Float32, active: Bool) -> tuple[float, float]:
        """Return the share of right classes among all active nodes, and among those that came later.

        The second is NaN where nobody came.
        """
        judged = active & (self._labels >= 0)
        right = np.zeros(len(judged), np.bool_)
        right[judged] = self._model.predict(vectors[judged]) == self._labels[judged]
        late = judged & ~self._known
        return float(right[judged].mean()), float(right[late].mean()) if late.any() else float("nan")
