"""What each route does with events: three forms, repeats and gaps, dead letters."""

import io
import threading

import msgspec
import pyarrow as pa
import pytest

from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.durable.source_batch import Receipt
from dygcn.serving.service.settings import Limits
from tests.serving.service.serving import ARROW, NDJSON, is_problem, on_loopback, serving

JSON = "application/json"
LEAST, MOST = -(2**63), 2**63 - 1


def as_arrow(rows):
    table = pa.Table.from_pylist(rows)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


FORMS = {
    JSON: msgspec.json.encode,
    NDJSON: lambda rows: b"\n".join(msgspec.json.encode(row) for row in rows),
    ARROW: as_arrow,
}


# ---- events ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["int64", "string"])
def test_every_form_says_the_same(serve, form, kind):
    served = serve(kind)
    name = int if kind == "int64" else str
    rows = [
        {"src": name(10), "dst": name(11), "op": 1, "weight": 2.5, "t": 1},
        {"src": name(11), "dst": name(12), "op": 1, "weight": 1.0, "t": 2},
        {"src": name(10), "dst": name(11), "op": -1, "weight": 1.0, "t": 3},
    ]
    answer = served.post(FORMS[form](rows), form=form)
    assert answer.status_code == 200
    assert answer.json() == {"sequence": 1, "status": "applied", "applied": 3, "dead": 0, "bad": []}
    live = served.service.live
    assert name(12) in live
    assert name(10) not in live


def test_one_event_needs_no_list(serve):
    served = serve()
    assert served.post({"src": 1, "dst": 77}).json()["applied"] == 1
    assert served.post({"src": 1, "dst": 77, "op": "remove"}).json()["applied"] == 1
    assert served.get("/v1/vectors/77").status_code == 404


@pytest.mark.parametrize(
    "form", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/json ;"]
)
def test_the_type_of_the_body_may_have_parameters(serve, form):
    assert serve().post([], form=form).status_code == 200


def test_written_is_readable(serve):
    """After the answer to a POST every GET is at or behind its sequence, and has the vector."""
    served = serve()
    for number in range(30):
        answer = served.post([{"src": 1, "dst": 1000 + number}])
        found = served.get(f"/v1/vectors/{1000 + number}").json()
        assert found["sequence"] >= answer.json()["sequence"]
        assert found["id"] == 1000 + number
        assert served.get("/v1/status").json()["sequence"] >= answer.json()["sequence"]


def test_an_answer_before_the_update_would_be_noticed(serve, monkeypatch):
    ingest, begun = DurableEmbedding._ingest, []

    def late(self, parts):
        begun.append(threading.Timer(0.1, ingest, [self, parts]))
        begun[-1].start()
        return [Receipt("applied", 1, len(part.batch)) for part in parts]

    monkeypatch.setattr(DurableEmbedding, "_ingest", late)
    with pytest.raises((AssertionError, KeyError)):
        test_written_is_readable(serve)
    for one in begun:
        one.join()


def test_requests_at_once_are_all_answered(serve):
    served = serve()
    answers = []

    def send(number):
        answers.append(served.post([{"src": 1, "dst": 2000 + number}]))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert [answer.status_code for answer in answers] == [200] * 20
    assert all(served.get(f"/v1/vectors/{2000 + number}").status_code == 200 for number in range(20))


# ---- repeats and gaps --------------------------------------------------------------------------------


def rows(*nodes):
    return [{"src": 1, "dst": node} for node in nodes]


def test_a_repeat_changes_nothing(serve):
    served = serve()
    first = served.post(rows(10, 11), client="c", sequence=0)
    assert first.json()["status"] == "applied"
    served.post([{"src": 1, "dst": 10, "op": -1}])  # by someone else
    again = served.post(rows(10, 11), client="c", sequence=0)
    assert again.status_code == 200
    assert again.json()["status"] == "repeated"
    assert (again.json()["applied"], again.json()["dead"]) == (0, 0)
    assert again.json()["sequence"] >= first.json()["sequence"]
    assert served.get("/v1/vectors/10").status_code == 404  # it was not put back


def test_a_gap_is_told_with_what_is_expected(serve):
    served = serve()
    served.post(rows(10, 11), client="c", sequence=0)
    gap = served.post(rows(20), client="c", sequence=3)
    is_problem(gap, 409, "sequence-gap")
    assert gap.json()["expected"] == 2
    assert served.get("/v1/vectors/20").status_code == 404
    assert served.post(rows(12), client="c", sequence=2).json()["status"] == "applied"
    assert served.post(rows(20), client="c", sequence=3).json()["status"] == "applied"


def test_an_overlap_applies_only_what_is_new(serve):
    served = serve()
    served.post(rows(10, 11, 12), client="c", sequence=0)
    served.post([{"src": 1, "dst": node, "op": -1} for node in (10, 11, 12)])
    answer = served.post(rows(11, 12, 13, 14), client="c", sequence=1)
    assert (answer.json()["status"], answer.json()["applied"]) == ("applied", 2)
    found = served.ask("/v1/vectors", {"ids": [10, 11, 12, 13, 14]}).json()
    assert (found["ids"], found["missing"]) == ([13, 14], [10, 11, 12])
    is_problem(served.post(rows(20), client="c", sequence=6), 409)
    assert served.post(rows(20), client="c", sequence=5).json()["applied"] == 1


def test_a_client_begins_at_nought(serve):
    """Else a request that overtakes the first one would hide it."""
    served = serve()
    early = served.post(rows(10), client="new", sequence=1)
    is_problem(early, 409, "sequence-gap")
    assert early.json()["expected"] == 0
    assert served.post(rows(10), client="new", sequence=0).json()["status"] == "applied"


def test_clients_do_not_know_of_each_other(serve):
    served = serve()
    for client in ("a", "b", "a/b", "http:a", "é", "100%"):
        assert served.post(rows(10), client=client, sequence=0).json()["status"] == "applied"
        assert served.post(rows(10), client=client, sequence=0).json()["status"] == "repeated"


def test_bad_events_have_numbers_too(serve):
    served = serve()
    answer = served.post([{"src": 1, "dst": 10}, {"src": 1}, {"src": 1, "dst": 11}], client="c", sequence=0)
    assert (answer.json()["applied"], answer.json()["dead"]) == (2, 1)
    assert served.post(rows(12), client="c", sequence=3).json()["status"] == "applied"
    assert served.post([{"src": 1, "dst": 10}, {"src": 1}], client="c", sequence=0).json()["dead"] == 0
    assert len(served.letters()) == 1


def test_a_repeat_that_is_not_noticed_would_be(serve, monkeypatch):
    served = serve()
    monkeypatch.setattr("dygcn.live.durable.source_batch.SourceBatch.after", lambda self, last: self)
    with pytest.raises(AssertionError):
        test_an_overlap_applies_only_what_is_new(lambda: served)


def test_clients_survive_a_restart(folder):
    path = folder()
    with serving(on_loopback(path)) as served:
        served.post(rows(10, 11), client="c", sequence=0)
    with serving(on_loopback(path)) as served:
        assert served.post(rows(10, 11), client="c", sequence=0).json()["status"] == "repeated"
        assert served.post(rows(11, 12), client="c", sequence=1).json()["applied"] == 1
        is_problem(served.post(rows(11, 12), client="c", sequence=9), 409)


@pytest.mark.parametrize(
    "params",
    [
        {"client": "c"},
        {"sequence": 0},
        {"client": "c", "sequence": -1},
        {"client": "c", "sequence": "first"},
        {"client": "c", "sequence": 1.5},
        {"client": "c", "sequence": 2**63},
        {"client": "c", "sequence": "9" * 30},
        {"client": "c" * 101, "sequence": 0},
        {"client": "é" * 100, "sequence": 0},
        {"client": "\n", "sequence": 0},
        {"client": "\x00", "sequence": 0},
    ],
)
def test_a_sender_must_be_named_properly(serve, params):
    served = serve()
    is_problem(served.post(rows(10), **params), 400, "bad-option")
    assert served.get("/v1/vectors/10").status_code == 404


def test_a_request_without_events_has_no_number(serve):
    served = serve()
    is_problem(served.post([], client="c", sequence=0), 400)
    assert served.post([]).json()["applied"] == 0


def test_no_more_clients_than_can_be_followed(serve, monkeypatch):
    monkeypatch.setattr("dygcn.live.durable.source_batch.MOST_CLIENTS", 2)
    served = serve()
    for client in ("a", "b"):
        assert served.post(rows(10), client=client, sequence=0).status_code == 200
    full = served.post(rows(10), client="c", sequence=0)
    is_problem(full, 429, "too-many-clients")
    assert int(full.headers["retry-after"]) > 0
    assert served.post(rows(11), client="a", sequence=1).status_code == 200


def test_an_administrator_forgets_a_client(serve, monkeypatch):
    monkeypatch.setattr("dygcn.live.durable.source_batch.MOST_CLIENTS", 1)
    served = serve()
    assert served.post([*rows(10), *rows(11)], client="a/b", sequence=0).status_code == 200
    is_problem(served.post(rows(12), client="c", sequence=0), 429, "too-many-clients")
    found = served.client.delete("/v1/clients/a%2Fb").json()
    assert (found["client"], found["known"], found["expected"]) == ("a/b", True, 2)
    assert served.client.delete("/v1/clients/a%2Fb").json()["known"] is False
    assert served.post(rows(12), client="c", sequence=0).status_code == 200
    digest = served.service.live.digest()
    for sequence in (0, 1, 2, 7):
        result = served.post(rows(13), client="a/b", sequence=sequence)
        is_problem(result, 409, "forgotten-client")
        assert result.json()["expected"] == 2
        assert "sequence=2&expected=2" in result.json()["detail"]
    assert served.service.live.digest() == digest
    is_problem(served.post(rows(13), client="a/b", sequence=3, expected=2), 400, "bad-option")
    is_problem(served.post(rows(13), client="a/b", sequence=2, expected=2), 429, "too-many-clients")
    served.client.delete("/v1/clients/c")
    assert served.post(rows(13), client="a/b", sequence=2, expected=2).json()["applied"] == 1
    assert served.post(rows(14), client="a/b", sequence=3).json()["applied"] == 1
    is_problem(served.client.delete("/v1/clients/" + "x" * 101), 400, "bad-option")


def test_silent_clients_make_room_after_the_time_that_is_set(serve, monkeypatch):
    monkeypatch.setattr("dygcn.live.durable.source_batch.MOST_CLIENTS", 1)
    served = serve(limits=Limits(client_idle_seconds=1e-9))
    for client in ("a", "b", "c"):
        assert served.post(rows(10), client=client, sequence=0).status_code == 200
    is_problem(served.post(rows(11), client="a", sequence=1), 409, "forgotten-client")


# ---- dead letters ------------------------------------------------------------------------------------

MIXED = [
    {"src": 1, "dst": 10},
    {"src": 1.5, "dst": 11},
    {"src": 1, "dst": 12},
    {"src": 1, "dst": 13, "weight": 0},
    {"src": 1, "dst": 14, "weight": 1e30},  # can be read, and is more than sums can carry
    {"src": "ann", "dst": 15},
    {"src": 1, "dst": 16, "op": 7},
    {"src": 1, "dst": 17},
    "event",
]
BAD = [1, 3, 4, 5, 6, 8]


@pytest.mark.parametrize("client", [{}, {"client": "c", "sequence": 0}])
@pytest.mark.parametrize("form", [JSON, NDJSON])
def test_a_bad_event_stops_nobody(serve, form, client):
    served = serve()
    answer = served.post(FORMS[form](MIXED), form=form, **client).json()
    assert (answer["applied"], answer["dead"]) == (3, 6)
    result = {one["row"]: one["reason"] for one in answer["bad"]}
    assert set(result) == set(BAD) - {4}  # that one is only known when it is applied
    assert "never floats" in result[1]
    found = served.ask("/v1/vectors", {"ids": [10, 12, 17, 11, 13, 14, 15, 16]}).json()
    assert found["ids"] == [10, 12, 17]
    letters = served.letters()
    assert sorted(one["row"] for one in letters) == BAD
    if client:
        assert {(one["stream"], one["offset"]) for one in letters} == {("http:c", 8)}
    for one in letters:
        event = msgspec.json.decode(one["event"])
        expected = MIXED[one["row"]]
        assert event == expected if one["row"] != 4 else event["dst"] == expected["dst"]
        assert one["reason"]
    assert served.get("/v1/status").json()["traffic"]["dead_letters"] == 6
    assert served.get("/v1/dead-letters").json()["total"] == 6


def test_bad_arrow_rows_are_told_apart(serve):
    served = serve()
    schema = pa.schema([("src", pa.int64()), ("dst", pa.int64()), ("weight", pa.float64())])
    columns = [[1, None, 1, 1], [10, 11, 12, 13], [1.0, 1.0, -1.0, 2.0]]
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.record_batch([pa.array(one) for one in columns], schema=schema))
    answer = served.post(sink.getvalue(), form=ARROW, client="c", sequence=0).json()
    assert (answer["applied"], answer["dead"]) == (2, 2)
    assert [one["row"] for one in answer["bad"]] == [1, 2]
    assert sorted((one["offset"], one["row"]) for one in served.letters()) == [(3, 1), (3, 2)]


def test_letters_of_requests_without_a_name_are_told_apart(serve):
    served = serve()
    for _ in range(3):
        served.post([{"src": 1}, {"src": 1, "dst": 2, "weight": 1e30}])
    letters = served.letters()
    assert len(letters) == 6
    assert len({(one["offset"], one["row"]) for one in letters}) == 6


def test_dropped_letters_would_be_noticed(serve, monkeypatch):
    monkeypatch.setattr("dygcn.live.durable.storage.dead_letters.bury", lambda db, dead: None)
    with pytest.raises(AssertionError):
        test_a_bad_event_stops_nobody(serve, JSON, {"client": "c", "sequence": 0})


def test_dead_letters_come_page_by_page_newest_first(serve):
    served = serve()
    for number in range(7):
        served.post([{"src": number}])
    seen, before = [], {}
    while page := served.get("/v1/dead-letters", limit=3, **before).json()["dead_letters"]:
        seen += page
        before = {"before": page[-1]["number"]}
    numbers = [one["number"] for one in seen]
    assert numbers == sorted(numbers, reverse=True)
    assert len(seen) == 7
    assert [msgspec.json.decode(one["event"])["src"] for one in seen] == [6, 5, 4, 3, 2, 1, 0]
    for wrong in ({"limit": 0}, {"limit": 1001}, {"before": -1}, {"before": "x"}):
        is_problem(served.get("/v1/dead-letters", **wrong), 400)


def test_only_the_first_ten_bad_events_are_told_in_the_answer(serve):
    answer = serve().post([1] * 30).json()
    assert answer["dead"] == 30
    assert [one["row"] for one in answer["bad"]] == list(range(10))


@pytest.mark.parametrize(
    ("form", "body"),
    [
        (JSON, b""),
        (JSON, b"{"),
        (JSON, b"nonsense"),
        (JSON, b"\xff\xfe"),
        (JSON, b'{"src": 1, "dst": 2} trailing'),
        (JSON, b"[" * 100_000),
        (ARROW, b""),
        (ARROW, b"nonsense"),
        (ARROW, as_arrow([{"from": 1, "to": 2}])),
        (ARROW, as_arrow([{"src": "a", "dst": "b"}])),
    ],
)
def test_a_body_that_cannot_be_read_at_all_is_refused(serve, form, body):
    served = serve()
    is_problem(served.post(body, form=form), 400)
    assert served.letters() == []
    assert served.get("/v1/status").json()["sequence"] == 0


def test_far_ahead_of_the_clock_is_a_dead_letter_where_a_unit_is_declared(serve):
    served = serve(time_unit="s")
    answer = served.post([{"src": 1, "dst": 2, "t": 5}, {"src": 1, "dst": 3, "t": 99_999_999_999}]).json()
    assert (answer["applied"], answer["dead"]) == (1, 1)
    assert "clock" in answer["bad"][0]["reason"]
    assert serve().post([{"src": 1, "dst": 3, "t": 99_999_999_999}]).json()["applied"] == 1
