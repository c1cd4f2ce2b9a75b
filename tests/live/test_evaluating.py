"""Evaluations: streams whose best method is known, nothing seen too early, the same again under one seed."""

import json
from functools import partial

import numpy as np
import pytest

import dygcn
from dygcn.errors import EventError, OptionError
from dygcn.live import evaluating
from dygcn.live.evaluated import Interval, Judged, measures_of, short, span

SMALL = {"dim": 8, "progress": False}


def stream(src, dst, **more):
    return {"src": np.asarray(src), "dst": np.asarray(dst), "t": np.arange(len(src)), **more}


def repeats(events=300, users=12):
    """Return a stream in which every user comes back to one item."""
    user = np.random.default_rng(0).integers(0, users, events)
    return stream(user, 100 + user)


def popular(events=400, seed=1):
    """Return a stream in which everybody draws from one skewed distribution."""
    random = np.random.default_rng(seed)
    share = 1 / np.arange(1, 31) ** 1.5
    return stream(random.integers(0, 100, events), 1000 + random.choice(30, events, p=share / share.sum()))


def blocks(events=700):
    """Return a stream of five groups, each with items of its own; no user takes an item twice."""
    random = np.random.default_rng(2)
    user, item = np.meshgrid(np.arange(60), np.arange(20))
    user, item = user.ravel(), item.ravel()
    order = random.permutation(len(user))[:events]
    return stream(user[order], 1000 + 20 * (user[order] % 5) + item[order])


def mrr(judged, method):
    return judged.rows[method]["MRR"].mean


def contacts(src, dst):
    src, dst = np.array(src), np.array(dst)
    return evaluating.PastContacts.of(
        src, dst, np.arange(len(src), dtype=float), int(max(src.max(), dst.max())) + 1
    )


def test_who_repeats_is_foretold_by_recency():
    found = dygcn.evaluate(repeats(), **SMALL)
    assert mrr(found, "recency") == 1.0
    assert mrr(found, "dygcn") > 0.9
    assert mrr(found, "popularity") < 0.5
    assert found.sentence.startswith(("Tied", "Use recency"))
    assert found.new_pairs is None
    assert list(found.tables) == ["all events"]


def test_who_draws_by_popularity_is_foretold_by_it():
    found = dygcn.evaluate(popular(), **SMALL)
    assert mrr(found, "popularity") > max(mrr(found, one) for one in ("recency", "EASE"))


def test_groups_are_foretold_by_what_goes_together():
    found = dygcn.evaluate(blocks(), **SMALL).new_pairs
    assert mrr(found, "item-item") > 2 * mrr(found, "popularity")
    assert mrr(found, "EASE") > 2 * mrr(found, "popularity")
    assert {"dygcn", "dygcn, links new"} <= set(found.rows)


def test_what_comes_later_changes_no_rank():
    events = popular(500)
    before = dygcn.evaluate(events, **SMALL)
    last = int(before.asked[len(before.asked) // 2])
    later = np.arange(500) > last
    other = events | {"dst": np.where(later, 1000 + (events["dst"] * 7) % 30, events["dst"])}
    after = dygcn.evaluate(other, **SMALL)
    assert np.array_equal(before.asked, after.asked)
    asked = before.asked <= last
    for name, ranks in before.all_events.ranks.items():
        assert np.array_equal(ranks[asked], after.all_events.ranks[name][asked]), name
    assert any(
        not np.array_equal(ranks, after.all_events.ranks[name])
        for name, ranks in before.all_events.ranks.items()
    )


def test_the_answer_itself_is_not_seen():
    events = repeats()
    found = dygcn.evaluate(events, **SMALL)
    at = int(found.asked[-1])
    other = events | {"dst": np.where(np.arange(300) == at, 100 + (events["src"] + 1) % 12, events["dst"])}
    ranks = dygcn.evaluate(other, **SMALL).all_events.ranks
    assert ranks["recency"][-1] > 1
    assert ranks["dygcn"][-1] > 1


def test_the_embedding_has_seen_what_came_before_a_question_and_no_more(monkeypatch):
    applied, asked = [], []
    apply, scores_of = dygcn.LiveEmbedding._apply, dygcn.LiveEmbedding._scores_of

    def noted(live, batch, now):
        applied.append((len(batch), now))
        return apply(live, batch, now)

    def scored(live, *pairs):
        asked.append((sum(many for many, _ in applied), applied[-1][1]))
        return scores_of(live, *pairs)

    monkeypatch.setattr(dygcn.LiveEmbedding, "_apply", noted)
    monkeypatch.setattr(dygcn.LiveEmbedding, "_scores_of", scored)
    found = dygcn.evaluate(repeats(), 40, **SMALL)
    rows = found.asked.tolist()
    assert asked == [(row - found.fitted, float(row)) for row in rows]  # times are rows here


@pytest.mark.parametrize(
    "rival",
    [
        evaluating.popularity,
        partial(evaluating.recent_popularity, 3.0),
        evaluating.recency,
        evaluating.item_item,
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_rival_reads_nothing_behind_its_position(rival):
    random = np.random.default_rng(3)
    src, dst = random.integers(0, 10, 80), random.integers(10, 20, 80)
    other = dst.copy()
    other[40:] = random.integers(10, 20, 40)
    candidates = np.arange(10, 20)
    one, two = (rival(contacts(src, ends), 3, candidates, 40) for ends in (dst, other))
    assert np.array_equal(one, two)


def test_item_item_is_what_matrices_give():
    random = np.random.default_rng(4)
    src, dst = random.integers(0, 10, 60), random.integers(10, 20, 60)
    matrix = np.zeros((20, 20))
    matrix[src[:50], dst[:50]] = 1
    norm = np.sqrt(np.maximum(matrix.sum(axis=0), 1))
    wanted = matrix[3] @ (matrix.T @ matrix / np.outer(norm, norm))
    found = evaluating.item_item(contacts(src, dst), 3, np.arange(10, 20), 50)
    assert found == pytest.approx(wanted[10:20])


def test_ease_is_what_its_paper_says():
    random = np.random.default_rng(5)
    src, dst = random.integers(0, 10, 60), random.integers(10, 20, 60)
    seen = contacts(src, dst)
    items = seen.items_before(50)
    matrix = np.zeros((10, len(items)))
    place = {item: at for at, item in enumerate(items.tolist())}
    for user, item in zip(src[:50], dst[:50], strict=True):
        matrix[user, place[item]] = 1
    inverse = np.linalg.inv(matrix.T @ matrix + 2.0 * np.eye(len(items)))
    weights = inverse / -np.diag(inverse)
    np.fill_diagonal(weights, 0)
    assert evaluating.Ease(seen, 50, 2.0)(seen, 3, items, 50) == pytest.approx(matrix[3] @ weights)


def test_one_seed_gives_one_result_and_another_other_questions():
    events = popular(900)
    one, two, other = (dygcn.evaluate(events, 50, seed, **SMALL) for seed in (0, 0, 1))
    assert one.to_dict() | {"seconds": 0} == two.to_dict() | {"seconds": 0}
    assert len(one.asked) == 50
    assert not np.array_equal(one.asked, other.asked)


def test_intervals_hold_the_mean():
    found = dygcn.evaluate(popular(), **SMALL)
    for table in found.tables.values():
        for row in table.rows.values():
            assert all(one.low <= one.mean <= one.high for one in row.values())
        assert table.difference.low <= table.difference.mean <= table.difference.high


def test_askers_are_resampled_and_not_questions():
    ranks = np.repeat([1.0, 2.0], 50)
    few = Judged({"dygcn": ranks, "recency": ranks}, np.repeat([0, 1], 50))
    many = Judged({"dygcn": ranks, "recency": ranks}, np.arange(100))
    wide, narrow = (one.rows["dygcn"]["MRR"] for one in (few, many))
    assert wide == Interval(0.75, 0.5, 1.0)
    assert 0.65 < narrow.low < 0.75 < narrow.high < 0.85


def test_sentences():
    askers, good, bad = np.arange(100), np.full(100, 1.0), np.full(100, 4.0)
    better = Judged({"dygcn": good, "recency": bad}, askers)
    worse = Judged({"dygcn": bad, "recency": good}, askers)
    tied = Judged({"dygcn": good, "recency": good}, askers)
    words = "Use dygcn: MRR 1.00, the best of the others, recency, has .25 (surely better, by .75 to .75)."
    assert better.sentence == words
    assert worse.sentence == "Use recency: MRR 1.00, dygcn has .25 (surely worse, by .75 to .75)."
    assert tied.sentence.startswith("Tied: dygcn has MRR 1.00")
    assert (short(0.425, 1), span(-0.1, 0.001, "and")) == (".4", "-.100 and .001")


def test_answers_that_nobody_saw_are_missed_by_everybody():
    events = repeats()
    fresh = np.arange(300) >= 280
    found = dygcn.evaluate(events | {"dst": np.where(fresh, 5000 + np.arange(300), events["dst"])}, **SMALL)
    new = found.asked >= 280
    assert new.sum() == 20
    for ranks in found.all_events.ranks.values():
        assert np.isinf(ranks[new]).all()
        assert np.isfinite(ranks[~new]).all()
    assert measures_of(np.array([np.inf])).tolist() == [[0.0], [0.0], [0.0]]
    assert any(note.startswith("20 answers had never been") for note in found.notes)


def test_newcomers_are_not_asked():
    events = repeats()
    fresh = np.arange(300) >= 280
    found = dygcn.evaluate(events | {"src": np.where(fresh, 5000 + np.arange(300), events["src"])}, **SMALL)
    assert found.asked.max() < 280


def test_candidates_are_of_the_answers_kind_and_cut_to_a_thousand():
    seen = contacts(np.zeros(3001, int), np.append(np.arange(1, 3001), 5))
    kind = (np.arange(seen.nodes) % 2).astype(np.int8)
    asked = evaluating.ask(seen, kind, 3000, 1000, 0)
    assert (len(asked.candidates), asked.cut, asked.candidates[asked.answer]) == (1001, True, 5)
    assert (asked.candidates % 2 == 1).all()
    assert len(np.unique(asked.candidates)) == 1001
    again, other = (evaluating.ask(seen, kind, 3000, 1000, seed) for seed in (0, 1))
    assert np.array_equal(asked.candidates, again.candidates)
    assert not np.array_equal(asked.candidates, other.candidates)


def test_ties_have_the_mean_rank():
    assert evaluating.rank_of(np.zeros(5), 2) == 3.0
    assert evaluating.rank_of(np.array([3.0, 1.0, 1.0]), 2) == 2.5


def test_new_pairs_are_ranked_among_those_whom_the_asker_never_met():
    seen = contacts([0, 0, 1, 2, 0], [5, 6, 7, 7, 7])
    asked = evaluating.ask(seen, np.zeros(8, np.int8), 4, 1000, 0)
    assert (asked.candidates.tolist(), asked.met.tolist(), asked.new) == (
        [5, 6, 7],
        [True, True, False],
        True,
    )
    assert asked.ranks(np.array([3.0, 2.0, 1.0])) == (3.0, 1.0)


def test_kinds_columns_and_removes():
    events = repeats()
    table = {"user": events["src"], "item": events["dst"] - 100, "when": events["t"]}
    table["op"] = np.where(np.arange(300) % 10 == 9, -1, 1)
    found = dygcn.evaluate(table, src="user", dst="item", t="when", kinds=True, **SMALL)
    assert not np.isin(found.asked % 10, 9).any()
    assert mrr(found, "recency") == 1.0


def test_without_times_the_order_is_the_time():
    events = repeats()
    del events["t"]
    found = dygcn.evaluate(events, **SMALL)
    assert "The events have no times: the order of the rows is the time." in found.notes
    assert mrr(found, "recency") == 1.0


def test_what_is_refused():
    with pytest.raises(EventError, match="30 events come after the first 70 % of 100; at least 50"):
        dygcn.evaluate(repeats(100), **SMALL)
    for wrong in (0, -1, 2.5, True, "many"):
        with pytest.raises(OptionError, match=r"questions is .*; allowed is a whole number, 1 or more"):
            dygcn.evaluate(repeats(), wrong, **SMALL)
    fresh = stream(np.arange(300), 1000 + np.arange(300))
    for none in (fresh, stream(np.arange(300), 1000 + np.arange(300), op=np.full(300, -1))):
        with pytest.raises(EventError, match="no event after the first 70 % can be a question"):
            dygcn.evaluate(none, **SMALL)


def test_ease_is_left_out_where_there_are_too_many_destinations(monkeypatch):
    monkeypatch.setattr(evaluating, "MOST_ITEMS", 5)
    found = dygcn.evaluate(repeats(), **SMALL)
    assert "EASE" not in found.rows
    assert any(note.startswith("EASE is left out: 12 destinations") for note in found.notes)


def test_forms_of_the_result():
    found = dygcn.evaluate(blocks(), **SMALL)
    assert json.loads(json.dumps(found.to_dict()))["sentence"] == found.sentence
    text = repr(found)
    assert text.startswith(found.sentence)
    assert all(name in text for name in (*found.rows, "all events", "new pairs", "NDCG@10"))
    pytest.importorskip("pandas")
    frame = found.to_pandas()
    assert frame.loc[("all events", "recency"), "MRR"] == mrr(found, "recency")
    assert len(frame) == sum(len(table.rows) for table in found.tables.values())


def test_the_picture():
    pytest.importorskip("matplotlib").use("agg")
    found = dygcn.evaluate(blocks(), **SMALL)
    ax = found.plot()
    assert found.plot(ax) is ax
    assert {one.get_text() for one in ax.get_yticklabels()} >= set(found.rows)
