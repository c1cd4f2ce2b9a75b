"""Connections that wait: bounded, woken by news, told only what moved, and let go at the end."""

import asyncio
import socket
import threading
import time
from contextlib import contextmanager, suppress

import httpx
import msgspec
import numpy as np
import pytest

from dygcn.schema.answers import Changes, MovedNode
from dygcn.serving.service.changes import Waiters, stream_changes
from dygcn.serving.service.ingest_queue import Overloaded
from dygcn.serving.service.settings import Limits
from tests.serving.service.serving import is_problem, on_loopback, serving

NOTHING = Changes(5, "5", "5", False, False, [], [])
NEWS = Changes(6, "6", "6", False, False, [MovedNode(1, 6, [0.0])], [])
STREAM = {"accept": "text/event-stream"}


def now(served):
    """The place behind everything: for whoever wants news alone."""
    return served.get("/v1/changes", limit=1).json()["latest"]


# ---- whoever waits -----------------------------------------------------------------------------------


def test_only_so_many_may_wait():
    waiters = Waiters(2)
    waiters.enter()
    with waiters.entered(True):
        with pytest.raises(Overloaded, match="2 connections wait"):
            waiters.enter()
        with waiters.entered(False):  # whoever does not wait is not counted
            pass
    waiters.enter()
    with pytest.raises(Overloaded):
        waiters.enter()
    waiters.leave()
    waiters.enter()


def test_an_error_while_waiting_gives_the_place_back():
    waiters = Waiters(1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), waiters.entered(True):
            raise ZeroDivisionError
    waiters.enter()


def reading(read):
    async def page():
        return read()

    return page


def test_what_is_there_is_answered_at_once():
    begun = time.monotonic()
    assert asyncio.run(Waiters(1).until_news(reading(lambda: NEWS), 60)) is NEWS
    assert asyncio.run(Waiters(1).until_news(reading(lambda: NOTHING), 0)) is NOTHING
    assert time.monotonic() - begun < 60


def test_a_wait_ends_in_time():
    begun = time.monotonic()
    assert asyncio.run(Waiters(1).until_news(reading(lambda: NOTHING), 0.2)) is NOTHING
    assert time.monotonic() - begun > 0.15


def test_news_from_another_thread_wake_everyone():
    waiters, pages = Waiters(9), [NOTHING]

    async def wait():
        waiters.begin()

        def apply():
            time.sleep(0.1)
            waiters.wake()  # of something else
            time.sleep(0.1)
            pages[0] = NEWS
            waiters.wake()
            waiters.wake()

        threading.Thread(target=apply).start()
        return await asyncio.gather(*(waiters.until_news(reading(lambda: pages[0]), 60) for _ in range(5)))

    begun = time.monotonic()
    assert asyncio.run(wait()) == [NEWS] * 5
    assert 0.15 < time.monotonic() - begun < 60


def test_news_between_reading_and_waiting_are_not_lost():
    """The bell is taken before the page is read."""
    waiters, pages = Waiters(9), [NOTHING]

    async def read():
        found = pages[0]
        pages[0] = NEWS
        waiters._ring()  # right behind the read
        return found

    assert asyncio.run(asyncio.wait_for(waiters.until_news(read, 20), 1)) is NEWS


def test_a_bell_that_is_taken_too_late_would_be_noticed(monkeypatch):
    class Late(Waiters):
        async def until_news(self, read, wait):
            while not (found := await read()).moved:
                await asyncio.wait_for(self._news.wait(), wait)
            return found

    monkeypatch.setitem(globals(), "Waiters", Late)
    with pytest.raises(TimeoutError):
        test_news_between_reading_and_waiting_are_not_lost()


def test_the_end_lets_everyone_go():
    waiters = Waiters(9)

    async def wait():
        waiters.begin()
        asyncio.get_running_loop().call_later(0.1, waiters.end)
        return await waiters.until_news(reading(lambda: NOTHING), 60)

    begun = time.monotonic()
    assert asyncio.run(wait()) is NOTHING
    assert time.monotonic() - begun < 60
    waiters.wake()  # the loop is closed, and nobody minds


# ---- asking again and again -----------------------------------------------------------------------------


def test_only_what_moved_is_told(serve):
    served = serve()
    place = served.get("/v1/changes", since="").json()
    assert place["reset"] is True
    assert {one["id"] for one in place["moved"]} == {1, 2, 3, 4, 5}
    served.post([{"src": 100, "dst": 101}])
    page = served.get("/v1/changes", since=place["next"]).json()
    assert {one["id"] for one in page["moved"]} == {100, 101}
    assert (page["reset"], page["more"], page["left"]) == (False, False, [])
    assert served.get("/v1/changes", since=page["next"]).json()["moved"] == []
    served.post([{"src": 100, "dst": 101, "op": -1}])
    gone = served.get("/v1/changes", since=page["next"]).json()
    assert gone["moved"] == []
    assert {one["id"] for one in gone["left"]} == {100, 101}


def test_a_node_that_moved_often_is_told_once(serve):
    served = serve()
    since = now(served)
    for weight in (2.0, 3.0, 4.0):
        served.post([{"src": 1, "dst": 2, "weight": weight}])
    page = served.get("/v1/changes", since=since).json()
    ids = [one["id"] for one in page["moved"]]
    assert len(ids) == len(set(ids))
    for one in page["moved"]:
        assert np.array_equal(np.array(one["vector"], np.float32), served.service.live[one["id"]])


def test_pages_add_up_to_everything_in_order(serve):
    served = serve(edges=[(a, a + 1) for a in range(50)])
    seen, place, pages = [], "", 0
    while True:
        page = served.get("/v1/changes", since=place, limit=7).json()
        seen += [one["id"] for one in page["moved"]]
        assert page["reset"] is (pages == 0)
        place, pages = page["next"], pages + 1
        if not page["more"]:
            break
    assert sorted(seen) == list(range(51))
    assert pages == 8


def test_a_long_poll_waits_for_news(serve):
    served = serve()
    since = now(served)
    threading.Timer(0.3, lambda: served.post([{"src": 7, "dst": 8}])).start()
    begun = time.monotonic()
    page = served.get("/v1/changes", since=since, wait=60).json()
    assert {one["id"] for one in page["moved"]} == {7, 8}
    assert 0.2 < time.monotonic() - begun < 60
    begun = time.monotonic()
    page = served.get("/v1/changes", since=page["next"], wait=0.3).json()
    assert page["moved"] == []
    assert time.monotonic() - begun > 0.25


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"since": "x"}, "is not a cursor"),
        ({"since": "1.2"}, "is not a cursor"),
        ({"since": "00112233aabbccdd.5"}, "is not a cursor"),
        ({"since": "-1"}, "is not a cursor"),
        ({"since": "99999999999999999999"}, "is not a cursor"),
        ({"limit": "0"}, "limit is '0'"),
        ({"limit": "1001"}, "from 1 to 1000"),
        ({"limit": "ten"}, "limit is 'ten'"),
        ({"wait": "61"}, "from 0 to 60"),
        ({"wait": "-1"}, "from 0 to 60"),
        ({"wait": "nan"}, "from 0 to 60"),
        ({"wait": "soon"}, "wait is 'soon'"),
    ],
)
def test_wrong_questions_are_told(serve, params, named):
    served = serve()
    assert named in is_problem(served.get("/v1/changes", **params), 400, "bad-option")
    if "wait" not in params:
        assert named in is_problem(served.client.get("/v1/changes", params=params, headers=STREAM), 400)


def test_a_bare_number_or_a_place_of_another_history_is_a_new_beginning(serve):
    """It says nothing of what its reader was shown."""
    served = serve()
    served.post([{"src": 9, "dst": 10}])
    epoch, sequence, chain = now(served).split(".")
    other = "00112233aabbccdd"
    for place in ("0", sequence, "12345", f"{other}.{sequence}.{chain}", f"{epoch}.{sequence}.{other}"):
        page = served.get("/v1/changes", since=place).json()
        assert (page["reset"], len(page["moved"]), page["left"]) == (True, 7, [])
        assert page["next"] == page["latest"] == now(served)


def test_every_latest_is_a_place(serve):
    """Also where nothing moved behind it: bad events, no events, refused ones."""
    served = serve()
    for body in ([{"src": 9, "dst": 10}], [1], [], [{"src": 9, "dst": 10, "weight": 1e30}]):
        before = now(served)
        served.post(body)
        page = served.get("/v1/changes", since=before).json()
        assert page["reset"] is False
        assert served.get("/v1/changes", since=page["latest"]).json()["moved"] == []


def test_a_page_is_bounded_in_ids_that_left_too(serve):
    served = serve()
    served.post([{"src": 1, "dst": 100 + n} for n in range(300)])
    place = now(served)
    served.post([{"src": 1, "dst": 100 + n, "op": -1} for n in range(300)])
    seen, pages = [], []
    while True:
        page = served.get("/v1/changes", since=place, limit=70).json()
        seen += [one["id"] for one in page["left"]]
        pages.append(len(page["left"]) + len(page["moved"]))
        assert all(one["version"] == page["sequence"] for one in page["left"] + page["moved"])
        place = page["next"]
        if not page["more"]:
            break
    assert sorted(seen) == list(range(100, 400))
    assert pages[:4] == [70] * 4
    assert max(pages) <= 70


def test_a_page_that_is_empty_and_has_more_is_answered_at_once():
    page = Changes(5, "4", "5", False, True, [], [])
    assert asyncio.run(asyncio.wait_for(Waiters(1).until_news(reading(lambda: page), 30), 20)) is page


# ---- streams -------------------------------------------------------------------------------------------


class Listener(threading.Thread):
    """Reads a stream of changes, and keeps what it was told."""

    def __init__(self, address, headers=None, **params):
        super().__init__(daemon=True)
        self._client = httpx.Client(base_url=address, timeout=20)
        self._asked = {"params": params, "headers": {**STREAM, **(headers or {})}}
        self.pages, self.ids, self.lines = [], [], []
        self.changed = threading.Condition()
        self.ended = False
        self._response = None

    def run(self):
        try:
            with self._client.stream("GET", "/v1/changes", **self._asked) as response:
                self._response = response
                assert response.headers["content-type"].startswith("text/event-stream")
                assert response.headers["cache-control"] == "no-store"
                for line in response.iter_lines():
                    self._take(line)
        except httpx.HTTPError:
            pass
        self._client.close()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def _take(self, line):
        with self.changed:
            self.lines.append(line)
            if line.startswith("id: "):
                self.ids.append(line[4:])
            if line.startswith("data: "):
                self.pages.append(msgspec.json.decode(line[6:]))
            self.changed.notify_all()

    def until(self, ready):
        with self.changed:
            assert self.changed.wait_for(lambda: ready(self), timeout=20)

    def hang_up(self):
        connection = self._response.extensions["network_stream"].get_extra_info("socket")
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        self.join(20)

    def moved(self):
        return [one["id"] for page in self.pages for one in page["moved"]]


@contextmanager
def listening(served, headers=None, **params):
    listener = Listener(served.address, headers, **params)
    listener.start()
    listener.until(lambda one: one.lines or one.ended)
    try:
        yield listener
    finally:
        listener.hang_up()


def test_a_stream_goes_on_where_the_place_is(serve):
    served = serve()
    since = now(served)
    with listening(served, since=since) as listener:
        served.post([{"src": 50, "dst": 51}])
        listener.until(lambda one: 50 in one.moved())
        served.post([{"src": 51, "dst": 52}])
        listener.until(lambda one: 52 in one.moved())
        assert set(listener.moved()) == {50, 51, 52}
        last = listener.ids[-1]
    served.post([{"src": 60, "dst": 61}])
    with listening(served, {"last-event-id": last}, since=since) as listener:
        listener.until(lambda one: 60 in one.moved())
        assert set(listener.moved()) == {60, 61}  # and not what was told before the line broke


def test_a_stream_that_forgets_its_place_would_be_noticed(serve, monkeypatch):
    monkeypatch.setattr(
        "dygcn.serving.service.changes.stream_changes",
        lambda service, waiters, since, limit, gone: stream_changes(service, waiters, "", limit, gone),
    )
    with pytest.raises(AssertionError):
        test_a_stream_goes_on_where_the_place_is(serve)


def test_changes_gather(serve):
    """A node that moves a hundred times in a moment is not told a hundred times."""
    served = serve()
    since = now(served)
    with listening(served, since=since) as listener:
        for weight in range(1, 101):
            served.post([{"src": 50, "dst": 51, "weight": weight}])
        served.post([{"src": 50, "dst": 99}])
        listener.until(lambda one: 99 in one.moved())
        assert listener.moved().count(50) < 50
        last = {one["id"]: one["vector"] for page in listener.pages for one in page["moved"]}
        for node in (50, 51, 99):
            assert np.array_equal(np.array(last[node], np.float32), served.service.live[node])


def test_a_stream_begins_with_everything_where_no_place_is_given(serve):
    served = serve(edges=[(a, a + 1) for a in range(30)])
    with listening(served, limit=10) as listener:
        listener.until(lambda one: len(one.moved()) == 31)
        assert [page["reset"] for page in listener.pages] == [True, False, False, False]


def test_quiet_streams_are_quiet(serve):
    served = serve()
    since = now(served)
    served.post([1])  # a bad event: the sequence goes on, nothing moves
    with listening(served, since=since) as listener:
        time.sleep(1.0)
        assert len(listener.lines) < 10


def test_only_so_many_streams(serve):
    served = serve(limits=Limits(feeds=2))
    since = now(served)
    with listening(served, since=since), listening(served, since=since):
        answer = served.client.get("/v1/changes", params={"since": since}, headers=STREAM)
        is_problem(answer, 429, "overloaded")
        assert int(answer.headers["retry-after"]) > 0
        is_problem(served.get("/v1/changes", since=since, wait=5), 429, "overloaded")
        assert served.get("/v1/changes", since=since).status_code == 200  # it does not wait
    _until(lambda: served.get("/v1/changes", since=since, wait=0.01).status_code == 200)


def test_whoever_leaves_at_once_gives_the_place_back(serve):
    served = serve(limits=Limits(feeds=4))
    host, port = served.address.removeprefix("http://").split(":")
    asked = f"GET /v1/changes HTTP/1.1\r\nHost: {host}:{port}\r\nAccept: text/event-stream\r\n\r\n".encode()
    for number in range(60):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(asked)
            if number % 2:
                connection.recv(1)
            elif number % 3:
                time.sleep(0.002)
    for _ in range(3):
        _until(lambda: served.get("/v1/changes", since=0, wait=0.01).status_code == 200)
    _until(lambda: served.server._waiters._count == 0)


def test_a_head_request_holds_no_place(serve):
    served = serve(limits=Limits(feeds=1))
    for _ in range(3):
        answer = served.client.head("/v1/changes", headers=STREAM)
        assert (answer.status_code, answer.content) == (200, b"")
    assert served.get("/v1/changes", wait=0.01).status_code == 200


def test_a_drain_lets_streams_and_polls_go(folder):
    with serving(on_loopback(folder())) as served:
        since = now(served)
        listener = Listener(served.address, since=since)
        listener.start()
        listener.until(lambda one: one.lines)
        answers = []
        poll = threading.Thread(
            target=lambda: answers.append(served.get("/v1/changes", since=since, wait=60)), daemon=True
        )
        poll.start()
        time.sleep(0.2)
        begun = time.monotonic()
        served.server.should_exit = True
        listener.until(lambda one: one.ended)
        listener.join(20)
        poll.join(60)
        assert time.monotonic() - begun < 60
        assert answers[0].status_code == 200


def _until(ready, seconds=10):
    until = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < until
        time.sleep(0.02)
