import numpy as np
import pytest

from dygcn.errors import OptionError
from dygcn_lab.costs import graphs, updates
from dygcn_lab.costs.graphs import count_of, graph_events

RANDOM = ["power-law-2k-10k", "rmat-2k-10k", "steady-2k-10k"]


def pairs(name, seed=0):
    events = graph_events(name, seed)
    assert (events.op == 1).all()
    return np.stack((events.src.values, events.dst.values), axis=1)


@pytest.mark.parametrize("name", RANDOM)
def test_random_graphs_have_no_loops_no_doubles_and_their_size(name):
    found = pairs(name)
    assert len(found) == 10_000
    assert (found[:, 0] < found[:, 1]).all()
    assert len(np.unique(found, axis=0)) == len(found)
    assert found.min() >= 0
    assert found.max() < 2000


@pytest.mark.parametrize("name", RANDOM)
def test_a_seed_is_a_graph(name):
    np.testing.assert_array_equal(pairs(name), pairs(name))
    assert not np.array_equal(pairs(name), pairs(name, seed=1))


def degrees(nodes):
    found = pairs(f"steady-{nodes}-{10 * nodes}")
    return np.bincount(found.reshape(-1), minlength=nodes)


def test_steady_graphs_have_the_same_degrees_at_any_size():
    at = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99]
    small, large = (np.quantile(degrees(nodes), at) for nodes in (10_000, 40_000))
    np.testing.assert_allclose(small, large, rtol=0.1, atol=1)
    # A power law without bounds is another matter: its largest nodes grow with it.
    drawn = [pairs(f"power-law-{nodes}-{10 * nodes}") for nodes in (10_000, 40_000)]
    most = [np.bincount(found.reshape(-1)).max() for found in drawn]
    assert most[1] > 1.3 * most[0]


def test_a_graph_can_be_a_file_or_a_data_set(tmp_path):
    (tmp_path / "e.csv").write_text("src,dst\na,b\nb,c\n")
    assert len(graph_events(str(tmp_path / "e.csv"))) == 2
    assert len(graph_events("hepth-collab")) > 1000


def test_what_is_no_number_is_said():
    with pytest.raises(OptionError, match="'1g' is no number"):
        count_of("1g")
    with pytest.raises(OptionError, match="two nodes"):
        graph_events("rmat-1-5")


def test_a_very_large_graph_is_loaded_part_by_part(monkeypatch):
    for module in (graphs, updates):
        monkeypatch.setattr(module, "PART", 600)
    live, sample = updates.load_graph("steady-400-2000", width=8, orders=2)
    assert 2000 <= live.edge_count <= 2002
    assert len(sample) <= 600
    assert live.digest() == live.recompute().digest()
