"""What people type before they have read a page: thirty lines, written down before any of them was tried.

The names that a line may use: `pd`, `np`, `nx`, `torch`, `pickle`, `dygcn`; `G`, a networkx graph; `df`, a
frame with the columns user, item and time; `log`, a frame with the columns user_id, item_id and timestamp;
`edge_index`, a 2 x E array; `path`, a folder that does not exist yet; `live`, an embedding whose nodes are
strings ("a", "b", "u1", ...).
"""

from __future__ import annotations

from typing import NamedTuple


class Guess(NamedTuple):
    """One line, and who would type it."""

    who: str
    line: str


GUESSES = (
    Guess("data scientist", "dygcn.fit(G)"),
    Guess("data scientist", 'dygcn.fit(df, src="user", dst="item")'),
    Guess("data scientist", "dygcn.fit(log)"),
    Guess("data scientist", 'dygcn.fit(df, "user", "item")'),
    Guess("data scientist", "dygcn.DyGCN(dim=32).fit(G)"),
    Guess("data scientist", 'dygcn.read_csv("edges.csv")'),
    Guess("data scientist", "np.asarray(live)"),
    Guess("data scientist", "pickle.dumps(live)"),
    Guess("data scientist", "live.to_pandas()"),
    Guess("data scientist", 'live.to_csv("vectors.csv")'),
    Guess("data scientist", 'live[["a", "b"]]'),
    Guess("data scientist", 'live.save(path); dygcn.load(path)["a"]'),
    Guess("data scientist", 'live.transform(["a", "b"])'),
    Guess("data scientist", "live.fit_transform(G)"),
    Guess("data scientist", 'dygcn.datasets.load("hepth-collab")'),
    Guess("recommender engineer", 'live.recommend("u1")'),
    Guess("recommender engineer", 'live.most_similar("a", topn=3)'),
    Guess("recommender engineer", 'live.similarity("a", "b")'),
    Guess("recommender engineer", 'live.predict("u1", "i2")'),
    Guess("recommender engineer", 'live.get_vector("a")'),
    Guess("recommender engineer", "live.update(df)"),
    Guess("fraud analyst", 'live.add_edge("a", "b")'),
    Guess("fraud analyst", 'live.remove_node("a")'),
    Guess("fraud analyst", 'live.update(("a", "z"))'),
    Guess("fraud analyst", 'live.neighbors("a")'),
    Guess("fraud analyst", 'live.explain("a")'),
    Guess("fraud analyst", 'live.what_if(add=[("a", "b")])'),
    Guess("PyG researcher", "dygcn.fit(edge_index)"),
    Guess("PyG researcher", "dygcn.fit(torch.as_tensor(edge_index), num_nodes=6)"),
    Guess("PyG researcher", "live.embedding.weight"),
)
