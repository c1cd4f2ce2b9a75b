"""Rivals of recommendations, against formulas written out; none sees what is asked for."""

import numpy as np
import pytest

from evaluation.shopping import events_of

pytest.importorskip("implicit")

from dygcn_lab.baselines import ease
from dygcn_lab.baselines.als import ALS, Als, confidence
from dygcn_lab.baselines.ease import EASE_CLOCK, Ease, inverted
from dygcn_lab.baselines.recommenders import RIVALS
from dygcn_lab.baselines.recommending import ItemItem, Popularity, Rp3Beta, factors
from dygcn_lab.evaluation.held_out import SETTINGS, choose
from dygcn_lab.evaluation.recommending import Events, Past, quality, rank
from dygcn_lab.evaluation.recommending_sets import by_time
from dygcn_lab.experiments.recommending import settings_of

CLOCKED = {"edge_half_life": 20, "degree": 0.25, "profile_half_life": 60, "trend": 0.5, "trend_half_life": 7}


@pytest.fixture
def past():
    return Past(events_of())


def everybody(past):
    return past.profiles(np.arange(past.events.users))


def dense_ease(x, y, regularisation):
    """Each column is a ridge regression on all other columns."""
    weights = np.zeros((x.shape[1], x.shape[1]))
    for item in range(x.shape[1]):
        rest = np.delete(np.arange(x.shape[1]), item)
        gram = x[:, rest].T @ x[:, rest] + regularisation * np.eye(len(rest))
        weights[rest, item] = np.linalg.solve(gram, x[:, rest].T @ y[:, item])
    return weights


def same_where_new(found, expected, past):
    new = past.pairs.toarray() == 0
    np.testing.assert_allclose(found[new], expected[new], rtol=2e-3, atol=2e-5)


def test_ease_is_a_ridge_regression_without_its_own_column(past, monkeypatch):
    monkeypatch.setattr(ease, "_AT_ONCE", 7)
    x = past.pairs.toarray().astype(float)
    expected = x @ dense_ease(x, x, 5.0)
    same_where_new(Ease(past).scorer(regularisation=5.0)(everybody(past)), expected, past)


@pytest.mark.parametrize("aged", ["targets", "both"])
def test_ease_with_aged_edges(past, aged):
    x, y = past.pairs.toarray().astype(float), past.aged(20).toarray().astype(float)
    weights = dense_ease(x, y, 5.0) if aged == "targets" else dense_ease(np.sqrt(y), np.sqrt(y), 5.0)
    model = Ease(past)
    found = model.scorer(regularisation=5.0, edge_half_life=20, aged=aged)(everybody(past))
    same_where_new(found, x @ weights, past)
    with_profiles = model.scorer(regularisation=5.0, edge_half_life=20, aged=aged, profile_half_life=60)
    expected = everybody(past).aged(60).toarray() @ weights
    same_where_new(with_profiles(everybody(past)), expected, past)


def test_ease_of_the_most_popular_items(past):
    few = np.sort(np.argsort(-past.degree, kind="stable")[:10])
    x = past.pairs.toarray().astype(float)[:, few]
    found = Ease(past, 10).scorer(regularisation=5.0)(everybody(past))
    assert np.isneginf(np.delete(found, few, axis=1)).all()
    new = x == 0
    np.testing.assert_allclose(found[:, few][new], (x @ dense_ease(x, x, 5.0))[new], rtol=2e-3, atol=2e-5)


def test_an_inverse_without_its_regularisation_is_noticed(past, monkeypatch):
    """Seeded: the diagonal is forgotten."""
    monkeypatch.setattr(
        ease, "inverted", lambda matrix: inverted(matrix + 5 * np.eye(len(matrix), dtype=np.float32))
    )
    with pytest.raises(AssertionError):
        test_ease_is_a_ridge_regression_without_its_own_column(past, monkeypatch)


def test_item_item_by_hand():
    user, item = np.array([0, 0, 1, 2, 2]), np.array([0, 1, 0, 1, 2])
    past = Past(Events(user, item, None, 3, 3))
    found = ItemItem(past).scorer()(everybody(past))
    assert found[1].tolist() == pytest.approx([0, 1 / 2, 0])  # one user in common, of two each
    assert found[0, 2] == pytest.approx(1 / np.sqrt(2))
    shrunk = ItemItem(past).scorer(shrink=1.0)(everybody(past))
    assert shrunk[1, 1] == pytest.approx(1 / 3)
    nearest = ItemItem(past).scorer(nearest=1)(everybody(past))
    assert nearest[0, 2] == pytest.approx(1 / np.sqrt(2))  # nearer to item 1 than item 0 is
    assert nearest[2, 0] == 0


def test_walks_of_three_steps_by_hand(past):
    x = past.pairs.toarray().astype(float)
    user, item = np.maximum(x.sum(1), 1), np.maximum(x.sum(0), 1)
    expected = x @ ((x / item).T ** 0.8 @ (x / user[:, None]) ** 0.8) / item**0.3
    found = Rp3Beta(past).scorer(alpha=0.8, beta=0.3)(everybody(past))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_als_solves_for_each_user(past):
    model = Als(past)
    settings = {"dim": 4, "regularisation": 0.3, "alpha": 10.0}
    items = model.fitted(4, 0.3, 10.0, None).item_factors.astype(float)
    found = model.scorer(**settings, profile_half_life=60)(everybody(past))
    weights = confidence(everybody(past).aged(60), 10.0).toarray()
    for user in range(0, 30, 7):
        extra = np.where(weights[user] > 0, weights[user] - 1, 0)
        left = items.T @ items + items.T @ (extra[:, None] * items) + 3.0 * np.eye(4)
        factor = np.linalg.solve(left, items.T @ weights[user])
        np.testing.assert_allclose(found[user], items @ factor, rtol=1e-2, atol=1e-3)


def test_factors_by_hand(past):
    scores = np.array([[1.0, -1.0] * 20], np.float32)
    found = factors(past, degree=0.5, trend=2.0, trend_half_life=7)(scores)[0]
    recent = past.recent(7)
    for item in np.flatnonzero(past.degree):
        rising = (0.1 + recent[item] / recent.mean()) ** 2 if scores[0, item] > 0 else 1
        assert found[item] == pytest.approx(scores[0, item] / past.degree[item] ** 0.5 * rising, rel=1e-4)
    assert (found[past.degree == 0] == 0).all()


def test_popularity_fades(past):
    assert Popularity(past).scorer()(everybody(past))[3].tolist() == past.degree.tolist()
    assert Popularity(past).scorer(half_life=2)(everybody(past))[0] == pytest.approx(past.recent(2), rel=1e-5)


@pytest.mark.parametrize("name", RIVALS)
def test_no_rival_lists_a_known_pair_or_sees_the_answers(name):
    events = events_of()
    question = by_time("t", events)
    end, item = len(question.known), events.item.copy()
    item[end:] = np.random.default_rng(2).permutation(item[end:])
    shuffled = by_time("t", Events(events.user, item, events.t, events.users, events.items))
    rival, lists, chosen = RIVALS[name], [], []
    for one in (question, shuffled):
        chosen.append(settings_of(rival, one)["settings"])
        past = Past(one.known)
        lists.append(rank(rival.model(past).scorer(**chosen[-1]), past, question.users, 10))
    assert chosen[0] == chosen[1]
    assert lists[0].tolist() == lists[1].tolist()
    known = set(zip(question.known.user.tolist(), question.known.item.tolist(), strict=True))
    for user, listed in zip(question.users.tolist(), lists[0].tolist(), strict=True):
        assert not {(user, one) for one in listed} & known
    assert quality(lists[0], question.truth).sum > 0


@pytest.mark.parametrize("name", ["EASE", "ALS"])
def test_a_clock_that_stands_still_changes_nothing(name, past):
    plain, clocked = RIVALS[name], RIVALS[f"{name}, clock"]
    assert set(clocked.start) >= set(plain.start)
    one = plain.model(past).scorer(**plain.start)(everybody(past))
    same = clocked.model(past).scorer(**clocked.start)(everybody(past))
    assert one.tolist() == same.tolist()
    other = clocked.model(past).scorer(**clocked.start | CLOCKED)(everybody(past))
    assert np.abs(one - other).max() > 1e-3


def test_everybody_has_the_same_budget_and_no_clock_without_times():
    for rival in RIVALS.values():
        assert choose(rival.start, rival.grid, lambda settings: 0.0).tried <= SETTINGS
    assert EASE_CLOCK.timeless().grid.keys() == {"degree", "regularisation"}
    assert ALS.timeless().grid == ALS.grid
