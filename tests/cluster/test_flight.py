"""Messages over Arrow Flight: who is stale, a stranger or at the wrong address is not listened to."""

import threading
import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from pyarrow import flight

from dygcn.cluster import flight as posts
from dygcn.cluster.certificates import made_in
from dygcn.cluster.flight import Post
from dygcn.cluster.messages import Member, Members, Progress, Resend
from dygcn.cluster.queries import OutcomeQuery, VectorReply
from dygcn.errors import CapacityError


class Side:
    """A process, as others see it."""

    def __init__(self, number, epoch=1, credentials=None, answer=lambda query: None):
        self.got, self._came = [], threading.Condition()
        self.post = Post(number, credentials or of_cluster("ours"), self._take, answer)
        self.post.epoch = epoch

    def _take(self, message):
        with self._came:
            self.got.append(message)
            self._came.notify_all()

    def wait_for(self, count):
        with self._came:
            assert self._came.wait_for(lambda: len(self.got) >= count, 60), self.got

    @property
    def member(self):
        return Member(self.post.number, self.post.epoch, self.post.location)


@cache
def of_cluster(name):
    """Return what processes of a cluster show to each other."""
    with TemporaryDirectory() as folder:
        return made_in(Path(folder)).read()


@pytest.fixture
def sides():
    """Make processes, and end them."""
    made = []

    def make(number, *how, **named):
        made.append(Side(number, *how, **named))
        return made[-1]

    yield make
    for side in made:
        side.post.close()


def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def introduce(*sides, version=1):
    members = Members(1, version, tuple(side.member for side in sides))
    for side in sides:
        side.post.connect(members)


def test_messages_arrive_in_order(sides):
    a, b = sides(0), sides(1)
    introduce(a, b)
    for done in range(1_000):
        a.post.send(1, Progress(0, done))
    b.wait_for(1_000)
    assert [message.done for message in b.got] == list(range(1_000))
    assert (a.post.sent, a.post.dropped, b.post.refused) == (1_000, 0, 0)
    assert b.post.location.startswith("grpc+tls://127.0.0.1:")
    b.post.send(0, Resend(1, 7))
    a.wait_for(1)
    assert a.got == [Resend(1, 7)]


def test_a_stale_sender_is_refused(sides):
    stale, b = sides(0, epoch=3), sides(1)
    introduce(stale, b)
    stale.post.connect(Members(1, 0, ()))  # an older list of members changes nothing
    stale.post.send(1, Progress(0, 1))
    b.wait_for(1)
    successor = sides(0, epoch=4)
    introduce(successor, b, version=2)
    stale.post.send(1, Progress(0, 2))
    until(lambda: b.post.refused == 1)
    successor.post.send(1, Progress(0, 3))
    b.wait_for(2)
    assert [message.done for message in b.got] == [1, 3]


def test_a_message_for_another_is_refused(sides):
    """The port of a dead process may be that of another shard now."""
    a, other = sides(0), sides(2)
    a.post.connect(Members(1, 1, (Member(1, 1, other.post.location),)))
    a.post.send(1, Progress(0, 5))
    until(lambda: other.post.refused == 1)
    assert other.got == []


@pytest.mark.parametrize(("sender", "epoch"), [(7, 1), (0, 0)])
def test_a_sender_under_another_number_and_a_receiver_without_an_epoch(sides, sender, epoch):
    a, b = sides(0), sides(1, epoch=epoch)
    introduce(a, b)
    a.post.send(1, Progress(sender, 5))
    until(lambda: b.post.refused == 1)
    assert b.got == []


def test_a_process_of_another_cluster_is_refused(sides):
    a, b = sides(0, credentials=of_cluster("another")), sides(1)
    introduce(a, b)
    a.post.send(1, Progress(0, 5))
    until(lambda: a.post.dropped == 1)
    assert b.got == []
    assert a.post.query(b.post.location, OutcomeQuery(1)) is None
    assert not a.post.hangs(b.post.location, 60)


@pytest.mark.parametrize("action", ["send", "query", "other"])
def test_nonsense_is_refused(sides, action):
    a, b = sides(0), sides(1)
    for body in (b"", b"nonsense", posts._encode((0, 1, 1, [b"nonsense"]))):
        if action == "query":
            assert a.post.call(b.post.location, action, body).startswith(b"\2\x93\xacClusterError")
        else:
            with pytest.raises(flight.FlightServerError):
                a.post.call(b.post.location, action, body)
    assert b.got == []


def test_sending_to_a_dead_process_never_waits(sides):
    a, b = sides(0), sides(1)
    introduce(a, b)
    a.post.send(1, Progress(0, 1))
    b.wait_for(1)
    b.post.close()
    for done in range(20_000):
        a.post.send(1, Progress(0, done))
    assert a.post.dropped > 0
    again = sides(1, epoch=2)
    introduce(a, again, version=2)
    a.post.send(1, Resend(0, 3))
    again.wait_for(1)
    assert again.got[-1] == Resend(0, 3)


def test_queries_have_replies(sides):
    rows = VectorReply(3, np.ones(2, np.int8), np.eye(2, dtype=np.float32))

    def answer(query):
        if query.at == 9:
            raise CapacityError("never", row=4)
        return rows if query.at <= 3 else None

    a, b = sides(0), sides(1, answer=answer)
    got = a.post.query(b.post.location, OutcomeQuery(2))
    assert (got.vectors == rows.vectors).all()
    assert a.post.query(b.post.location, OutcomeQuery(4)) is None
    with pytest.raises(CapacityError, match="row 4: never"):
        a.post.query(b.post.location, OutcomeQuery(9))
    b.post.close()
    assert a.post.query(b.post.location, OutcomeQuery(2)) is None


def test_large_messages_arrive(sides):
    rows = VectorReply(3, np.ones(2, np.int8), np.zeros((300_000, 32), np.float32))
    a, b = sides(0), sides(1, answer=lambda query: rows)
    introduce(a, b)
    assert a.post.query(b.post.location, OutcomeQuery(2), 30).vectors.nbytes == 38_400_000
    a.post.send(1, rows)
    b.wait_for(1)


def test_a_seeded_bug_is_noticed(sides, monkeypatch):
    """Messages whose receiver is not checked reach the process that has the port now."""
    decode = posts._decode
    monkeypatch.setattr(posts, "_decode", lambda body: (*decode(body)[:2], 2, decode(body)[3]))
    monkeypatch.setattr("tests.cluster.test_flight.until", lambda condition: time.sleep(0.5))
    with pytest.raises(AssertionError):
        test_a_message_for_another_is_refused(sides)
