"""Questions about recommendations: what is known, what is asked for, what is listed, and figures by hand."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dygcn_lab.evaluation import recommending
from dygcn_lab.evaluation.held_out import SETTINGS, choose, held_out
from dygcn_lab.evaluation.recommending import DAY, Events, Past, Profiles, ask, quality, rank
from dygcn_lab.evaluation.recommending_sets import SEALED, born, by_time, by_user, question_of

from .shopping import events_of, pairs


def test_figures_by_hand():
    lists = np.array([[7, 3, 5], [1, 2, -1]])
    truth = np.array([3, 5, 8, 9]), np.array([2])
    found = quality(lists, truth)
    gains = 1 / math.log2(3), 1 / math.log2(4)
    assert found.recall.tolist() == [2 / 3, 1]
    assert found.ndcg.tolist() == pytest.approx([sum(gains) / (1 + sum(gains)), gains[0]])
    official = quality(lists, truth, official=True)
    assert official.recall.tolist() == [2 / 4, 1]
    assert official.ndcg.tolist() == found.ndcg.tolist()
    assert found.sum == pytest.approx(found.recall.mean() + found.ndcg.mean())


def test_a_past_has_each_pair_once_with_its_newest_time():
    events = events_of()
    past = Past(events)
    assert past.pairs.sum() == past.pairs.nnz == len(pairs(events))
    for user, item in pairs(events):
        both = (events.user == user) & (events.item == item)
        assert past.times[user, item] == events.t[both].max()
    assert past.degree.tolist() == [len({u for u, i in pairs(events) if i == item}) for item in range(40)]


def test_weights_halve_after_each_half_life():
    user, item = np.array([0, 0, 1, 0]), np.array([0, 1, 1, 1])
    past = Past(Events(user, item, DAY * np.array([0.0, 1.0, 2.0, 4.0]), 2, 2))
    assert past.aged(2).toarray().tolist() == [[0.25, 1], [0, 0.5]]
    assert past.aged(None) is past.pairs
    assert past.recent(1).tolist() == [2.0**-4, 2.0**-3 + 2.0**-2 + 1]
    assert past.profiles(np.array([1, 0])).aged(4).toarray().tolist() == [
        [0, 1],
        [0.5, 1],
    ]  # behind their own newest


def test_nobody_is_asked_for_what_is_known():
    events = events_of(items=120, drift=80)
    for question in (by_time("t", events), born("b", events), by_user("u", events)):
        known = pairs(question.known)
        assert len(question.users) > 5
        for user, taken in zip(question.users.tolist(), question.truth, strict=True):
            assert user in question.known.user
            assert len(set(taken.tolist())) == len(taken) > 0
            assert not {(user, item) for item in taken.tolist()} & known
            assert set(taken.tolist()) <= set(question.known.item.tolist())


def test_a_split_by_time_knows_nothing_that_is_later():
    events = events_of()
    question = by_time("t", events)
    assert 0.75 * len(events) < len(question.known) <= 0.8 * len(events)
    later = events.part(slice(len(question.known), None))
    assert later.t[0] > question.known.t[-1]
    asked = {
        (u, i)
        for u, taken in zip(question.users.tolist(), question.truth, strict=True)
        for i in taken.tolist()
    }
    items = set(question.known.item.tolist())
    assert asked == {
        (u, i) for u, i in pairs(later) - pairs(question.known) if i in items and u in question.known.user
    }


def test_items_that_were_born_are_unknown_to_the_fit():
    question = born("b", events_of(items=120, users=60, drift=80))
    assert len(question.fitted) < len(question.known)
    assert not np.isin(np.concatenate(question.truth), question.fitted.item).any()


def test_a_split_by_user_takes_the_last_fifth_of_each():
    events = events_of()
    question = by_user("u", events)
    for user in range(events.users):
        own = events.t[events.user == user]
        kept = question.known.t[question.known.user == user]
        assert kept.tolist() == own[: int(0.8 * len(own))].tolist()


@pytest.mark.parametrize(("timed", "share"), [(True, 0.25), (False, 0.1)])
def test_a_part_is_held_out_of_what_is_fitted(timed, share):
    question = by_time("t", events_of()) if timed else ask("q", *[events_of(timed=False)] * 3, 10)
    found = held_out(question)
    assert pairs(found.known) < pairs(question.fitted)
    assert abs(1 - len(found.known) / len(question.fitted) - share) < 0.1
    asked = {
        (u, i) for u, taken in zip(found.users.tolist(), found.truth, strict=True) for i in taken.tolist()
    }
    assert asked <= pairs(question.fitted) - pairs(found.known)


def test_what_is_held_out_does_not_look_ahead():
    events = events_of()
    question = by_time("t", events)
    end, random = len(question.known), np.random.default_rng(1)
    item = events.item.copy()
    item[end:] = random.permutation(item[end:])
    other = by_time("t", Events(events.user, item, events.t, events.users, events.items))
    one, same = held_out(question), held_out(other)
    assert one.users.tolist() == same.users.tolist()
    assert [taken.tolist() for taken in one.truth] == [taken.tolist() for taken in same.truth]


def listed_by(seed):
    question = by_time("t", events_of(seed=seed))
    random = np.random.default_rng(seed)
    scores = random.normal(size=(30, 40)).astype(np.float32)

    def score(profiles: Profiles):
        rows = [Past(question.known).pairs[user].indices.tolist() for user in question.users.tolist()]
        assert [profiles.pairs[at].indices.tolist() for at in range(len(question.users))] == rows
        return scores[question.users]

    return question, scores, rank(score, Past(question.known), question.users, 30)


def test_lists_hold_the_best_new_items_in_their_order():
    question, scores, lists = listed_by(0)
    taken = set(question.known.item.tolist())
    for user, listed in zip(question.users.tolist(), lists, strict=True):
        new = [i for i in taken if (user, i) not in pairs(question.known)]
        best = sorted(new, key=lambda item: -scores[user, item])[:30]
        assert listed.tolist() == best + [-1] * (30 - len(best))


def test_a_known_pair_in_a_list_is_noticed(monkeypatch):
    """Seeded: pairs are masked for the wrong users."""
    right = Past.profiles

    def wrong(self, users):
        found = right(self, users)
        return Profiles(found.pairs[::-1], found.times)

    monkeypatch.setattr(recommending.Past, "profiles", wrong)
    with pytest.raises(AssertionError):
        test_lists_hold_the_best_new_items_in_their_order()


def test_a_search_keeps_to_its_budget_and_tries_nothing_twice():
    seen = []

    def value(settings):
        seen.append(tuple(settings.items()))
        return -sum((one - 3) ** 2 for one in settings.values())

    grid = {name: tuple(range(9)) for name in "abcdef"}
    found = choose(dict.fromkeys("abcdef", 0), grid, value)
    assert found.tried == len(seen) == len(set(seen)) == SETTINGS
    assert found.value == max(-sum((one - 3) ** 2 for _, one in settings) for settings in seen)


def test_a_half_life_without_its_factor_is_not_tried():
    grid = {"trend": (0, 1), "trend_half_life": (1, 2)}
    found = choose({"trend": 0, "trend_half_life": 1}, grid, lambda one: -one["trend"])
    assert found.tried == 2


def written(folder, split=None):
    events = events_of(timed=split is None)
    rows = np.random.default_rng(0).permutation(len(events))
    columns = {"src": events.user[rows], "dst": events.item[rows] + events.users}
    columns |= {"t": events.t[rows].astype(int)} if split is None else {"split": split, "valid": split * 0}
    folder.mkdir()
    pq.write_table(pa.table(columns), folder / "edges.parquet")
    kinds = ["user"] * events.users + ["item"] * events.items
    pq.write_table(pa.table({"id": range(len(kinds)), "kind": kinds}), folder / "nodes.parquet")
    return events


def test_questions_are_read_from_folders(tmp_path):
    events = written(tmp_path / "online-retail")
    found = question_of("online-retail", tmp_path)
    assert pairs(found.known) == pairs(by_time("t", events).known)
    split = (np.random.default_rng(1).random(600) < 0.2).astype(np.int8)
    written(tmp_path / "lightgcn-lastfm", split)
    official = question_of("lightgcn-lastfm", tmp_path)
    assert (official.k, official.official, len(official.known)) == (20, True, int((split == 0).sum()))


@pytest.mark.parametrize("name", SEALED)
def test_sealed_questions_open_only_when_that_is_said(name, tmp_path):
    with pytest.raises(ValueError, match="--unsealed"):
        question_of(name, tmp_path)
