"""On all of as-733, with its outages: however the same graph is reached, the digest is the same."""

import dataclasses

import numpy as np
import pyarrow.parquet as pq
import pytest

import dygcn
from tests.live.test_mutants import signed_sum_decides_who_is_touched

FEW = 12_000  # events that come one by one: 46 days with 3,000 removals; the seeded bug shows within 8,000


def sizes(most):
    return pytest.mark.parametrize("count", [FEW, pytest.param(most, marks=pytest.mark.slow)])


@pytest.fixture(scope="module")
def events(data):
    table = pq.read_table(data / "as-733" / "edges.parquet")
    return {name: table.column(name).to_numpy().astype(np.int64) for name in ("src", "dst", "t", "op")}


@pytest.fixture(scope="module")
def model(events):
    early = events["t"] <= 10
    return dygcn.fit({name: column[early] for name, column in events.items()}, dim=32, width=64).model


def rows(events, start, stop):
    return {name: column[start:stop] for name, column in events.items()}


def daily(events):
    cuts = np.flatnonzero(np.diff(events["t"])) + 1
    return [rows(events, a, b) for a, b in zip([0, *cuts], [*cuts, len(events["t"])], strict=True)]


@pytest.fixture(scope="module")
def by_day(events, model):
    live = dygcn.start(model)
    for batch in daily(events):
        live.update(batch)
    return live


@pytest.fixture(scope="module")
def final_edges(events):
    state = {}
    for a, b, op in zip(events["src"].tolist(), events["dst"].tolist(), events["op"].tolist(), strict=True):
        if op > 0:
            state[a, b] = None
        else:
            del state[a, b]
    return np.array(list(state))


def test_batches_of_1000(events, model, by_day):
    live = dygcn.start(model)
    for start in range(0, len(events["t"]), 1000):
        live.update(rows(events, start, start + 1000))
    assert live.digest() == by_day.digest()


def test_one_batch(events, model, by_day):
    live = dygcn.start(model)
    live.update(events)
    assert live.digest() == by_day.digest()


@sizes(10**6)  # all of them
def test_one_event_at_a_time(events, model, count):
    one, whole = dygcn.start(model), dygcn.start(model)
    for i in range(min(count, len(events["t"]))):
        one.update(rows(events, i, i + 1))
    whole.update(rows(events, 0, count))
    assert one.digest() == whole.digest()


def test_final_graph_in_random_order(final_edges, model, by_day):
    random = np.random.default_rng(0)
    shuffled = final_edges[random.permutation(len(final_edges))]
    flipped = np.where(random.random(len(shuffled))[:, None] < 0.5, shuffled, shuffled[:, ::-1])
    live = dygcn.start(model)
    for start in range(0, len(flipped), 777):
        live.update(add=flipped[start : start + 777])
    assert live.digest() == by_day.digest()


def test_recompute(by_day):
    assert by_day.recompute().digest() == by_day.digest()


def test_save_and_load(by_day, tmp_path):
    by_day.save(tmp_path / "as.dygcn")
    assert dygcn.load(tmp_path / "as.dygcn").digest() == by_day.digest()


def test_add_then_remove_10000_random_edges(final_edges, by_day):
    before = by_day.digest()
    random = np.random.default_rng(1)
    there = set(map(tuple, final_edges.tolist()))
    pairs = np.sort(random.integers(0, 9000, (12_000, 2)), axis=1)
    extra = [
        pair for pair in dict.fromkeys(map(tuple, pairs.tolist())) if pair not in there and pair[0] != pair[1]
    ]
    extra = extra[:10_000]
    assert len(extra) == 10_000
    for start in range(0, len(extra), 500):
        by_day.update(add=extra[start : start + 500])
    assert by_day.digest() != before
    random.shuffle(extra)
    for start in range(0, len(extra), 900):
        by_day.update(remove=extra[start : start + 900])
    assert by_day.digest() == before


def test_removing_every_edge_leaves_the_empty_digest(final_edges, by_day, model):
    copy = by_day.recompute()
    copy.update(remove=final_edges)
    assert len(copy) == 0
    assert copy.digest() == dygcn.start(model).digest()
    assert all(not sums.narrow.any() and not sums.wide.any() for sums in copy._state.rule.sums)
    assert all(not sums.degree.any() for sums in copy._state.rule.sums)


@sizes(40_000)
def test_memory_does_not_see_the_batches(events, model, count):
    remembering = dataclasses.replace(model, half_life=3.0)
    digests = set()
    few = rows(events, 0, count)
    size = len(few["t"])
    for cut in ("day", 1, 997, size // 2):
        live = dygcn.start(remembering)
        if cut == "day":
            batches = daily(few)
        else:
            batches = [rows(few, start, start + cut) for start in range(0, size, cut)]
        for batch in batches:
            live.update(batch)
        digests.add(live.digest())
    digests.add(live.recompute().digest())
    assert len(digests) == 1


def test_memory_does_not_see_the_order_within_a_day(events, model):
    remembering = dataclasses.replace(model, half_life=3.0)
    random = np.random.default_rng(2)
    digests = set()
    for shuffle in (False, True, True):
        live = dygcn.start(remembering)
        for batch in daily(rows(events, 0, 60_000)):
            order = random.permutation(len(batch["t"])) if shuffle else np.arange(len(batch["t"]))
            live.update({name: column[order] for name, column in batch.items()})
        digests.add(live.digest())
    assert len(digests) == 1


def test_a_seeded_bug_changes_the_digest(events, model, monkeypatch):
    """The mutant of this file: the touched set is inferred from a signed sum, as in the authors' code."""
    signed_sum_decides_who_is_touched(monkeypatch)
    digests = set()
    for cut in (1, 1000):
        live = dygcn.start(model)
        for start in range(0, 8000, cut):
            live.update(rows(events, start, start + cut))
        digests.add(live.digest())
    assert len(digests) == 2
