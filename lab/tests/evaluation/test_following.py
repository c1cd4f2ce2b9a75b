"""Questions about what comes next: what they hold, who sees what, and who must fail them."""

import numpy as np
import pytest

from dygcn_lab.baselines.following import HALF_LIVES, Heuristics, Past
from dygcn_lab.evaluation import following
from dygcn_lab.evaluation.following import Stream, ask, known_before, reciprocal_ranks


def stream_of(events=400, nodes=30, seed=0, times=None):
    random = np.random.default_rng(seed)
    src = random.integers(0, nodes, events)
    dst = (src + random.integers(1, nodes, events)) % nodes
    t = np.sort(random.integers(0, times or 10 * events, events)).astype(float)
    return Stream("made up", src, dst, t, np.where(random.random(events) < 0.9, 1, -1))


@pytest.fixture
def few(monkeypatch):
    """Let even few destinations be too many to ask for all of them."""
    monkeypatch.setattr(following, "EVERYBODY", 5)


def at_the_same_time(stream, event):
    same = (stream.t == stream.t[event]) & (stream.src == stream.src[event])
    same[event] = False
    return set(stream.dst[same].tolist())


@pytest.mark.parametrize("times", [None, 20])
def test_all_candidates_are_all_destinations(times):
    stream = stream_of(times=times)
    for one in ask(stream, 0.7, 1.0, 1000):
        u, v = int(stream.src[one.event]), int(stream.dst[one.event])
        met = {(a, b) for a, b in zip(stream.src[: one.event], stream.dst[: one.event], strict=True)}
        candidates = one.candidates["all"].tolist()
        assert candidates[0] == v
        assert set(candidates) == (set(stream.dst.tolist()) - at_the_same_time(stream, one.event)) | {v}
        assert len(set(candidates)) == len(candidates)
        assert one.new == ((u, v) not in met and (v, u) not in met)
        assert stream.op[one.event] > 0


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("times", [None, 20])
def test_rivals_are_what_they_say(times):
    stream = stream_of(times=times)
    questions = ask(stream, 0.7, 1.0, 60)
    assert 40 < len(questions) <= 60
    for one in questions:
        u, v = int(stream.src[one.event]), int(stream.dst[one.event])
        before = slice(0, one.event)
        seen = set(stream.src[before].tolist()) | set(stream.dst[before].tolist())
        former = set(stream.dst[before][stream.src[before] == u]) | set(
            stream.src[before][stream.dst[before] == u]
        )
        also = at_the_same_time(stream, one.event)
        for kind, candidates in one.candidates.items():
            first, *rest = candidates.tolist()
            assert first == v
            assert set(rest) <= seen - {u, v} - also
            if kind == "historical":
                assert set(rest) >= former - {u, v} - also


def test_a_state_of_some_age_knows_nothing_younger():
    stream = stream_of()
    for event in range(stream.fitted, len(stream)):
        assert known_before(stream, event, 0) == event
        for age in (7, 50):
            known = known_before(stream, event, age)
            assert event - age < known <= event
            assert (known - stream.fitted) % age == 0


def test_a_state_of_midnight_knows_nothing_of_the_day():
    stream = stream_of(times=30 * 86_400)
    for event in range(stream.fitted, len(stream)):
        known = known_before(stream, event, "day")
        day = stream.t[event] // 86_400
        assert known == stream.fitted or stream.t[known - 1] // 86_400 < day <= stream.t[known] // 86_400


@pytest.mark.parametrize("age", [0, 7, "day"])
def test_methods_see_all_events_up_to_the_age_and_no_other(age):
    stream, shown = stream_of(times=30 * 86_400), []

    def follow(begin, end):
        assert begin == (shown[-1] if shown else stream.fitted)
        shown.append(end)

    def score(asker, candidates, now):
        event = next(one for one in asked if one.candidates["all"] is candidates).event
        assert (asker, now) == (stream.src[event], stream.t[event])
        assert (shown[-1] if shown else stream.fitted) == known_before(stream, event, age)
        return np.zeros(len(candidates))

    asked = ask(stream, 0.7, 1.0, 1000)
    found = reciprocal_ranks(stream, asked, follow, {"nothing": score}, age).ranks["nothing"]["all"]
    sizes = np.array([len(one.candidates["all"]) for one in asked])
    np.testing.assert_allclose(found, 2 / (sizes + 1))  # the middle


def test_who_knows_the_answer_has_rank_one():
    stream = stream_of()
    asked = ask(stream, 0.7, 1.0, 1000)
    scores = {
        "first": lambda u, v, now: -np.arange(len(v), dtype=float),
        "last": lambda u, v, now: np.arange(len(v), dtype=float),
    }
    found = reciprocal_ranks(stream, asked, lambda begin, end: None, scores)
    assert (found.ranks["first"]["all"] == 1).all()
    assert (found.ranks["last"]["all"] < 0.05).all()
    assert found.event.count == asked[-1].event - stream.fitted
    assert found.pair["first"].count == sum(len(one.candidates["all"]) for one in asked)


def past_of(events):
    past = Past(5, 100.0)
    src, dst, t, op = np.array(events).T
    past.follow(src.astype(int), dst.astype(int), t, op.astype(int))
    return past


def test_rivals_do_what_they_say():
    past = past_of([(0, 1, 0, 1), (0, 2, 50, 1), (3, 1, 60, 1), (3, 1, 70, 1), (4, 0, 80, 1), (4, 0, 90, -1)])
    others = np.array([1, 2, 3, 4])
    assert np.argsort(-past.recency(0, others, 100.0)).tolist() == [3, 1, 0, 2]  # 4, 2, 1, then nobody met
    assert past.edgebank(0, others, 100.0).tolist() == [1, 1, 0, 1]
    assert past.edgebank_window(0, others, 100.0).tolist() == [0, 0, 0, 1]
    slow = past.popularity(0, others, 100.0, HALF_LIVES[-1])
    expected = 2.0 ** (-4 * np.array([100.0, 40.0, 30.0]) / 100)
    assert slow[0] == pytest.approx(expected.sum())
    assert slow[2] == slow[3] == 0


def test_a_logit_learns_what_tells_answers_apart():
    random = np.random.default_rng(0)
    lists = [random.normal(size=(10, 3)) for _ in range(200)]
    for rows in lists:
        rows[0, 1] += 3
    logit = Heuristics(lists)
    assert np.argmax(np.abs(logit.weights)) == 1
    assert logit.weights[1] > 1
    assert np.mean([np.argmax(logit.score(rows)) == 0 for rows in lists]) > 0.7


def test_an_answer_that_the_rivals_betray_is_caught(monkeypatch):
    """Seeded: what the asker has at the same moment stays among the candidates."""
    monkeypatch.setattr(following, "_same_moment", lambda stream, event: [])
    with pytest.raises(AssertionError):
        test_all_candidates_are_all_destinations(20)


def test_a_state_that_is_too_young_is_caught(monkeypatch):
    """Seeded: whoever asks has seen the event that is asked about."""
    right = following.known_before
    monkeypatch.setattr(following, "known_before", lambda stream, event, age: right(stream, event, age) + 1)
    with pytest.raises(AssertionError):
        test_methods_see_all_events_up_to_the_age_and_no_other(0)
