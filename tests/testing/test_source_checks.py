"""The checks of sources let a right one pass and no wrong one."""

import time

import pytest

from dygcn.engine.records import Message
from dygcn.errors import SourceError
from dygcn.testing import SOURCE_CHECKS, check_source, source_checks


class ListSource:
    """A right source, on two lists."""

    def __init__(self, lists):
        self.lists = lists
        self.places = None

    name = "lists"

    def open(self, after):
        self.places = {stream: after.get(stream, -1) for stream in self.lists}

    def read(self, limit, timeout):
        if self.places is None:
            raise SourceError("not open")
        until = time.monotonic() + timeout
        while True:
            found = self.now(limit)
            if found or time.monotonic() >= until:
                return found
            time.sleep(0.005)

    def now(self, limit):
        found = []
        for stream, bodies in self.lists.items():
            begin = self.places[stream] + 1
            part = bodies[begin : begin + limit - len(found)]
            found += [Message(stream, begin + at, body) for at, body in enumerate(part)]
            self.places[stream] += len(part)
        return found

    def lag(self):
        if self.places is None:
            return None
        return sum(len(bodies) - 1 - self.places[stream] for stream, bodies in self.lists.items())

    def close(self):
        self.places = None


class OneTooFar(ListSource):
    def open(self, after):
        super().open({stream: place + 1 for stream, place in after.items()})


class OneTooEarly(ListSource):
    def open(self, after):
        super().open({stream: place - 1 for stream, place in after.items()})


class FromTheBeginning(ListSource):
    def open(self, after):
        super().open({})


class FromTheEnd(ListSource):
    def open(self, after):
        super().open({stream: len(bodies) - 1 for stream, bodies in self.lists.items()} | dict(after))


class PlacesOfOthers(ListSource):
    def open(self, after):
        super().open({stream: max(after.values(), default=-1) for stream in self.lists})


class NotAgain(ListSource):
    opened = False

    def open(self, after):
        if self.opened:
            raise SourceError("once is enough")
        self.opened = True
        super().open(after)


class GoesOn(ListSource):
    """Opened again, it stays where it is."""

    def open(self, after):
        if self.places is None:
            super().open(after)


class Backwards(ListSource):
    def read(self, limit, timeout):
        return super().read(limit, timeout)[::-1]


class Twice(ListSource):
    def read(self, limit, timeout):
        found = super().read(limit, timeout)
        return [*found, *found[-1:]]


class MoreThanAsked(ListSource):
    def read(self, limit, timeout):
        return super().read(limit + 1, timeout)


class DropsTheRest(ListSource):
    def read(self, limit, timeout):
        return super().read(1000, timeout)[:limit]


class DropsEveryTenth(ListSource):
    def read(self, limit, timeout):
        return [message for message in super().read(limit, timeout) if message.offset % 10]


class DoesNotWait(ListSource):
    def read(self, limit, timeout):
        return super().read(limit, 0.0)


class WaitsForEver(ListSource):
    def read(self, limit, timeout):
        return super().read(limit, timeout + 3.0)


class WaitsForMore(ListSource):
    """Takes all the time that it has, in the hope of more."""

    def read(self, limit, timeout):
        until, found = time.monotonic() + timeout, []
        while len(found) < limit and time.monotonic() < until:
            found += super().read(limit - len(found), 0.01)
        return found or super().read(limit, 0.0)


class OnePosition(ListSource):
    def read(self, limit, timeout):
        return [Message(message.stream, 7, message.body) for message in super().read(limit, timeout)]


class NegativePositions(ListSource):
    def read(self, limit, timeout):
        return [
            Message(message.stream, message.offset - 10**6, message.body)
            for message in super().read(limit, timeout)
        ]


class OtherNames(ListSource):
    """Streams are called otherwise after every start."""

    def open(self, after):
        self.mark = f"#{time.monotonic_ns()}"
        super().open({stream.partition("#")[0]: place for stream, place in after.items()})

    def read(self, limit, timeout):
        return [
            Message(message.stream + self.mark, message.offset, message.body)
            for message in super().read(limit, timeout)
        ]


class Nameless(ListSource):
    @property
    def name(self):
        return f"lists {time.monotonic_ns()}"


class ReadWhenClosed(ListSource):
    def read(self, limit, timeout):
        return [] if self.places is None else super().read(limit, timeout)


class ClosedOnce(ListSource):
    def close(self):
        if self.places is None:
            raise SourceError("closed already")
        super().close()


class CutsBodies(ListSource):
    def read(self, limit, timeout):
        return [
            Message(message.stream, message.offset, message.body[:100_000])
            for message in super().read(limit, timeout)
        ]


class OnlyAscii(ListSource):
    def read(self, limit, timeout):
        return [
            Message(message.stream, message.offset, message.body.decode().encode("ascii", "replace"))
            for message in super().read(limit, timeout)
        ]


class NoLagAtAll(ListSource):
    def lag(self):
        return None if self.places is None else 0


class AlwaysLags(ListSource):
    def lag(self):
        return None if self.places is None else 5


MUTANTS = {
    OneTooFar: "resume",
    OneTooEarly: "resume",
    FromTheBeginning: "resume",
    FromTheEnd: "beginning",
    PlacesOfOthers: "beginning",
    NotAgain: "closing",
    GoesOn: "twice",
    Backwards: "order",
    Twice: "while_published",
    MoreThanAsked: "limit",
    DropsTheRest: "limit",
    DropsEveryTenth: "while_published",
    DoesNotWait: "timeout",
    WaitsForEver: "timeout",
    WaitsForMore: "timeout",
    OnePosition: "order",
    NegativePositions: "order",
    OtherNames: "names",
    Nameless: "names",
    ReadWhenClosed: "closing",
    ClosedOnce: "closing",
    CutsBodies: "bodies",
    OnlyAscii: "bodies",
    NoLagAtAll: "lag",
    AlwaysLags: "lag",
}


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch):
    for name, value in (("PATIENCE", 1.5), ("PROMPT", 1.0), ("QUIET", 0.02), ("FIRST", 0.05)):
        monkeypatch.setattr(source_checks, name, value)


def place(kind):
    lists = {"list:a": [], "list:b": []}

    def publish(bodies):
        for number, body in enumerate(bodies):
            lists["list:a" if number % 3 else "list:b"].append(body)

    return (lambda: kind(lists)), publish


def test_a_right_source_passes():
    check_source(*place(ListSource))


@pytest.mark.parametrize("kind", MUTANTS, ids=lambda kind: kind.__name__)
def test_a_wrong_source_would_be_noticed(kind):
    with pytest.raises((AssertionError, SourceError)):
        SOURCE_CHECKS[MUTANTS[kind]](*place(kind))


def test_every_check_finds_something_and_every_wrong_source_is_looked_at():
    assert set(MUTANTS.values()) == set(SOURCE_CHECKS)
    assert set(MUTANTS) == set(ListSource.__subclasses__())
