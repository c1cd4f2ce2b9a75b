"""The history behind the score of what comes next: over cuts, restarts, copies, trials, erasures."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pytest

import dygcn
from dygcn.errors import DamagedFolder, FeatureError, OptionError, UnknownNode
from tests.live.test_files import reseal

NODES, MANY = 40, 3000


def table(begin, end, seed=0):
    """Everybody asks for a few of its own, again and again, and sometimes for somebody new."""
    random = np.random.default_rng(seed)
    src = random.integers(0, NODES, MANY)
    own = 100 + (src * 7 + random.integers(0, 3, MANY)) % NODES
    dst = np.where(random.random(MANY) < 0.8, own, random.integers(100, 100 + NODES, MANY))
    rows = slice(begin, end)
    return {"src": src[rows], "dst": dst[rows], "t": np.arange(MANY, dtype=float)[rows]}


@pytest.fixture(scope="module")
def fitted():
    return dygcn.fit(table(0, 2000), dim=8, progress=False)


@pytest.fixture(scope="module")
def model(fitted):
    return fitted.model


def played(model, cuts):
    live = dygcn.start(model)
    for begin, end in pairwise(cuts):
        live.update(table(begin, end))
    return live


def test_fit_learns_it_and_plays_the_events(fitted, model):
    assert model.following is not None
    assert fitted.digest(history=True) == played(model, [0, 2000]).digest(history=True)
    assert model.score_kind("next") == "rank"


def test_without_times_there_is_none():
    live = dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=4)
    assert live.model.following is None
    assert live.digest(history=True) is None


def test_an_empty_history_has_a_digest(model):
    assert dygcn.start(model).digest(history=True) not in (None, played(model, [0, 1]).digest(history=True))


def test_cuts_do_not_matter_and_a_doubled_event_is_noticed(model):
    whole = played(model, [0, 300])
    parts = played(model, [0, 1, 17, 150, 299, 300])
    assert parts.digest(history=True) == whole.digest(history=True)
    assert parts.digest() == whole.digest()
    parts.update(table(299, 300))
    assert parts.digest(history=True) != whole.digest(history=True)


def test_text_is_numbered_event_by_event():
    def named(begin, end):
        rows = table(begin, end)
        return {**rows, "src": rows["src"].astype(str), "dst": rows["dst"].astype(str)}

    whole = dygcn.fit(named(0, 400), dim=8, progress=False)
    parts = dygcn.start(whole.model)
    for begin in range(0, 400, 50):
        parts.update(named(begin, begin + 50))
    assert parts.digest(history=True) == whole.digest(history=True)


def test_now_may_be_a_date(model):
    found = []
    for now in (600.0, datetime(1970, 1, 1, 0, 10, tzinfo=UTC), np.datetime64("1970-01-01T00:10")):
        live = played(model, [0, 300])
        live.update(add=[(3, 100)], now=now)
        live.update(now=now)
        found.append(live.digest(history=True))
    assert len(set(found)) == 1


def test_bulk_counts_too(model):
    live = dygcn.start(model)
    live.bulk([table(0, 100), table(100, 300)])
    assert live.digest(history=True) == played(model, [0, 300]).digest(history=True)


def test_removals_undo_nothing(model):
    live = played(model, [0, 300])
    before = live.digest(history=True)
    live.update(remove_nodes=[100, 3])
    assert live.digest(history=True) == before


def test_saved_and_loaded_and_recomputed(model, tmp_path):
    live = played(model, [0, 300])
    live.save(tmp_path / "saved")
    for again in (dygcn.load(tmp_path / "saved"), live.recompute()):
        assert again.digest(history=True) == live.digest(history=True)
        again.update(table(300, 320))
        assert again.digest(history=True) == played(model, [0, 320]).digest(history=True)


def test_a_restart_and_a_snapshot_keep_it(model, tmp_path):
    folder = tmp_path / "live"
    with dygcn.open(folder, dygcn.start(model)) as live:
        live.update(table(0, 200))
        live.snapshot()
        live.update(table(200, 250))
        live.update(table(250, 300))
        wanted = live.digest(history=True)
        live._let_go()
    with dygcn.open(folder) as live:
        assert live.digest(history=True) == wanted == played(model, [0, 300]).digest(history=True)


def test_a_stream_that_is_sent_twice_counts_once(model, tmp_path):
    with dygcn.open(tmp_path / "live", dygcn.start(model)) as live:
        for _ in range(2):
            live.update(table(0, 50), stream="clicks", offset=1)
        assert live.digest(history=True) == played(model, [0, 50]).digest(history=True)


def test_a_refused_batch_counts_nothing(model):
    live = played(model, [0, 300])
    before = live.digest(history=True)
    with pytest.raises(dygcn.errors.EventError):
        live.update({"src": [1, 2], "dst": [100, 101], "t": [400.0, np.nan]})
    assert live.digest(history=True) == before


def test_what_was_refused_is_not_counted_by_who_mends_a_later_change(model, monkeypatch):
    live = played(model, [0, 300])
    before = live.digest(history=True)
    heavy = [(3, v, 300.0, 2.0**21) for v in range(1000, 9000)]
    with pytest.raises(dygcn.errors.CapacityError):
        live.update(heavy, columns=("src", "dst", "t", "weight"))

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(live._state.rule), "apply", interrupt)
    with pytest.raises(KeyboardInterrupt):
        live.update(remove_nodes=[4])
    monkeypatch.undo()
    assert live.recompute().digest(history=True) == before


def test_a_trial_counts_nothing(model):
    live = played(model, [0, 300])
    before, scores = live.digest(history=True), live.score(3, [100, 101, 102], links="next")
    with live.what_if(add=[(3, 100), (900, 901)]) as trial:
        assert trial.digest(history=True) == before
    assert live.digest(history=True) == before
    np.testing.assert_array_equal(live.score(3, [100, 101, 102], links="next"), scores)


def test_refit_keeps_it(model):
    live = played(model, [0, 300])
    assert live.refit(progress=False).embedding.digest(history=True) == live.digest(history=True)


def test_whoever_is_forgotten_leaves_it(model, tmp_path):
    with dygcn.open(tmp_path / "live", dygcn.start(model)) as live:
        live.update(table(0, 300))
        before = live.digest(history=True)
        live.forget([3, 105])
        assert live.digest(history=True) != before
        assert (live._state.history.find([3, 105]) < 0).all()
        wanted = live.digest(history=True)
    with dygcn.open(tmp_path / "live") as live:
        assert live.digest(history=True) == wanted


def test_whoever_has_no_row_or_left_the_graph_is_forgotten_too(model, tmp_path):
    """The history names ids that neither the model nor the graph does, in snapshots as well."""
    came, left = 987_654_321_012_345, 987_654_321_012_346
    with dygcn.open(tmp_path / "live", dygcn.start(model)) as live:
        live.update({"src": [3, 4, left], "dst": [came, left, 5], "t": [1.0, 2.0, 3.0]})
        live.snapshot()
        live.update({"src": [4, left], "dst": [left, 5], "t": [4.0, 5.0], "op": [-1, -1]})
        live.snapshot()
        assert left not in live
        live.forget([came, left])
        assert (live._state.history.find([came, left]) < 0).all()
        assert (live._state.history.find([3, 4, 5]) >= 0).all()
        wanted = live.digest(history=True)
    named = [one.to_bytes(8, "little") for one in (came, left)]
    files = [file.read_bytes() for file in (tmp_path / "live").rglob("*") if file.is_file()]
    assert not any(one in file for file in files for one in named)
    with dygcn.open(tmp_path / "live") as live:
        assert live.digest(history=True) == wanted


def test_who_asked_again_and_again_is_ranked_first(model):
    live = played(model, [0, 2000])
    ranks = []
    events = table(2000, 2200)
    for u, v, t in zip(events["src"], events["dst"], events["t"], strict=True):
        found = [one for one, _ in live.recommend(int(u), 10, exclude_linked=False)]
        ranks.append(found.index(v) + 1 if v in found else 11)
        live.update({"src": [u], "dst": [v], "t": [t]})
    assert np.mean(1 / np.array(ranks)) > 0.4  # three own answers, in no order: .8 * 11 / 18 at most


def test_askers_are_no_answers(model):
    live = played(model, [0, 2000])
    for u in range(5):
        assert min(one for one, _ in live.recommend(u, 10, exclude_linked=False)) >= 100


def test_scores_are_numbers_at_any_time(model):
    live = played(model, [0, 300])
    with pytest.warns(dygcn.errors.ClockWarning):
        live.update({"src": [3, 4], "dst": [100, 101], "t": [1.7e308, -1.7e308]})
    for links in ("next", "listed"):
        assert np.isfinite(live.score(3, [100, 101, 102, 5000], links=links, missing="cold")).all()


@pytest.mark.parametrize("unit", [1e-50, 1e18])
def test_times_may_be_in_any_unit(tmp_path, unit):
    rows = table(0, 400)
    live = dygcn.fit({**rows, "t": rows["t"] * unit}, dim=4, progress=False)
    live.save(tmp_path / "saved")
    assert dygcn.load(tmp_path / "saved").digest(history=True) == live.digest(history=True) is not None


@pytest.mark.parametrize("span", [0.0, 1e-320, 1e300])
def test_a_saved_score_with_an_impossible_span_is_refused(model, tmp_path, span):
    dygcn.start(model).save(tmp_path / "saved")
    reseal(tmp_path / "saved", lambda settings: settings["following"].update(span=span))
    with pytest.raises(DamagedFolder, match="what comes next"):
        dygcn.load(tmp_path / "saved")


def test_folders_from_before_there_were_histories(model, tmp_path):
    """Their models have a score of links for what comes next, as for the other kinds."""
    links = {**model.links, "next": model.links["all"]}
    live = dygcn.start(replace(model, links=links, following=None))
    live.update(table(0, 300))
    live.save(tmp_path / "saved")
    again = dygcn.load(tmp_path / "saved")
    assert again.digest(history=True) is None
    assert again.score(3, 100, links="next") == live.score(3, 100, links="next")
    assert again.digest() == live.digest()


def test_newcomers_have_a_score(model):
    live = played(model, [0, 2000])
    with pytest.raises(UnknownNode):
        live.score(3, [100, 5000], links="next")
    cold = live.score(3, [100, 5000], links="next", missing="cold")
    assert np.isfinite(cold).all()
    assert cold[0] > cold[1]
    assert np.isfinite(live.score(5000, 100, links="next", missing="cold"))
    with pytest.raises(OptionError, match="missing"):
        live.score(3, [100], missing="maybe")


def test_ids_may_come_one_by_one(model):
    live, ids = played(model, [0, 300]), [100, 101, 5000]
    for links in ("next", "new"):
        wanted = live.score(3, ids, links=links, missing="cold")
        assert live.score(3, iter(ids), links=links, missing="cold").tolist() == wanted.tolist()


def test_scores_of_many_askers_are_those_of_each(model):
    live = played(model, [0, 2000])
    a, b = [3, 4, 3, 5], [100, 101, 102, 100]
    one_by_one = [live.score(u, v, links="next") for u, v in zip(a, b, strict=True)]
    assert live.score(a, b, links="next").tolist() == one_by_one


def test_shards_refuse_it_by_name(model):
    live = played(model, [0, 300])
    live._state.history = None  # as the front of shards has it
    with pytest.raises(FeatureError, match="shards do not keep"):
        live.score(3, 100, links="next")
