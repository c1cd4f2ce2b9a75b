import math

import numpy as np
import pytest

from dygcn.errors import DatasetError, MissingExtra
from dygcn_lab.costs import crossover
from dygcn_lab.costs.crossover import batch_sizes, crossing, measure_crossovers
from dygcn_lab.costs.graphs import graph_events
from dygcn_lab.costs.updates import live_of

SIZES = [1, 10, 100, 1000]


@pytest.mark.parametrize("power", [0.3, 1.0, 1.7])
@pytest.mark.parametrize("at", [2.0, 55.5, 100.0, 999.0])
def test_a_power_law_is_met_where_it_is(power, at):
    ours = [7.0 * size**power for size in SIZES]
    assert crossing(SIZES, ours, 7.0 * at**power) == pytest.approx(at, rel=1e-3)


def test_never_is_never_and_always_is_the_least_batch():
    ours = [1.0, 2.0, 8.0, 90.0]
    assert crossing(SIZES, ours, 90.1) is None
    assert crossing(SIZES, ours, math.inf) is None
    assert crossing(SIZES, ours, 90.0) == 1000
    assert crossing(SIZES, ours, 1.0) == crossing(SIZES, ours, 0.5) == 1


def test_the_first_crossing_counts_where_times_are_not_rising():
    assert crossing(SIZES, [1.0, 10.0, 5.0, 100.0], 8.0) < 10


def test_sizes_stop_at_half_of_the_edges():
    assert batch_sizes(20_000) == [1, 10, 100, 1000, 10_000]
    assert batch_sizes(19_998) == [1, 10, 100, 1000, 9999]
    assert batch_sizes(3) == [1]


@pytest.fixture(scope="module")
def measured():
    result = []
    found = measure_crossovers(
        ["power-law-500-2k"],
        width=16,
        dim=8,
        sizes=(100, 10),
        repeats=1,
        notify=lambda *step: result.append(step),
    )
    return found, result


def test_a_measurement_holds_what_the_page_needs(measured):
    found, result = measured
    (graph,) = found["graphs"]
    assert [batch["events"] for batch in graph["batches"]] == [10, 100]
    assert all(batch["update_and_vectors_us"] > batch["update_us"] > 0 for batch in graph["batches"])
    names = [rival["name"] for rival in graph["rivals"]]
    if not found["notes"]:
        assert names == ["recompute in place", "Cleora rerun", "Cleora rerun, its graph ready", "GCN forward"]
        assert graph["rivals"][1]["state_us"] >= graph["rivals"][2]["state_us"]
    assert graph["rivals"][0]["vectors_us"] > graph["rivals"][0]["state_us"]
    for rival in graph["rivals"]:
        ours = [batch["update_us"] for batch in graph["batches"]]
        assert rival["cheaper_from_batch"] == crossing([10, 100], ours, rival["state_us"])
    assert "power-law-500-2k: recomputing" in [what for _, _, what in result]
    assert [done for done, _, _ in result] == sorted(done for done, _, _ in result)


def test_a_rival_that_is_not_installed_is_left_out_with_what_to_install(monkeypatch):
    def missing(*_):
        raise MissingExtra('pycleora is not installed. Run: pip install "dygcn[evidence]"')

    monkeypatch.setattr(crossover, "cleora", missing)
    monkeypatch.setattr(crossover, "gcn", lambda *_: [crossover.Rival("GCN forward", 1.0, 1.0)])
    found, notes = crossover.others(np.array([[0, 1]]), 4, 2, 1, lambda _: None)
    assert [rival.name for rival in found] == ["GCN forward"]
    assert notes == ['left out: Cleora rerun. pycleora is not installed. Run: pip install "dygcn[evidence]"']


def test_a_data_set_that_is_not_there_is_left_out_unless_it_was_named(monkeypatch):
    def nothing(name, seed=0):
        raise DatasetError(f"{name} was not found")

    monkeypatch.setattr(crossover, "graph_events", nothing)
    found = measure_crossovers()
    assert found["graphs"] == []
    assert found["notes"][0] == "left out: arxiv-coauthor. arxiv-coauthor was not found"
    with pytest.raises(DatasetError):
        measure_crossovers(["arxiv-coauthor"])


def test_the_rival_of_our_own_changes_nothing():
    live = live_of(graph_events("power-law-500-2k"), width=16, dim=8)
    before = live.digest()
    crossover.recompute(live, 1)
    assert live.digest() == before
