"""A transformer for scikit-learn: ids of nodes in, vectors out (extra ``sklearn``)."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dygcn._extras import extra
from dygcn.engine.records import Float32, Int64
from dygcn.errors import EventError, OptionError
from dygcn.live.embedding import start
from dygcn.live.fitting import fit
from dygcn.live.view import EmbeddingView

with extra("sklearn"):
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted, validate_data


__all__ = ["NodeEmbedder"]

UNKNOWN = ("error", "zeros")


class NodeEmbedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn ids of nodes into vectors, as a step of a scikit-learn pipeline.

    X has a column of ids, or several: the vectors of a row's ids stand behind each other. The vectors are
    those of the moment of `fit`, kept as plain arrays, so that a fitted pipeline can be pickled; the live
    embedding beside them is left out of a pickle. All checks of `sklearn.utils.estimator_checks` pass.

    Parameters
    ----------
    graph
        Whatever `dygcn.fit` takes as events, or an embedding. None: the rows of X are the graph, each linking
        its ids with each other; two columns are edges.
    dim, orders, features
        As in `dygcn.fit`; not looked at if `graph` is an embedding.
    random_state
        The seed, a whole number.
    handle_unknown
        What becomes of an id that is not in the graph: ``"error"``, or ``"zeros"`` for a vector of zeros.
    kinds
        The kind of each column of X, as in ``("user", "item")``, where these are different things whose ids
        may be the same; as in `dygcn.fit`.

    Attributes
    ----------
    embedding_
        The embedding, which can be updated; `transform` does not follow. Not in a pickle.
    ids_
        The ids of all nodes, then those of X that no row links with another, if the rows are the graph.
    vectors_
        Their vectors, (nodes, dim); zeros of ids that are linked with none.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> left, right = [("ann", "bob"), ("bob", "cat"), ("cat", "ann")], [("dan", "eve"), ("eve", "fay")]
    >>> edges = left + right
    >>> classify = make_pipeline(NodeEmbedder(edges, dim=8), LogisticRegression())
    >>> _ = classify.fit([["ann"], ["bob"], ["dan"], ["eve"]], ["left", "left", "right", "right"])
    >>> classify.predict([["cat"], ["fay"]]).tolist()
    ['left', 'right']
    """

    def __init__(
        self,
        graph: object = None,
        *,
        dim: int = 128,
        orders: int = 2,
        features: object = "walks",
        random_state: int = 0,
        handle_unknown: str = "error",
        kinds: Sequence[str] | None = None,
    ) -> None:
        self.graph = graph
        self.dim = dim
        self.orders = orders
        self.features = features
        self.random_state = random_state
        self.handle_unknown = handle_unknown
        self.kinds = kinds

    def fit(self, X: object, y: object = None) -> Self:
        """Fit an embedding on the graph, or on the rows of X if there is none.

        Parameters
        ----------
        X
            Ids, (n, columns): whole numbers or text.
        y
            Not looked at.
        """
        if self.handle_unknown not in UNKNOWN:
            allowed = " and ".join(map(repr, UNKNOWN))
            raise OptionError(f"handle_unknown is {self.handle_unknown!r}; allowed are {allowed}")
        ids = _read_ids(validate_data(self, X, dtype=None))
        texts = self._with_kinds(ids)
        embedding = self._embedding(ids)
        known, vectors = _as_texts(embedding.ids()), embedding.vectors()
        if self.graph is None:  # an id that stands alone in its rows has no edge
            alone = np.setdiff1d(texts, known)
            known = np.concatenate((known, alone))
            vectors = np.concatenate((vectors, np.zeros((len(alone), vectors.shape[1]), np.float32)))
        self.ids_, self.vectors_, self.embedding_ = known, vectors, embedding
        self._place = _places(known)
        return self

    def transform(self, X: object) -> Float32:
        """Return the vectors of ids, (n, columns * dim).

        Raises
        ------
        ValueError
            For an id that is not in the graph, unless ``handle_unknown="zeros"``.
        """
        check_is_fitted(self)
        ids = _read_ids(validate_data(self, X, dtype=None, reset=False))
        at = self._find(self._with_kinds(ids).reshape(-1).tolist())
        found = np.concatenate((self.vectors_, np.zeros_like(self.vectors_[:1])))[at]
        return found.reshape(len(ids), -1)

    def _with_kinds(self, ids: NDArray[Any]) -> NDArray[Any]:
        """Return ids as text with the kind of their column, where columns have kinds."""
        if self.kinds is None:
            return ids
        if len(self.kinds) != ids.shape[1]:
            raise OptionError(f"kinds has {len(self.kinds)} names, and X has {ids.shape[1]} column(s)")
        texts = [[f"{kind}:{one}" for one in column] for kind, column in zip(self.kinds, ids.T, strict=True)]
        return np.array(texts, object).T

    @property
    def _n_features_out(self) -> int:
        return int(self.n_features_in_ * self.vectors_.shape[1])

    def _embedding(self, ids: NDArray[Any]) -> EmbeddingView:
        if isinstance(self.graph, EmbeddingView):
            return self.graph
        settings: dict[str, Any] = {"features": self.features, "seed": self.random_state}
        if isinstance(self.graph, _LeftOut):
            raise ValueError("graph was an embedding, which no pickle holds; set_params(graph=...) names one")
        rows: Any = _rows(ids, self.kinds) if self.graph is None else self.graph
        if self.graph is None and (rows["src"] == rows["dst"]).all():  # no row links anything
            two = ["a", "b"] if rows["src"].dtype == object else [0, 1]
            return start(fit([tuple(two)], self.dim, self.orders, **settings).model)
        try:
            return fit(rows, self.dim, self.orders, **settings)
        except EventError as error:
            advice = "NodeEmbedder(dygcn.fit(table, src=..., dst=...)) takes columns of other names"
            raise EventError(f"{error} ({advice})") if "no column" in str(error) else error from None

    def _find(self, ids: Sequence[int | str]) -> Int64:
        """Return where ids stand in `ids_`, -1 where they do not."""
        at = np.fromiter((self._place.get(one, -1) for one in ids), np.int64, len(ids))
        if self.handle_unknown == "error" and (at < 0).any():
            missing = ids[int(at.argmin())]
            raise ValueError(f"{missing!r} is not in the graph; handle_unknown='zeros' gives it zeros")
        return at

    def __sklearn_clone__(self) -> Self:
        made = type(self)(**self.get_params(deep=False))  # the graph is shared: it may be an embedding
        for name in ("_metadata_request", "_sklearn_output_config"):
            if hasattr(self, name):
                setattr(made, name, copy.deepcopy(getattr(self, name)))
        return made

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        if "ids_" in state and isinstance(self.graph, EmbeddingView):
            state["graph"] = _LeftOut()
        return {name: value for name, value in state.items() if name not in ("embedding_", "_place")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "ids_" in state:
            self._place = _places(self.ids_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []  # ids in, float32 out
        return tags


class _LeftOut:
    """Stands for an embedding in a pickle."""

    def __repr__(self) -> str:
        return "left out of the pickle"


def _places(ids: NDArray[Any]) -> dict[int | str, int]:
    return {one: at for at, one in enumerate(ids.tolist())}


def _as_texts(ids: NDArray[Any]) -> NDArray[Any]:
    """Return ids with kinds as text, and others as they are."""
    if not len(ids) or not isinstance(ids[0], tuple):
        return ids
    made = np.empty(len(ids), object)
    made[:] = list(map(str, ids))
    return made


def _read_ids(values: NDArray[Any]) -> NDArray[Any]:
    """Return ids as integers, or as text where some are text."""
    flat = values.reshape(-1).tolist() if values.dtype.kind in "uO" else []
    whole = values.dtype.kind == "O" and all(map(_is_whole, flat))
    if values.dtype.kind == "f" and bool((np.floor(values) == values).all()):
        flat, whole = values.reshape(-1).tolist(), True
    if whole or values.dtype.kind in "iub":
        _refuse((one for one in flat if not _is_exact(one)), "int64, and below 2^53 as a float")
        return values.astype(np.int64)
    if values.dtype.kind == "f":
        odd = values[np.floor(values) != values][0]
        raise ValueError(f"ids of nodes are whole numbers or text, and {float(odd)!r} is neither")
    _refuse((one for one in flat if one is None), "text or a whole number")
    return values.astype(str).astype(object)


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) or (isinstance(value, float) and value.is_integer())


def _is_exact(value: float) -> bool:
    """Return whether a number is one id: floats from 2^53 on stand for several."""
    return abs(value) < 2**53 if isinstance(value, float) else -(2**63) <= value < 2**63


def _refuse(odd: Iterator[object], allowed: str) -> None:
    for one in odd:
        raise ValueError(f"{one!r} is not an id of a node; allowed is {allowed}")


def _rows(ids: NDArray[Any], kinds: Sequence[str] | None) -> dict[str, NDArray[Any]]:
    """Return rows of ids as edges: each id with every other one of its row."""
    if ids.shape[1] < 2:
        raise ValueError(
            f"X has {ids.shape[1]} feature(s), and without graph= its rows are the graph: pass graph=, or "
            "two columns or more"
        )
    pairs = list(combinations(range(ids.shape[1]), 2))
    ends = (np.concatenate([ids[:, pair[side]] for pair in pairs]) for side in (0, 1))
    columns = dict(zip(("src", "dst"), ends, strict=True))
    if kinds is None:
        return columns
    named = (np.repeat([kinds[pair[side]] for pair in pairs], len(ids)) for side in (0, 1))
    return columns | dict(zip(("src_kind", "dst_kind"), named, strict=True))
