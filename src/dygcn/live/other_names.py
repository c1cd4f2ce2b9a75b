"""Names that other libraries use: the error for an unknown name suggests dygcn's own call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def _by_name(hints: dict[str, str]) -> dict[str, str]:
    """Return a dict from each name to its hint; keys with several names, between spaces, are split."""
    return {name: hint for names, hint in hints.items() for name in names.split()}


_VECTORS = "live.vectors() returns all vectors, in the order of live.ids(); live.vectors([a, b]) some"
_NEAREST = "live.nearest(a, k=10) returns the nearest nodes, live.recommend(a, k=10) the likeliest new links"
_FIT = "dygcn.fit(events) returns an embedding that is fitted; live.update(events) lets it follow its graph"
_TRANSFORMER = "; dygcn.sklearn.NodeEmbedder is a transformer for pipelines"
_SAVE = "live.save(path) writes an embedding, dygcn.load(path) reads it"
_OF_KIND = 'live.to_pandas().loc["item"] is the frame of a kind, live.vectors([("item", a)]) some vectors'
ATTRIBUTES = _by_name(
    {
        "add_edge add_edges add_edges_from": "live.update(add=[(a, b)]) adds edges",
        "add_weighted_edges_from": 'live.update(add=rows, columns=("src", "dst", "weight")) adds such edges',
        "add_node add_nodes_from": "live.update(add=[(a, b)]) or live.set_features(ids, rows) adds nodes",
        "remove_edge remove_edges remove_edges_from": "live.update(remove=[(a, b)]) removes edges",
        "remove_node remove_nodes_from": "live.update(remove_nodes=[a]) removes nodes and their edges",
        "nodes keys": "live.ids() returns the ids of all nodes",
        "number_of_nodes": "len(live) says how many nodes there are",
        "number_of_edges": "live.edge_count says how many edges there are",
        "has_node": "a in live says whether a node is there",
        "has_edge": "b in live.neighbors(a) says whether an edge is there",
        "degree": "len(live.neighbors(a)) says how many neighbours a has",
        "neighbours": "live.neighbors(a) returns the nodes that a has an edge with",
        "wv embedding embeddings embedding_ weight values numpy to_numpy": _VECTORS,
        "to_keyed_vectors to_word2vec": "gensim's KeyedVectors has add_vectors(list(live), live.vectors())",
        "most_similar similar kneighbors knn search query": _NEAREST,
        "similarity cosine": "live.nearest(a, k=1, among=[b]) returns a cosine, live.score(a, b) a score",
        "get_vector get_embedding encode embed": "live.vector(a), or live[a], returns the vector of a node",
        "similar_items similar_users": 'live.nearest(("item", a)) returns items; with kind="user", users',
        "item_factors user_factors item_embeddings user_embeddings x_dict": _OF_KIND,
        "get_item_representations get_user_representations": _OF_KIND,
        "fit_partial recalculate_user fit partial_fit train": _FIT,
        "fit_transform": _FIT + _TRANSFORMER,
        "transform": _VECTORS + _TRANSFORMER,
        "predict predict_proba": "live.score(a, b) scores a link; with probability=True, a probability",
        "dim": "live.model.dim is the length of a vector",
        "to_csv to_parquet to_frame to_dataframe to_df": "live.to_pandas() returns a frame, which has to_csv",
        "shape": "len(live) says how many nodes there are, live.model.dim is the length of a vector",
        "to_pickle dump load": _SAVE,
    }
)  # of an embedding: those of networkx, gensim, implicit, scikit-learn, PyG, pandas and numpy

NAMES = _by_name(
    {
        "DyGCN Dygcn Node2Vec train embed": "dygcn.fit(events, dim=128) returns a fitted dygcn.LiveEmbedding",
        "fit_transform": "dygcn.fit(events).vectors() returns all vectors" + _TRANSFORMER,
        "cluster": "import dygcn.cluster; dygcn.cluster.launch(folder, 4) divides a graph among four shards",
        "read_csv read_parquet": 'dygcn.fit("edges.csv", src="user", dst="item") reads CSV and Parquet',
        "from_pandas": "dygcn.fit(df, src=..., dst=...) takes a frame",
        "from_networkx": "dygcn.fit(G) takes a graph of networkx",
        "save": _SAVE,
        "NodeEmbedder": "dygcn.sklearn.NodeEmbedder is the transformer for scikit-learn",
    }
)  # of the module `dygcn`

_HOW_MANY = _by_name({"topn top_n top_k topk n N n_neighbors limit": "k= is how many nodes"})
OPTIONS = {
    "fit": _by_name(
        {
            "dimensions embedding_dim n_components vector_size": "dim= is the length of the vectors",
            "num_nodes n_nodes": "leave it out, the nodes are those that have edges or features",
            "bipartite": 'kinds=("user", "item") tells the nodes of both columns apart',
            "user_col user_id source": "src= names the column of the first end",
            "item_col item_id target": "dst= names the column of the second end",
            "item_features user_features": "features= takes features of nodes",
            "time timestamp": "t= names the column of the time",
            "edge_attr": "weight= names the weights of edges",
            "random_state": "seed= makes a fit repeatable",
            "verbose": "progress=False is silent",
        }
    ),
    "nearest": _HOW_MANY,
    "recommend": _HOW_MANY,
}  # of functions, by name


def no_attribute(owner: str, name: str, known: dict[str, str]) -> AttributeError:
    """Return the AttributeError for a missing name, with the call that it stands for, if known."""
    meant = f"; {known[name]}" if name in known else ""
    return AttributeError(f"{owner} has no attribute {name!r}{meant}")


def names_options(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function: the error for another library's option names the option to use."""
    options = inspect.signature(function).parameters
    known = OPTIONS[function.__name__]

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        for name in kwargs:
            if name not in options and name in known:
                raise TypeError(f"{function.__name__}() has no option {name!r}: {known[name]}")
        return function(*args, **kwargs)

    return call
