"""The runner of recommendations: sides measured apart, rows that are compared, and a replay by day."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from evaluation.shopping import events_of, pairs

pytest.importorskip("implicit")

from dygcn_lab.baselines.recommenders import RIVALS
from dygcn_lab.evaluation.recommending import DAY, Events, Past, Question, rank
from dygcn_lab.evaluation.recommending_sets import among_born, born, by_time
from dygcn_lab.experiments import recommending, recommending_replay
from dygcn_lab.experiments.recommending import ask_ours, fit, recommended, run_ours, run_rivals
from dygcn_lab.experiments.recommending_replay import (
    Day,
    days_of,
    first_events,
    replay_ours,
    replay_rival,
    whole,
)
from dygcn_lab.experiments.recommending_results import Results, table

OPTIONS = {"dim": 8}


@pytest.fixture(autouse=True)
def fewer(monkeypatch):
    """Search fewer settings of fewer rivals, and time fewer calls."""
    few = {name: RIVALS[name] for name in ("popularity", "recent popularity", "EASE", "ALS")}
    monkeypatch.setattr(recommending, "RIVALS", few)
    monkeypatch.setattr(recommending, "_TIMED", 3)
    monkeypatch.setattr(recommending_replay, "ASKED", ("recent popularity", "EASE"))


def test_each_side_is_measured_apart_and_compared_with_the_other(tmp_path):
    question, out = by_time("some", events_of()), tmp_path / "results.json"
    run_rivals(question, Results(out))
    first = json.loads(out.read_text())["some"]
    assert list(first["rows"]) == ["popularity", "recent popularity", "EASE", "ALS"]
    run_ours(question, Results(out), "before", OPTIONS)
    run_ours(question, Results(out), "after", OPTIONS)
    found = json.loads(out.read_text())["some"]
    assert {name: found["rows"][name] for name in first["rows"]} == first["rows"]
    assert found["ours minus"]["before"] == found["ours minus"]["after"]
    difference, low, high = found["ours minus"]["after"]["EASE"]["recall"]
    rows = found["rows"]
    assert difference == pytest.approx(rows["after"]["recall"] - rows["EASE"]["recall"], abs=2e-4)
    assert low <= difference <= high
    assert set(found["us beside implicit"]) == {"before", "after"}
    assert len(table({"some": found}).splitlines()) == 2 + 6


def test_without_times_nothing_needs_them(tmp_path):
    events = events_of(timed=False)
    question = Question("still", *[events] * 2, np.arange(30), (np.array([1]),) * 30, 20, True)
    results = Results(tmp_path / "results.json")
    run_rivals(question, results, ["popularity", "recent popularity", "EASE"])
    run_ours(question, results, "ours", OPTIONS)
    assert list(results.found["still"]["rows"]) == ["popularity", "EASE", "ours"]


def test_what_was_born_is_followed_and_rivals_are_asked_rerun_or_not(tmp_path):
    question = born("born", events_of(items=120, users=60, drift=80))
    results = Results(tmp_path / "results.json")
    run_rivals(question, results, ["popularity", "recent popularity", "EASE"])
    run_ours(question, results, "ours", OPTIONS)
    rows = results.found["born"]["rows"]
    assert rows["recent popularity"]["recall"] > rows["recent popularity, not rerun"]["recall"] == 0
    assert rows["ours"]["us an event"] > 0


def test_among_the_born_everybody_lists_only_these():
    question = among_born("born", events_of(items=120, users=60, drift=80))
    rival, past = RIVALS["recent popularity"], Past(question.known)
    lists = rank(rival.model(past).scorer(half_life=7), past, question.users, 10, question.among)
    live = fit(question.known, **OPTIONS)
    some = [("item", item) for item in np.flatnonzero(question.among).tolist()]
    ours = [recommended(live, user, 10, some).tolist() for user in question.users.tolist()]
    for listed in (*lists.tolist(), *ours):
        assert max(listed) >= 0
        assert all(question.among[item] for item in listed if item >= 0)


def test_ours_lists_no_known_pair_and_does_not_see_the_answers():
    events = events_of()
    question = by_time("t", events)
    live = fit(question.known, **OPTIONS)
    for user in question.users.tolist():
        listed = recommended(live, user, 10)
        assert not {(user, item) for item in listed.tolist()} & pairs(question.known)
    assert (recommended(live, 999, 10) == -1).all()
    end, item = len(question.known), events.item.copy()
    item[end:] = np.random.default_rng(1).permutation(item[end:])
    other = by_time("t", Events(events.user, item, events.t, events.users, events.items))
    again = fit(other.known, **OPTIONS)
    assert again.digest() == live.digest()
    assert 0 < ask_ours(question, OPTIONS)[1].recall.mean() < 1


def test_a_day_asks_those_who_are_known_for_what_they_take_first():
    events = events_of(count=3000)
    fitted, days = days_of(events, 3)
    assert [day.number for day in days] == list(range(21))
    assert len(fitted) + sum(len(day.events) for day in days) == len(events)
    for day in days:
        known = day.question.known
        assert known.t[-1] < day.events.t[0] // DAY * DAY
        asked = zip(day.question.users.tolist(), day.question.truth, strict=True)
        new = {(user, item) for user, taken in asked for item in taken.tolist()}
        assert new == {(u, i) for u, i in pairs(day.events) - pairs(known) if u in known.user}
        for at, begin in first_events(day):
            own = day.events.t[day.events.user == day.question.users[at]]
            assert begin == (day.events.t < own[0]).sum()


class Watched:
    """Says what was known when somebody was asked."""

    def __init__(self, seen):
        self.seen, self.asked = seen, []

    def __contains__(self, node):
        return True

    def update(self, rows):
        self.seen += len(rows["src"])

    def recommend(self, node, k, among):
        self.asked.append((node[1], self.seen))
        return []


def test_ours_follows_up_to_the_moment_and_no_further(monkeypatch):
    events = events_of(count=2000)
    fitted, days = days_of(events, 2)
    live = Watched(len(fitted))
    monkeypatch.setattr(recommending_replay, "fit", lambda events: live)
    replay_ours(fitted, days, {})
    expected = []
    for day in days:
        before = len(day.question.known)
        expected += [(user, before) for user in day.question.users.tolist()]
        expected += [(int(day.question.users[at]), before + begin) for at, begin in first_events(day)]
    assert live.asked == expected
    assert live.seen == len(events)


def test_a_moment_after_the_event_is_noticed(monkeypatch):
    """Seeded: the user's first event is followed before the user is asked."""
    right = first_events

    def wrong(day):
        return ((at, min(begin + 1, len(day.events))) for at, begin in right(day))

    monkeypatch.setattr(recommending_replay, "first_events", wrong)
    with pytest.raises(AssertionError):
        test_ours_follows_up_to_the_moment_and_no_further(monkeypatch)


def test_rivals_are_rerun_when_their_turn_comes():
    _, days = days_of(events_of(count=3000), 3)
    rival = RIVALS["recent popularity"]
    found = replay_rival(rival, {"half_life": 7}, days)
    for at, day in enumerate(days):
        past = Past(day.question.known)
        for name, known in (("nightly", past), ("fortnightly", Past(days[at // 14 * 14].question.known))):
            lists = rank(rival.model(known).scorer(half_life=7), past, day.question.users, 10)
            assert found[name].lists[at].tolist() == lists.tolist()
    assert isinstance(days[0], Day)


def test_the_commands_write_rows(tmp_path, monkeypatch):
    events = events_of(count=600)
    monkeypatch.setattr(recommending_replay, "read", lambda folder: (events, None))
    monkeypatch.setenv("DYGCN_DATA", str(tmp_path))
    out = tmp_path / "replay.json"
    asked = [str(out), "--weeks", "1", "--option", "dim=8"]
    shown = CliRunner().invoke(recommending_replay.main, asked, catch_exceptions=False)
    rows = json.loads(out.read_text())["online-retail, replay"]["rows"]
    assert list(rows) == [
        *("dygcn, midnight", "dygcn, moment", "recent popularity, nightly", "recent popularity, fortnightly"),
        *("EASE, nightly", "EASE, fortnightly"),
    ]
    assert "| EASE, nightly |" in shown.output
    fitted, days = days_of(events, 1)
    assert (
        len(whole(fitted, events, days).users)
        == json.loads(out.read_text())["online-retail, replay"]["users"]
    )
    monkeypatch.setattr(recommending, "question_of", lambda name, folder, unsealed: by_time(name, events))
    asked = [str(tmp_path / "one.json"), "online-retail", "--ours", "--option", "dim=8", "--name", "before"]
    assert "| before |" in CliRunner().invoke(recommending.main, asked, catch_exceptions=False).output
