"""Surprises of the service: none is lost in silence, and none is kept of an id that was forgotten."""

import threading

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

import dygcn
from dygcn.client import Client
from dygcn.cluster import launch as start_shards
from dygcn.engine.events import id_column
from dygcn.engine.models.surprise import Surprises
from dygcn.errors import FeatureError, OptionError
from dygcn.serving.service import observations
from dygcn.serving.service.observations import SurpriseRecord
from dygcn.serving.service.service import Service
from dygcn.serving.service.settings import Limits, Shards, check_settings, parse_settings
from dygcn_lab.testbed.served import served_process
from tests.live.test_history import table
from tests.serving.service.serving import on_loopback, serving
from tests.serving.service.streams import Listed, message, until
from tests.serving.service.test_changes import listening, now

NAN = float("nan")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return a folder of a model with times, and of the graph that it was fitted on."""
    live = dygcn.fit(table(0, 500), dim=8, progress=False)
    live.save(tmp_path_factory.mktemp("saved") / "graph")
    return live


@pytest.fixture
def tracking(saved, tmp_path, serve):
    """Serve a copy of it that tracks."""

    def start(**settings):
        saved.save(tmp_path / "graph")
        return serve(path=tmp_path / "graph", track_surprise=True, **settings)

    return start


def rows(*pairs, t=500.0):
    return [{"src": src, "dst": dst, "t": t} for src, dst in pairs]


def page(served, since="", **asked):
    return served.get("/v1/changes", since=since, **asked).json()


def pairs(found):
    return [(one["src"], one["dst"]) for one in found["surprises"]]


def measured(*triples):
    """Return what a meter would, of (src, dst, value)."""
    src, dst, value = zip(*triples, strict=True)
    none = np.full(len(src), NAN)
    reasons = np.full((len(src), 3), -1, np.int8)
    return Surprises(id_column(src), id_column(dst), np.array(value), none, reasons)


# ---- the record ----------------------------------------------------------------------------------------


def test_a_record_lists_what_is_behind_a_sequence():
    record = SurpriseRecord(floor=7)
    record.add(measured((1, 2, 0.5), (1, 1, NAN), (3, 4, 9.0)), 8)
    record.add(measured((5, 6, 1.0)), 10)
    found, missing = record.behind(7, 10)
    assert [(one.sequence, one.src, one.dst, one.surprise) for one in found] == [
        (8, 1, 2, 0.5),
        (8, 3, 4, 9.0),
        (10, 5, 6, 1.0),
    ]
    assert missing is None
    assert {one.rank for one in found} == {None}
    assert ([one.src for one in record.behind(8, 10)[0]], record.behind(10, 10)) == ([5], ([], None))
    assert record.behind(0, 10) == (found, 7)  # what another process measured is not known


def test_over_the_limit_the_newest_are_listed_and_the_rest_is_owned_up_to():
    record = SurpriseRecord()
    record.add(measured((1, 2, 1.0), (3, 4, 1.0)), 1)
    record.add(measured((5, 6, 1.0), (7, 8, 1.0)), 2)
    for limit, src, missing in ((4, [1, 3, 5, 7], None), (3, [3, 5, 7], 1), (2, [5, 7], 1), (1, [7], 2)):
        found = record.behind(0, limit)
        assert ([one.src for one in found[0]], found[1]) == (src, missing)


def test_what_does_not_fit_is_owned_up_to(monkeypatch):
    monkeypatch.setattr(observations, "MOST", 3)
    record = SurpriseRecord()
    for sequence in range(1, 6):
        record.add(measured((sequence, 100, 1.0)), sequence)
    found, missing = record.behind(0, 10)
    assert ([one.src for one in found], missing) == ([3, 4, 5], 2)
    assert record.behind(2, 10) == (found, None)
    assert sum(record.values.counts) == 5


# ---- pages ---------------------------------------------------------------------------------------------


def test_a_page_has_the_surprises_behind_its_cursor(tracking):
    served = tracking()
    since = now(served)
    served.post(rows((3, 100), (3, 3)))  # a loop adds nothing
    served.post([{"src": 3, "dst": 100, "op": -1, "t": 500.0}])
    found = page(served, since)
    (one,) = found["surprises"]
    assert (one["sequence"], one["src"], one["dst"], one["rank"]) == (1, 3, 100, None)
    assert one["surprise"] > 0
    assert all(isinstance(reason, str) for reason in one["reasons"])
    assert found["surprises_missing_to"] is None
    assert page(served, found["next"])["surprises"] == []


def test_the_rank_comes_after_five_events_of_the_source(tracking):
    served = tracking()
    for _ in range(7):
        served.post(rows((3, 100)))
    ranks = [one["rank"] for one in page(served)["surprises"]]
    assert ranks[:5] == [None] * 5
    assert all(0 <= rank <= 1 for rank in ranks[5:])


def test_a_run_of_pages_lists_each_once(tracking):
    """More nodes moved than a page has rows, and events come between the pages."""
    served = tracking()
    since, sent = now(served), [(800 + n, 900 + n) for n in range(6)]
    for pair in sent:
        served.post(rows(pair))
    found, pages, more = [], 0, True
    while more:
        one = page(served, since, limit=6)
        found += pairs(one)
        assert one["surprises_missing_to"] is None
        since, more, pages = one["next"], one["more"], pages + 1
        if pages < 3:
            assert more
            sent += [(850 + pages, 950 + pages), (860 + pages, 960 + pages)]
            served.post(rows(sent[-2]))
            served.post(rows(sent[-1]))
    assert found == sent


def forget_the_cursor(monkeypatch):
    """Seed a bug: every page lists all that there is."""
    right = SurpriseRecord.behind
    monkeypatch.setattr(SurpriseRecord, "behind", lambda self, shown, limit: right(self, 0, limit))


def list_the_last_batch(monkeypatch):
    """Seed a bug: only what the last batch brought is listed."""
    right = SurpriseRecord.behind

    def behind(self, shown, limit):
        return right(self, max(shown, self._kept[-1].sequence - 1) if self._kept else shown, limit)

    monkeypatch.setattr(SurpriseRecord, "behind", behind)


def say_nothing(monkeypatch):
    """Seed a bug: nobody tells the record of a forget."""
    monkeypatch.setattr("dygcn.serving.service.observations.Observations.forgotten", lambda *_: None)


def test_a_batch_of_more_than_a_page_is_owned_up_to_and_a_larger_page_has_it(tracking):
    served = tracking(limits=Limits(page_rows=50))
    since = now(served)
    sent = [(1, 900 + n) for n in range(20)]
    served.post(rows(*sent))
    small = page(served, since, limit=5)
    assert (pairs(small), small["surprises_missing_to"]) == (sent[-5:], 1)
    large = page(served, since, limit=50)
    assert (pairs(large), large["surprises_missing_to"]) == (sent, None)


def test_a_restart_is_owned_up_to(saved, tmp_path):
    saved.save(tmp_path / "graph")
    settings = on_loopback(tmp_path / "graph", track_surprise=True)
    with serving(settings) as served:
        since = now(served)
        served.post(rows((3, 100)))
    with serving(settings) as served:
        served.post(rows((3, 101)))
        found = page(served, since)
        assert (pairs(found), found["surprises_missing_to"]) == ([(3, 101)], 1)
        found = page(served, found["next"])
        assert (pairs(found), found["surprises_missing_to"]) == ([], None)


def test_nothing_is_listed_where_nothing_is_tracked(saved, tmp_path, serve):
    saved.save(tmp_path / "graph")
    served = serve(path=tmp_path / "graph")
    served.post(rows((3, 100)))
    found = page(served)
    assert (found["surprises"], found["surprises_missing_to"]) == ([], None)


def test_an_event_that_moves_nobody_is_news(tracking):
    """A payment that repeats another one changes no edge."""
    served = tracking()
    served.post(rows((3, 100)))
    since = now(served)
    threading.Timer(0.1, lambda: served.post(rows((3, 100)))).start()
    found = page(served, since, wait=20)
    assert (found["moved"], pairs(found)) == ([], [(3, 100)])
    with listening(served, since=found["next"]) as listener:
        served.post(rows((3, 100)))
        listener.until(lambda one: one.pages)
        assert [(one["moved"], pairs(one)) for one in listener.pages] == [([], [(3, 100)])]
    with Client(served.address) as client:
        (one,) = client.changes(found["next"], wait=None)
        assert [(row.src, row.dst, row.rank) for row in one.surprises] == [(3, 100, None)]
        assert one.surprises[0].surprise > 0
        assert one.surprises_missing_to is None


def test_ids_with_kinds_are_those_of_moved(tmp_path, serve):
    times = table(0, 500)
    dygcn.fit(times, kinds=("payer", "shop"), dim=8, progress=False).save(tmp_path / "shop")
    served = serve(path=tmp_path / "shop", track_surprise=True)
    since = now(served)
    served.post(rows((3, 999)))
    found = page(served, since)
    assert pairs(found) == [("payer:3", "shop:999")]
    assert {"payer:3", "shop:999"} <= {one["id"] for one in found["moved"]}
    assert served.client.delete("/v1/nodes/shop:999").status_code == 200
    assert pairs(page(served, since)) == []


def test_a_page_is_what_the_description_says(tracking):
    jsonschema = pytest.importorskip("jsonschema")
    served = tracking()
    for _ in range(7):
        served.post(rows((3, 100), (4, 101)))
    described = served.get("/openapi.json").json()
    schema = {"$ref": "#/components/schemas/Changes", "components": described["components"]}
    found = page(served)
    jsonschema.validate(found, schema)
    assert len(found["surprises"]) == 14
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(found | {"surprises": [{**found["surprises"][0], "rank": "high"}]}, schema)


def test_readers_pass_it_on(saved, tmp_path):
    saved.save(tmp_path / "graph")
    with (
        served_process(tmp_path / "graph", readers=1, settings="track_surprise = true") as one,
        Client(one.address) as client,
    ):
        assert client.ready(wait=60.0)
        since = client.page(limit=1).latest
        client.update({"src": [3], "dst": [100], "t": [500.0]})
        assert [(row.src, row.dst) for row in client.page(since).surprises] == [(3, 100)]


# ---- forgetting ----------------------------------------------------------------------------------------


def test_a_forgotten_id_leaves_the_record(tracking):
    served = tracking()
    since = now(served)
    served.post(rows((3, 100), (4, 100), (3, 101), (5, 3)))
    assert served.client.delete("/v1/nodes/3").status_code == 200
    found = page(served, since)
    assert pairs(found) == [(4, 100)]
    served.post(rows((3, 102), t=501.0))  # of a new person
    assert pairs(page(served, since)) == [(4, 100), (3, 102)]


def test_an_id_that_had_left_is_forgotten_too(tracking):
    served = tracking()
    since = now(served)
    served.post(rows((3, 999)))
    served.post([{"src": 3, "dst": 999, "op": -1, "t": 500.0}])
    assert 999 not in served.service.live
    served.client.delete("/v1/nodes/999")
    assert pairs(page(served, since)) == []


def test_a_forget_event_of_a_source_counts(saved, tmp_path, serve):
    saved.save(tmp_path / "graph")
    source = Listed([message(1, b'{"src": 3, "dst": 100, "t": 500.0}')])
    served = serve(
        path=tmp_path / "graph",
        track_surprise=True,
        sources=[source],
    )
    until(lambda: pairs(page(served)) == [(3, 100)])
    source.messages.append(message(2, b'{"op": "forget", "id": 3}'))
    until(lambda: pairs(page(served)) == [])


@pytest.mark.parametrize(
    ("bug", "hunt"),
    [
        (forget_the_cursor, test_a_run_of_pages_lists_each_once),
        (list_the_last_batch, test_a_run_of_pages_lists_each_once),
        (say_nothing, test_a_forgotten_id_leaves_the_record),
    ],
)
def test_a_seeded_bug_would_be_noticed(tracking, monkeypatch, bug, hunt):
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        hunt(tracking)


# ---- counts --------------------------------------------------------------------------------------------


def test_metrics_count_what_was_measured(tracking):
    served = tracking()
    for _ in range(12):
        served.post(rows((3, 100), (3, 3)))
    served.post(rows((3, 9_999)))
    found = page(served)["surprises"]
    values = [one["surprise"] for one in found]
    assert found[-1]["rank"] == 1.0
    samples = {
        (sample.name, sample.labels.get("le")): sample.value
        for family in text_string_to_metric_families(served.get("/metrics").text)
        for sample in family.samples
    }
    assert samples["dygcn_surprise_count", None] == len(values) == 13
    assert samples["dygcn_surprise_sum", None] == pytest.approx(sum(values))
    assert samples["dygcn_surprise_bucket", "4.0"] == sum(value <= 4 for value in values)
    high = sum(one["rank"] is not None and one["rank"] >= 0.99 for one in found)
    assert samples["dygcn_surprising_events_total", None] == high >= 1


# ---- refusals ------------------------------------------------------------------------------------------


def test_a_model_without_times_is_refused_and_the_folder_is_let_go(folder):
    path = folder()
    with pytest.raises(FeatureError, match=r"track_surprise cannot be true: .*fit on some hundred events"):
        Service(on_loopback(path, track_surprise=True))
    Service(on_loopback(path)).stop()


def test_shards_are_refused(saved, tmp_path):
    with pytest.raises(OptionError, match=r"shards keep no history.*leave out \[shards\]"):
        check_settings(on_loopback("x", track_surprise=True, shards=Shards()))
    saved.save(tmp_path / "graph")
    with pytest.raises(FeatureError, match="let one process serve them"):
        Service(
            on_loopback(tmp_path / "graph", track_surprise=True),
            lambda settings: start_shards(settings.folder, 2, on="here"),
        )


def test_the_setting_is_off_and_is_a_truth_value():
    assert parse_settings('folder = "x"').track_surprise is False
    assert parse_settings('folder = "x"\ntrack_surprise = true').track_surprise is True
    with pytest.raises(OptionError, match="track_surprise"):
        parse_settings('folder = "x"\ntrack_surprise = 1')
