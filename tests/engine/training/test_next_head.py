"""The score of what comes next: lists stand for everybody, weights are those of the full softmax."""

import numpy as np
import pytest

from dygcn.engine.events import read_events, rows_of
from dygcn.engine.history import EventHistory
from dygcn.engine.history.columns import NAMES, RAW
from dygcn.engine.models.links import NextHead, next_columns
from dygcn.engine.training import next_head
from dygcn.engine.training.logits import list_loss, softmax
from dygcn.engine.training.next_head import draw_lists, fit_next
from tests.seeded import assert_noticed


def events(count=1200, nodes=60, seed=0, repeats=0.7):
    """People who go back to what they had, or take what is popular now."""
    random = np.random.default_rng(seed)
    src, dst, had = random.integers(0, nodes, count), np.empty(count, np.int64), {}
    for i, u in enumerate(src.tolist()):
        own = had.setdefault(u, [])
        again = own and random.random() < repeats
        dst[i] = own[-1] if again else 100 + int(nodes * random.random() ** 3)
        own.append(dst[i])
    return read_events({"src": src, "dst": dst, "t": np.arange(count, dtype=float)})


def lists_of(batch, count=500, seed=0):
    history, random = EventHistory("int64", 1200.0), np.random.default_rng(seed)
    return draw_lists(history, batch, len(batch) // 2, count, random)


def everybody(batch):
    """Return the ids that have an event, in the order of their numbers in a history."""
    history = EventHistory("int64", 1200.0)
    history.numbered(batch)
    return history.names.values


def test_lists_have_the_columns_of_their_moment():
    batch = events()
    lists = lists_of(batch, 50)
    for row, event in enumerate(lists.event.tolist()):
        history = EventHistory("int64", 1200.0)
        history.apply(rows_of(batch, slice(0, event)))
        there = lists.candidates[row] >= 0
        asker = int(history.find([batch.src.values[event]])[0])
        names = everybody(batch)[lists.candidates[row, there]]
        wanted = history.columns(asker, history.find(names.tolist()), float(batch.t[event]))
        np.testing.assert_array_equal(lists.raw[row, there], wanted)
        assert names[0] == batch.dst.values[event]
        assert batch.src.values[event] not in names
        assert len(set(names.tolist())) == len(names)  # nobody twice
        assert np.isinf(lists.log_weight[row, ~there]).all()


def test_the_history_that_lists_were_drawn_from_has_all_events():
    batch, whole, drawn = events(), EventHistory("int64", 1200.0), EventHistory("int64", 1200.0)
    draw_lists(drawn, batch, len(batch) // 2, 40, np.random.default_rng(0))
    whole.apply(batch)
    assert drawn.digest() == whole.digest()


def hunt_weights(seed):
    """Every list stands for everybody that can be a candidate: weights add up to the pool but the asker."""
    batch = events(seed=seed, nodes=400)
    lists = lists_of(batch, 100, seed)
    np.testing.assert_allclose(np.exp(lists.log_weight).sum(axis=1), len(everybody(batch)) - 1)


@pytest.mark.parametrize("seed", range(3))
def test_weights_add_up_to_everybody(seed):
    hunt_weights(seed)


def test_a_hub_is_looked_at_no_further_than_its_last_partners(monkeypatch):
    """Partners from before are among the rest, and the weights still add up."""
    monkeypatch.setattr(next_head, "_LOOKED_AT", 2)
    asked = []
    answers_of = EventHistory.answers_of

    def noted(self, asker, most=1 << 30):
        asked.append(most)
        return answers_of(self, asker, most)

    monkeypatch.setattr(EventHistory, "answers_of", noted)
    hunt_weights(0)
    assert max(asked) == 2


def test_loops_are_no_lists():
    random = np.random.default_rng(0)
    src, dst = random.integers(0, 30, (2, 600))
    dst[::3] = src[::3]
    batch = read_events({"src": src, "dst": dst, "t": np.arange(600, dtype=float)})
    lists = lists_of(batch)
    assert (src[lists.event] != dst[lists.event]).all()
    assert len(lists.event) == (src[300:] != dst[300:]).sum()


def test_lists_learn_what_everybody_would(monkeypatch):
    """A softmax over weighed lists is near to the softmax over all candidates."""
    batch = events(3000, nodes=150)
    few = lists_of(batch, 700)
    for name in ("FORMER", "RECENT", "OTHERS"):
        monkeypatch.setattr(next_head, name, 10_000)
    monkeypatch.setattr(next_head, "_others", lambda taken, count, _: np.flatnonzero(~taken))
    whole = whole_lists(batch, few.event)
    head = fit_next(few, 3000.0)
    low, high = np.array(head.low), np.array(head.high)
    columns, weight = whole
    best = list_loss(columns.clip(low, high), weight, softmax(columns.clip(low, high), weight))
    ours = list_loss(columns.clip(low, high), weight, np.array(head.weights))
    nothing = list_loss(columns, weight, np.zeros(len(NAMES)))
    assert best <= ours < best + 0.1 * (nothing - best)


def whole_lists(batch, chosen):
    """Return columns of everybody, for each event."""
    history, played, columns = EventHistory("int64", 1200.0), 0, []
    for event in chosen.tolist():
        history.apply(rows_of(batch, slice(played, event)))
        played, names = event, everybody(batch)
        answer = np.flatnonzero(names == batch.dst.values[event])
        names = names[np.concatenate((answer, np.setdiff1d(np.arange(len(names)), answer)))]
        asker = int(history.find([batch.src.values[event]])[0])
        raw = history.columns(asker, history.find(names.tolist()), float(batch.t[event]))
        columns.append(next_columns(raw))
    return np.stack(columns), np.zeros((len(chosen), len(everybody(batch))))


def test_too_few_lists_teach_nothing():
    assert fit_next(lists_of(events(100), 40), 100.0) is None


def test_products_are_looked_at_only_where_they_help():
    batch = events(3000)
    lists = lists_of(batch, 900)
    random, held = np.random.default_rng(0), np.arange(900) >= 300
    noise = random.standard_normal((*lists.candidates.shape, 2))
    assert fit_next(lists, 3000.0, noise, held).products == 0
    telling = noise.copy()
    telling[:, 0, 0] += 2.0
    head = fit_next(lists, 3000.0, telling, held)
    assert head.products == 2
    assert len(head.weights) == len(NAMES) + 4 == len(head.listed) == len(head.low)


def test_a_list_that_somebody_brings_is_likelier_by_its_own_row():
    lists = lists_of(events(3000, repeats=0.3, nodes=300), 900)
    head = fit_next(lists, 3000.0)
    columns = next_columns(lists.raw).clip(head.low, head.high)
    brought = np.where(lists.brought, 0.0, -np.inf)
    for weight, better, other in (
        (brought, head.listed, head.weights),
        (lists.log_weight, head.weights, head.listed),
    ):
        assert list_loss(columns, weight, np.array(better)) < list_loss(columns, weight, np.array(other))


def test_a_score_depends_on_no_other_candidate():
    head = fit_next(lists_of(events(), 300), 1200.0)
    raw = np.abs(np.random.default_rng(0).standard_normal((50, len(RAW))))
    raw[:, 13] = raw[:, 13] > 0.5
    alone = np.concatenate([head.score(raw[[row]]) for row in range(50)])
    assert alone.tobytes() == head.score(raw).tobytes()
    assert isinstance(head, NextHead)
    np.testing.assert_allclose(head.parts(raw).sum(axis=1), head.score(raw), atol=1e-9)


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("rest = len(taken) - len(ends) - len(former) - len(lately)", "rest = len(taken)"),
        ("strata = (former, FORMER, len(former)), (lately, RECENT, len(lately)), (others, OTHERS, rest)",
         "strata = (former, FORMER, len(former)), (lately, RECENT, RECENT), (others, OTHERS, rest)"),
    ],
)  # fmt: skip
def test_a_seeded_bug_is_noticed(tmp_path, line, wrong):
    assert_noticed(tmp_path, "dygcn.engine.training.next_head", line, wrong, hunt_weights, 0)
