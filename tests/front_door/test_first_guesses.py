"""What became of thirty first guesses: each works, or fails with an error that names a call which does."""

import pickle

import numpy as np
import pytest

import dygcn
from dygcn.live.other_names import ATTRIBUTES, NAMES, OPTIONS
from tests.front_door.first_guesses import GUESSES

WORKS, NAMED, NEITHER = "works", "error names the call", "neither"
EDGES = [("a", "b"), ("b", "c"), ("c", "d"), ("u1", "i1"), ("u2", "i1"), ("u2", "i2")]
VECTORS = "live.vectors() returns all vectors"

# By line: what happened when it was first tried; for what fails today, a part of the error, and the call that
# it names, which must work.
OUTCOMES = {
    "dygcn.fit(G)": (WORKS,),
    'dygcn.fit(df, src="user", dst="item")': (WORKS,),
    "dygcn.fit(log)": (
        NAMED,
        'src="user_id", dst="item_id", t="timestamp"',
        'dygcn.fit(log, src="user_id", dst="item_id", t="timestamp")',
    ),
    'dygcn.fit(df, "user", "item")': (
        NAMED,
        "fit(df, src='user', dst='item')",
        'dygcn.fit(df, src="user", dst="item")',
    ),
    "dygcn.DyGCN(dim=32).fit(G)": (NEITHER, "dygcn.fit(events, dim=128)", "dygcn.fit(G, dim=32)"),
    'dygcn.read_csv("edges.csv")': (
        NEITHER,
        'dygcn.fit("edges.csv", src="user", dst="item")',
        'df.to_csv(path + ".csv"); dygcn.fit(path + ".csv", src="user", dst="item")',
    ),
    "np.asarray(live)": (NAMED, "live.vectors()", "live.vectors()"),
    "pickle.dumps(live)": (NAMED, "live.save(path)", "live.save(path); dygcn.load(path)"),
    "live.to_pandas()": (WORKS,),
    'live.to_csv("vectors.csv")': (NEITHER, "live.to_pandas()", 'live.to_pandas().to_csv(path + ".csv")'),
    'live[["a", "b"]]': (NEITHER,),
    'live.save(path); dygcn.load(path)["a"]': (WORKS,),
    'live.transform(["a", "b"])': (NEITHER, "live.vectors([a, b])", 'live.vectors(["a", "b"])'),
    "live.fit_transform(G)": (NEITHER, "dygcn.fit(events)", "dygcn.fit(G).vectors()"),
    'dygcn.datasets.load("hepth-collab")': (NEITHER,),
    'live.recommend("u1")': (WORKS,),
    'live.most_similar("a", topn=3)': (NEITHER, "live.nearest(a, k=10)", 'live.nearest("a", k=10)'),
    'live.similarity("a", "b")': (
        NEITHER,
        "live.nearest(a, k=1, among=[b])",
        'live.nearest("a", k=1, among=["b"])',
    ),
    'live.predict("u1", "i2")': (NEITHER, "live.score(a, b)", 'live.score("u1", "i2")'),
    'live.get_vector("a")': (NEITHER, "live.vector(a), or live[a]", 'live.vector("a"), live["a"]'),
    "live.update(df)": (
        NEITHER,
        'src="user", dst="item", t="time"',
        'live.update(df, src="user", dst="item", t="time")',
    ),
    'live.add_edge("a", "b")': (NEITHER, "live.update(add=[(a, b)])", 'live.update(add=[("a", "b")])'),
    'live.remove_node("a")': (NEITHER, "live.update(remove_nodes=[a])", 'live.update(remove_nodes=["a"])'),
    'live.update(("a", "z"))': (NEITHER, "a list of one: [('a', 'z')]", "live.update([('a', 'z')])"),
    'live.neighbors("a")': (WORKS,),
    'live.explain("a")': (WORKS,),
    'live.what_if(add=[("a", "b")])': (WORKS,),
    "dygcn.fit(edge_index)": (
        NAMED,
        'columns=("src", "dst")',
        'dygcn.fit(edge_index, columns=("src", "dst"))',
    ),
    "dygcn.fit(torch.as_tensor(edge_index), num_nodes=6)": (
        NEITHER,
        "'num_nodes': leave it out",
        'dygcn.fit(torch.as_tensor(edge_index), columns=("src", "dst"))',
    ),
    "live.embedding.weight": (NEITHER, VECTORS, "live.vectors()"),
}


@pytest.fixture
def names(tmp_path):
    pd, nx = map(pytest.importorskip, ("pandas", "networkx"))
    users, items = ["u1", "u2", "u3", "u1"], ["i1", "i2", "i3", "i3"]
    return {
        "pd": pd,
        "np": np,
        "nx": nx,
        "pickle": pickle,
        "dygcn": dygcn,
        "G": nx.karate_club_graph(),
        "df": pd.DataFrame({"user": users, "item": items, "time": [1, 2, 3, 4]}),
        "log": pd.DataFrame({"user_id": users, "item_id": items, "timestamp": [1, 2, 3, 4]}),
        "edge_index": np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]),
        "path": str(tmp_path / "folder"),
        "live": dygcn.fit(EDGES, dim=8),
    }


def run(line, names):
    """Run a line, and return the value of its last statement."""
    *before, last = line.split("; ")
    exec("; ".join(before), names)
    return eval(last, names)


@pytest.mark.parametrize("line", [guess.line for guess in GUESSES])
def test_a_first_guess_works_or_the_error_names_the_call(line, names):
    _, *failure = OUTCOMES[line]
    if "torch" in line:
        names["torch"] = pytest.importorskip("torch")
    if not failure:
        assert run(line, names) is not None
        return
    text, call = failure
    with pytest.raises((AttributeError, TypeError, dygcn.DygcnError)) as caught:
        run(line, names)
    assert text in str(caught.value)
    assert len(str(caught.value)) <= 500
    run(call, names)


def test_the_thirty_are_those_that_were_written_down():
    assert [guess.line for guess in GUESSES] == list(OUTCOMES)
    before = [outcome[0] for outcome in OUTCOMES.values()]
    assert [before.count(kind) for kind in (WORKS, NAMED, NEITHER)] == [8, 5, 17]


def test_a_list_of_ids_in_brackets_is_as_vectors_of_them(names):
    live = names["live"]
    for ids in (["b", "a"], np.array(["b", "a"])):
        assert np.array_equal(live[ids], live.vectors(["b", "a"]))
    with pytest.raises(dygcn.UnknownNode, match="'z'"):
        live[["a", "z"]]


def test_a_name_that_is_there_is_never_explained_away(names):
    live = names["live"]
    assert [name for name in ATTRIBUTES if name in dir(live)] == []
    assert [name for name in NAMES if name in dir(dygcn)] == []
    for name in ATTRIBUTES:
        assert not hasattr(live, name)
    with pytest.raises(AttributeError, match=r"^LiveEmbedding has no attribute 'magic'$"):
        _ = live.magic
    with pytest.raises(TypeError, match="unexpected keyword argument 'magic'"):
        dygcn.fit(EDGES, magic=1)
    assert "num_nodes" in OPTIONS["fit"]
