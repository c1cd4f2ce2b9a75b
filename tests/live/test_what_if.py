"""Trials that leave nothing behind, explanations that add up, and distances that vectors moved."""

import copy
import dataclasses
import gc
import hashlib
import inspect
import threading

import numpy as np
import pytest

import dygcn
from dygcn.errors import OpenTrial, OptionError, UnknownNode
from dygcn.live import view

RANDOM = np.random.default_rng(3)
EDGES = sorted({(int(a), int(b)) for a, b in RANDOM.integers(0, 40, (120, 2)) if a < b})


@pytest.fixture
def live():
    return dygcn.fit(EDGES, dim=8)


def bytes_of(live, folder):
    live.save(folder)
    files = sorted(one for one in folder.rglob("*") if one.is_file())
    return [(one.name, hashlib.sha256(one.read_bytes()).hexdigest()) for one in files]


def test_a_trial_answers_as_the_changed_embedding_would(live, tmp_path):
    before = bytes_of(live, tmp_path / "before")
    with live.what_if(add=[(1, 99), (2, 99)], remove=[EDGES[0]]) as trial:
        vectors, ids = trial.vectors(), trial.ids().tolist()
        near, score = trial.nearest(99, 3), trial.score(99, [1, 2, 3])
        moved, edges = trial.changes[0].ids.tolist(), trial.edges()
        moved_vectors = trial.changes[0].vectors
    assert bytes_of(live, tmp_path / "after") == before
    assert live.version == 0
    change = live.update(add=[(1, 99), (2, 99)], remove=[EDGES[0]])
    assert ids == live.ids().tolist()
    assert np.array_equal(vectors, live.vectors())
    assert near == live.nearest(99, 3)
    assert np.array_equal(score, live.score(99, [1, 2, 3]))
    assert sorted(moved) == sorted(change.ids.tolist())
    assert np.array_equal(moved_vectors, live.vectors(moved))
    assert edges.equals(live.edges())


def test_vectors_that_were_read_before_a_trial_are_right_after_it(live):
    everything = live.vectors()
    near = live.nearest(5, 5)
    with live.what_if(add=[(5, 39), (5, 77)]) as trial:
        trial.nearest(5, 5)
    assert np.array_equal(live.vectors(), everything)
    assert live.nearest(5, 5) == near
    live.update(add=[(5, 39)])
    assert live.nearest(5, 5) == live.recompute().nearest(5, 5)


def test_nodes_can_be_removed_in_a_trial(live):
    digest = live.digest()
    with live.what_if(add=[(1, 99)], remove_nodes=[1]) as trial:
        assert 1 not in trial
        assert 99 not in trial
        assert len(trial.changes) == 2
    assert 1 in live
    assert live.digest() == digest
    with pytest.raises(UnknownNode), live.what_if(remove_nodes=[12345]):
        pass
    assert live.digest() == digest


def test_the_embedding_is_refused_inside_a_trial_and_the_trial_after_it(live):
    with live.what_if(add=[(1, 99)]) as trial:
        for use in (lambda: live[1], lambda: live.update(add=[(1, 2)]), lambda: live.save("x"), live.digest):
            with pytest.raises(OpenTrial, match="ask the trial"):
                use()
        with trial.what_if(add=[(99, 100)]) as inner:
            assert 100 in inner
        assert 100 not in trial
    with pytest.raises(OpenTrial, match="has ended"):
        trial.vector(1)
    with pytest.raises(OpenTrial, match="has ended"):
        _ = trial.changes[0].ids


def test_a_trial_that_is_asked_outside_of_a_block_says_how(live):
    digest = live.digest()
    block = live.what_if(add=[(1, 99)])
    with pytest.raises(
        AttributeError, match=r"use it as: with live.what_if\(...\) as trial: trial.recommend"
    ):
        block.recommend(1)
    assert "with live.what_if(...) as trial:" in repr(block)
    assert not hasattr(block, "_repr_html_")
    assert inspect.signature(live.what_if).return_annotation == "TrialBlock[WhatIf]"
    assert live.digest() == digest
    with block as trial:
        assert 99 in trial
    assert live.digest() == digest


def test_nothing_is_read_before_the_block(live):
    read = []
    block = live.what_if(add=(read.append(pair) or pair for pair in [(1, 99)]))
    assert read == []
    live.update(add=[(1, 98)])
    with block as trial:
        assert {98, 99} <= set(trial.ids().tolist())


def test_a_block_that_is_entered_and_dropped_ends(live):
    digest = live.digest()
    block = live.what_if(add=[(1, 99)])
    block.__enter__()
    with pytest.raises(OpenTrial):
        live.digest()
    del block  # as after an interrupt between entering and the first line of the block
    gc.collect()
    assert live.digest() == digest


def test_an_exception_inside_a_trial_leaves_nothing(live):
    digest = live.digest()
    with pytest.raises(ZeroDivisionError), live.what_if(add=[(1, 99)]):
        raise ZeroDivisionError
    assert live.digest() == digest
    with pytest.raises(dygcn.EventError), live.what_if([(1, 2, 0.0, 7)]):
        pass
    live.update(add=[(1, 99)])
    assert live.digest() == live.recompute().digest()


def test_a_trial_is_exact_with_a_tolerance_and_announces_nothing(monkeypatch):
    monkeypatch.setenv("DYGCN_HEAVY_FROM", "8")
    live, twin = (dygcn.fit([(0, spoke) for spoke in range(1, 40)], dim=8, features="hashed") for _ in "ab")
    live.publish(tolerance=0.5)
    for one in (live, twin):
        with one.what_if(add=[(0, 99)]) as trial:
            found = sorted(trial.changes[0].ids.tolist()), trial.digest(), trial[1].tobytes()
        if one is live:
            expected = found
    assert found == expected
    assert len(live.publish()) == 0
    assert live.update(add=[(0, 40)]).ids.tolist() == [0, 40]


def test_a_trial_of_a_durable_embedding_is_neither_logged_nor_fed(tmp_path):
    with dygcn.open(tmp_path / "x", dygcn.fit(EDGES, dim=8)) as live:
        live.update(add=[(1, 50)])
        before = live.digest(), live.sequence, live.version, live.feed.cursor, live._log.last
        live.nearest(1)
        with live.what_if(add=[(1, 99)], remove=[(1, 50)]) as trial:
            assert 99 in trial
        assert (live.digest(), live.sequence, live.version, live.feed.cursor, live._log.last) == before
        assert len(live.feed.since(live.feed.cursor, 10).rows.ids) == 0
    with dygcn.open(tmp_path / "x") as again:
        assert again.digest() == before[0]


@pytest.mark.parametrize(
    "use",
    [
        lambda live: live.update(add=[(5, 6)]),
        lambda live: live.snapshot(),
        lambda live: live.close(),
        lambda live: live.update(remove_nodes=[1]),
        lambda live: live._forget_stream("clicks"),
        lambda live: live.feed.begin_epoch(),
    ],
)
def test_nothing_of_a_trial_comes_to_disk(tmp_path, use):
    with dygcn.open(tmp_path / "x", dygcn.fit(EDGES, dim=8)) as live:
        live.update(add=[(1, 50)], stream="clicks", offset=3)
        before = live.digest(), live.sequence, live._log.last, live._ahead.saved_at
        with live.what_if(add=[(1, 99)]), pytest.raises(OpenTrial, match="leave its block"):
            use(live)
        assert (live.digest(), live.sequence, live._log.last, live._ahead.saved_at) == before
        assert live._log.failure is None
        live.update(add=[(7, 8)], stream="clicks", offset=4)
    with dygcn.open(tmp_path / "x") as again:
        assert 99 not in again
        assert 50 in again


def test_trials_beside_a_thread_that_writes(tmp_path):
    """Events are screened outside of the lock: what a trial does must not be there meanwhile."""
    with dygcn.open(tmp_path / "x", dygcn.fit(EDGES, dim=8)) as live:
        twin = dygcn.start(live.model)
        twin.update(add=EDGES)
        steps = [[tuple(map(int, pair)) for pair in RANDOM.integers(0, 60, (3, 2))] for _ in range(150)]
        failures = []

        def write():
            try:
                for edges in steps:
                    live.update(add=edges)
            except Exception as error:  # shown by the assertion below
                failures.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        while writer.is_alive():
            with live.what_if(add=[(1, int(RANDOM.integers(60, 90))), (2, 3)], remove_nodes=[1]) as trial:
                assert 1 not in trial
        writer.join()
        for edges in steps:
            twin.update(add=edges)
        assert not failures
        assert live.digest() == twin.digest() == live.recompute().digest()


# ---- explanations ------------------------------------------------------------------------------------------


def test_shares_add_up(live):
    for node in live.ids().tolist():
        why = live.explain(node, shares=True)
        found = why.shares
        assert np.array_equal(found.sum_shares.sum(axis=1), found.sums)
        total = found.own_vector + found.vector_shares.sum(axis=(0, 1)) + found.rounding_vector
        assert np.allclose(total, live[node], atol=1e-6)
        assert set(why.neighbors.tolist()) == set(live.neighbors(node).tolist())
        assert why.to_pandas()["share"].tolist() == why.by_neighbor.tolist()
        assert repr(why).startswith(f"Explanation({node!r}: itself ")


def random_events(random, count):
    pairs = random.integers(0, 45, (count, 2)).tolist()
    return [(a, b, 1 if random.random() < 0.6 else -1) for a, b in pairs]


def check_movement(live, node, events):
    """Movements of events add up to the movement, and are those of updates one after the other."""
    found = live.explain_change(node, events, columns=("src", "dst", "op"))
    twin, path = copy.deepcopy(live), []
    for event in [None, *events]:
        if event is not None:
            twin.update([event], columns=("src", "dst", "op"))
        path.append(twin[node].astype(np.float64) if node in twin else np.zeros(8))
    assert np.array_equal(found.by_event, np.diff(path, axis=0))
    assert np.array_equal(found.before, path[0])
    twin = copy.deepcopy(live)
    twin.update(events, columns=("src", "dst", "op"))
    assert np.array_equal(found.after, twin[node] if node in twin else np.zeros(8))
    total = found.before + found.waiting + found.by_event.sum(axis=0)
    assert np.allclose(total, found.after, rtol=0, atol=1e-14)
    length = float(np.sum((found.after.astype(np.float64) - found.before) ** 2))
    assert found.projections.sum() == pytest.approx(length, abs=1e-12)


def test_movements_of_events_add_up(live):
    random, digest = np.random.default_rng(5), live.digest()
    for node in (1, 7, 20, 39, 44):
        check_movement(live, node, random_events(random, 12))
    assert live.digest() == digest
    assert live.version == 0


def test_which_events_move_a_node_is_asked_before_they_happen(tmp_path):
    with dygcn.open(tmp_path / "x", dygcn.fit(EDGES, dim=8)) as live:
        before = live.digest(), live.sequence, live._log.last
        found = live.explain_change(1, add=[(1, 99)], remove=[(50, 51)])
        assert found.by_event.any(axis=1).tolist() == [False, True]
        assert (live.digest(), live.sequence, live._log.last) == before
        live.update(add=[(1, 99)], remove=[(50, 51)])
        assert np.array_equal(found.after, live[1])
    with pytest.raises(OptionError, match="at most 1000"):
        dygcn.fit(EDGES, dim=8).explain_change(1, add=[(1, 2)] * 1001)


def test_a_movement_of_the_wrong_event_would_be_noticed(live, monkeypatch):
    right = view.explain_change

    def shifted(*arguments):
        found = right(*arguments)
        return dataclasses.replace(found, by_event=np.roll(found.by_event, 1, axis=0))

    monkeypatch.setattr(view, "explain_change", shifted)
    with pytest.raises(AssertionError):
        test_movements_of_events_add_up(live)


def test_a_change_that_is_explained_is_one_line_and_a_frame(live):
    pytest.importorskip("pandas")
    found = live.explain_change(1, add=[(1, 99), (60, 61)], remove=[EDGES[0]])
    assert "\n" not in repr(found)
    moved = int(found.by_event.any(axis=1).sum())
    assert repr(found) == f"ExplainedChange(1: moved {found.distance:.3f} by {moved} of 3 events)"
    frame = found.to_pandas()
    assert frame.index.name == "event"
    assert frame[["src", "dst", "op"]].to_numpy().tolist() == [[*EDGES[0], -1], [1, 99, 1], [60, 61, 1]]
    assert frame.share.sum() == pytest.approx(found.distance**2)
    assert frame.distance.tolist() == np.linalg.norm(found.by_event, axis=1).tolist()
    assert frame.distance[2] == 0


# ---- distances ---------------------------------------------------------------------------------------------


def test_distances_are_those_between_the_vectors_before_and_after(live):
    live.track(distances=True)
    changes = []
    for step in range(20):
        before = {node: live[node] for node in live}
        edges = [tuple(map(int, pair)) for pair in RANDOM.integers(0, 60, (3, 2))]
        add, remove = edges[:2], [EDGES[step]]
        change = live.update(add=add, remove=remove)
        expected = [
            np.linalg.norm(live[node] - before[node]) if node in before else np.nan
            for node in change.ids.tolist()
        ]
        changes.append((change, expected))
    for change, expected in changes:  # also after later updates
        assert np.allclose(change.distance, expected, atol=1e-6, equal_nan=True)


def test_distances_must_be_asked_for(live):
    change = live.update(add=[(1, 39)])
    with pytest.raises(OptionError, match=r"track\(distances=True\) before the update"):
        _ = change.distance
    live.track(distances=True)
    assert np.isfinite(live.update(add=[(2, 39)]).distance).all()
    live.track(distances=False)
    with pytest.raises(OptionError):
        _ = live.update(add=[(3, 39)]).distance


def test_a_node_that_comes_back_was_not_there_before(live):
    live.track(distances=True)
    live.update(add=[(1, 99)])
    live.update(remove=[(1, 99)])
    change = live.update(add=[(1, 99)])
    found = dict(zip(change.ids.tolist(), change.distance.tolist(), strict=True))
    assert np.isnan(found[99])
    assert found[1] > 0


@pytest.mark.parametrize("tracked", [False, True])
def test_a_change_is_a_frame_and_a_table(tracked):
    pytest.importorskip("pandas")
    live = dygcn.fit([("a<b", "bob"), ("bob", "cat"), ("cat", "dan")], dim=8)
    if tracked:
        live.track(distances=True)
    change = live.update(add=[("a<b", "cat"), ("dan", "eve")])
    frame, shown = change.to_pandas(), change._repr_html_()
    assert frame.index.tolist() == change.ids.tolist()
    assert frame.index.name == "id"
    assert frame.columns.tolist() == ["order", "distance"][: 1 + tracked]
    assert frame.order.tolist() == change.orders.tolist()
    assert "<td>a&lt;b</td>" in shown
    assert ("distance" in shown) == ("new" in shown) == tracked
    if tracked:
        assert np.array_equal(frame.distance, change.distance, equal_nan=True)
        assert shown.index("cat") < shown.index("eve")  # a new node comes last
    live.update(add=[("a<b", "dan")])
    assert change._repr_html_() == shown


def test_a_table_of_many_moves_is_short_and_one_of_a_trial_is_there_after_it(live):
    live.track(distances=True)
    change = live.update(add=[(1, 100 + k) for k in range(30)])
    assert change._repr_html_().count("<tr>") == 11
    assert f"{len(change) - 10} more" in change._repr_html_()
    with live.what_if(add=[(1, 999)]) as trial:
        pass
    assert trial.changes[0]._repr_html_() == f"<code>{trial.changes[0]!r}</code>"


def test_a_durable_embedding_tracks_distances(tmp_path):
    with dygcn.open(tmp_path / "x", dygcn.fit(EDGES, dim=8)) as live:
        live.track(distances=True)
        before = live[1]
        change = live.update(add=[(1, 50)])
        found = dict(zip(change.ids.tolist(), change.distance.tolist(), strict=True))
        assert found[1] == pytest.approx(np.linalg.norm(live[1] - before), abs=1e-6)
