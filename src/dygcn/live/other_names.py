"""Names that other libraries have for what is done here: the error for one says the call that does it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_ADD = "live.update(add=[(a, b)]) adds edges"
_NODE = "a node comes with its first edge, live.update(add=[(a, b)]), or by live.set_features(ids, rows)"
_REMOVE = "live.update(remove=[(a, b)]) removes edges"
_REMOVE_NODES = "live.update(remove_nodes=[a]) removes nodes and their edges"
_NEAREST = "live.nearest(a, k=10) returns the nearest nodes, live.recommend(a, k=10) the likeliest new links"
_VECTOR = "live.vector(a), or live[a], returns the vector of a node"
_VECTORS = (
    "live.vectors() returns all vectors, in the order of live.ids(); live.vectors([a, b]) those of some nodes"
)
_COSINE = (
    "live.nearest(a, k=1, among=[b]) returns the cosine of two nodes, live.score(a, b) how likely a link is"
)
_SCORE = "live.score(a, b) returns how likely a link is, live.score(a, b, probability=True) its probability"
_FRAME = "live.to_pandas() returns a frame with a row for each node, and that has to_csv, to_parquet and more"
_OF_KIND = (
    'live.to_pandas().loc["item"] is the frame of one kind, live.vectors([("item", a)]) some of its vectors'
)
_SIMILAR = 'live.nearest(("item", a)) returns the nearest nodes of its own kind, kind="user" those of another'
_FIT = "dygcn.fit(events) returns an embedding that is fitted; live.update(events) lets it follow its graph"
_SAVE = "live.save(path) writes an embedding, dygcn.load(path) reads it"

ATTRIBUTES = {
    # networkx
    "add_edge": _ADD,
    "add_edges": _ADD,
    "add_edges_from": _ADD,
    "add_weighted_edges_from": 'live.update(add=rows, columns=("src", "dst", "weight")) adds such edges',
    "add_node": _NODE,
    "add_nodes_from": _NODE,
    "remove_edge": _REMOVE,
    "remove_edges": _REMOVE,
    "remove_edges_from": _REMOVE,
    "remove_node": _REMOVE_NODES,
    "remove_nodes_from": _REMOVE_NODES,
    "nodes": "live.ids() returns the ids of all nodes",
    "number_of_nodes": "len(live) says how many nodes there are",
    "number_of_edges": "live.edge_count says how many edges there are",
    "has_node": "a in live says whether a node is there",
    "has_edge": "b in live.neighbors(a) says whether an edge is there",
    "degree": "len(live.neighbors(a)) says how many neighbours a has",
    "neighbours": "live.neighbors(a) returns the nodes that a has an edge with",
    # gensim, and indexes of vectors
    "wv": _VECTORS,
    "to_keyed_vectors": "live.to_word2vec(path) writes a file that gensim loads",
    "most_similar": _NEAREST,
    "similar": _NEAREST,
    "kneighbors": _NEAREST,
    "knn": _NEAREST,
    "search": _NEAREST,
    "query": _NEAREST,
    "similarity": _COSINE,
    "cosine": _COSINE,
    "get_vector": _VECTOR,
    "get_embedding": _VECTOR,
    "encode": _VECTOR,
    "embed": _VECTOR,
    # implicit and LightFM
    "similar_items": _SIMILAR,
    "similar_users": _SIMILAR,
    "item_factors": _OF_KIND,
    "user_factors": _OF_KIND,
    "item_embeddings": _OF_KIND,
    "user_embeddings": _OF_KIND,
    "get_item_representations": _OF_KIND,
    "get_user_representations": _OF_KIND,
    "fit_partial": _FIT,
    "recalculate_user": _FIT,
    # scikit-learn and PyG
    "x_dict": _OF_KIND,
    "fit": _FIT,
    "fit_transform": f"{_FIT}; dygcn.sklearn.NodeEmbedder is a transformer for pipelines",
    "partial_fit": _FIT,
    "train": _FIT,
    "transform": f"{_VECTORS}; dygcn.sklearn.NodeEmbedder is a transformer for pipelines",
    "predict": _SCORE,
    "predict_proba": _SCORE,
    "embedding": _VECTORS,
    "embeddings": _VECTORS,
    "embedding_": _VECTORS,
    "weight": _VECTORS,
    "dim": "live.model.dim is the length of a vector",
    # pandas and numpy
    "to_csv": _FRAME,
    "to_parquet": _FRAME,
    "to_frame": _FRAME,
    "to_dataframe": _FRAME,
    "to_df": _FRAME,
    "values": _VECTORS,
    "numpy": _VECTORS,
    "to_numpy": _VECTORS,
    "shape": "len(live) says how many nodes there are, live.model.dim is the length of a vector",
    "keys": "live.ids() returns the ids of all nodes",
    "to_pickle": _SAVE,
    "dump": _SAVE,
    "load": _SAVE,
}
"""Of an embedding."""

_NO_CLASS = "dygcn.fit(events, dim=128) returns an embedding that is fitted, a dygcn.LiveEmbedding"
_READS = 'dygcn.fit("edges.csv", src="user", dst="item") reads CSV, Parquet and NDJSON itself'
NAMES = {
    "DyGCN": _NO_CLASS,
    "Dygcn": _NO_CLASS,
    "Node2Vec": _NO_CLASS,
    "train": _NO_CLASS,
    "embed": _NO_CLASS,
    "fit_transform": "dygcn.fit(events).vectors() returns all vectors; dygcn.sklearn.NodeEmbedder transforms",
    "cluster": "import dygcn.cluster, and dygcn.cluster.launch(folder, 4) divides a graph among four shards",
    "read_csv": _READS,
    "read_parquet": _READS,
    "from_pandas": "dygcn.fit(df, src=..., dst=...) takes a frame",
    "from_networkx": "dygcn.fit(G) takes a graph of networkx",
    "save": _SAVE,
    "NodeEmbedder": "dygcn.sklearn.NodeEmbedder is the transformer for scikit-learn",
}
"""Of the module `dygcn`."""

_DIM = "dim= is the length of the vectors"
_NODES = "leave it out, the nodes are those that have edges or features"
_HOW_MANY = dict.fromkeys(
    ("topn", "top_n", "top_k", "topk", "n", "N", "n_neighbors", "limit"), "k= is how many nodes"
)
OPTIONS = {
    "fit": {
        "dimensions": _DIM,
        "embedding_dim": _DIM,
        "n_components": _DIM,
        "vector_size": _DIM,
        "num_nodes": _NODES,
        "n_nodes": _NODES,
        "bipartite": 'kinds=("user", "item") tells the nodes of both columns apart',
        "user_col": "src= names the column of the first end",
        "item_col": "dst= names the column of the second end",
        "user_id": "src= names the column of the first end",
        "item_id": "dst= names the column of the second end",
        "item_features": "features= takes features of nodes",
        "user_features": "features= takes features of nodes",
        "source": "src= names the column of the first end",
        "target": "dst= names the column of the second end",
        "time": "t= names the column of the time",
        "timestamp": "t= names the column of the time",
        "edge_attr": "weight= names the weights of edges",
        "random_state": "seed= makes a fit repeatable",
        "verbose": "progress=False is silent",
    },
    "nearest": _HOW_MANY,
    "recommend": _HOW_MANY,
}
"""Of functions, by name."""


def no_attribute(owner: str, name: str, known: dict[str, str]) -> AttributeError:
    """Return the error for a name that is not there, with the call that is meant, where it is known."""
    meant = f"; {known[name]}" if name in known else ""
    return AttributeError(f"{owner} has no attribute {name!r}{meant}")


def names_options(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function say which option is meant by the name that another library has for it."""
    options = inspect.signature(function).parameters
    known = OPTIONS[function.__name__]

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        for name in kwargs:
            if name not in options and name in known:
                raise TypeError(f"{function.__name__}() has no option {name!r}: {known[name]}")
        return function(*args, **kwargs)

    return call
