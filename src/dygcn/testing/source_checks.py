"""The contract of sources, as checks for any of them."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING, TypeAlias

from dygcn.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dygcn.engine.records import Message
    from dygcn.serving.sources import Source

    Make: TypeAlias = Callable[[], Source]
    Publish: TypeAlias = Callable[[list[bytes]], None]
    Offsets: TypeAlias = dict[str, int]

PATIENCE = 30.0  # seconds until a message that was published must have come
QUIET = 0.3  # seconds after which no further message is expected
FIRST = 1.0  # seconds after which a stream is taken for empty
PROMPT = 5.0  # seconds in which a read that waits returns what has come
SLACK = 2.0  # seconds that a read may take beyond its timeout
LARGE = 500_000
ODD = (
    "ø",
    "日本語",
    "🦜",
    "e\u0301",
    "\u2028",
    "\ufeff",
    "\U0010ffff",
    '"',
    "\\",
    "\t",
    "\x00",
    "{}",
    "a" * 300,
)


def check_source(make: Make, publish: Publish) -> None:
    """Check that a source does what `dygcn.serving.sources.Source` promises.

    Parameters
    ----------
    make
        Returns a new source, not open yet, each time that it is called; all read the same.
    publish
        Appends messages to what is read, in their order; returns when a reader can see them. Bodies are JSON
        on one line. Nobody else may publish meanwhile.

    Raises
    ------
    AssertionError
        If it does not; the text says what was expected.
    """
    for check in SOURCE_CHECKS.values():
        check(make, publish)


def check_order(make: Make, publish: Publish) -> None:
    """Every message comes once, in the order of its stream, at offsets that grow."""
    offsets = _end(make)
    bodies = _bodies("order", 300)
    publish(bodies)
    found = _read(make, offsets, len(bodies))
    _expect_same(found, bodies)
    _expect_order(found, bodies)
    for stream, messages in _by_stream(found).items():
        each = [offset for offset, _, _ in messages]
        _expect(all(0 <= at < 1 << 63 for at in each), f"offsets of {stream} are within 0..2^63 - 1")
        _expect(sorted(set(each)) == each, f"offsets of {stream} grow from message to message")
        _expect(each[0] > offsets.get(stream, -1), f"offsets of {stream} go on after the last one read")


def check_resume(make: Make, publish: Publish) -> None:
    """From every offset, exactly the messages after it come."""
    offsets = _end(make)
    bodies = _bodies("resume", 8)
    publish(bodies)
    found = _read(make, offsets, len(bodies))
    for count in range(len(found) + 1):
        reached = _advanced(offsets, found[:count])
        expected, again = found[count:], _read(make, reached, len(found) - count)
        _expect(
            _by_stream(again) == _by_stream(expected),
            f"opened behind {reached}, it reads the {len(expected)} messages behind that, each as before",
        )


def check_twice(make: Make, publish: Publish) -> None:
    """Two readings from one offset are the same, by one source or by two."""
    offsets = _end(make)
    bodies = _bodies("twice", 20)
    publish(bodies)
    first = _read(make, offsets, len(bodies))
    _expect(_by_stream(first) == _by_stream(_read(make, offsets, len(bodies))), "two sources read the same")
    source = make()
    try:
        for _ in range(2):  # without a close between
            source.open(offsets)
            found = _take(source, len(bodies))
            _expect(_by_stream(found) == _by_stream(first), "a source that is opened again reads the same")
    finally:
        source.close()


def check_beginning(make: Make, publish: Publish) -> None:
    """Without a offset, a stream is read from its beginning; offsets of others' streams mean nothing."""
    bodies = _bodies("beginning", 3)
    publish(bodies)
    whole = _read(make, {}, None)
    _expect({message.body for message in whole} >= set(bodies), "without a offset, all is read")
    again = _read(make, {"elsewhere:x": 10**9}, len(whole))
    _expect(_by_stream(again) == _by_stream(whole), "offsets of streams that are not its own change nothing")


def check_timeout(make: Make, publish: Publish) -> None:
    """A read with nothing to read ends in time; one with something does not wait."""
    offsets = _end(make)
    source = make()
    try:
        source.open(offsets)
        for timeout in (0.0, 0.4):
            begun = time.monotonic()
            found = source.read(10, timeout)
            spent = time.monotonic() - begun
            _expect(not found, "behind the last message there is nothing")
            _expect(timeout - 0.05 <= spent <= timeout + SLACK, f"a read of {timeout} s took {spent:.2f} s")
        for delay in (0.0, 0.3):
            body = _bodies(f"timeout {delay}", 1)
            timer = threading.Timer(delay, publish, [body])
            timer.start()
            begun = time.monotonic()
            found = source.read(10, PATIENCE)
            spent = time.monotonic() - begun
            timer.join()
            _expect([message.body for message in found] == body, "a read returns what comes while it waits")
            _expect(
                spent < delay + PROMPT, f"a message came after {delay} s, and the read took {spent:.2f} s"
            )
    finally:
        source.close()


def check_limit(make: Make, publish: Publish) -> None:
    """No read returns more than its limit, and a small limit loses no message."""
    offsets = _end(make)
    bodies = _bodies("limit", 40)
    publish(bodies)
    source = make()
    found: list[Message] = []
    try:
        source.open(offsets)
        until = time.monotonic() + PATIENCE
        for limit in [7, 1, 3, 2, 1, 5, 1000] * len(bodies):
            part = source.read(limit, QUIET)
            _expect(len(part) <= limit, f"asked for {limit}, {len(part)} came")
            found += part
            if len(found) >= len(bodies) or time.monotonic() > until:
                break
        found += source.read(1000, QUIET)
    finally:
        source.close()
    _expect_same(found, bodies)
    _expect_order(found, bodies)


def check_closing(make: Make, publish: Publish) -> None:
    """It may be closed at any time, and opened again; closed, it cannot be read."""
    offsets = _end(make)
    bodies = _bodies("closing", 2)
    publish(bodies)
    source = make()
    source.close()
    for _ in range(2):
        _expect(source.lag() is None, "a source that is not open knows of no lag")
        try:
            source.read(1, 0.0)
        except SourceError:
            pass
        else:
            raise AssertionError("a source that is not open cannot be read: SourceError")
        source.open(offsets)
        _expect(len(_take(source, 2)) == 2, "a source that was closed can be opened again")
        source.close()
        source.close()


def check_bodies(make: Make, publish: Publish) -> None:
    """Bodies come as they were sent, odd ones and large ones."""
    offsets = _end(make)
    bodies = [
        json.dumps({"src": text, "dst": "b"}, ensure_ascii=escaped).encode()
        for text in ODD
        for escaped in {True, text.isascii()}
    ]
    bodies += [
        json.dumps({"src": "a", "dst": "b", "note": "x" * size}).encode() for size in (LARGE, 1, LARGE)
    ]
    publish(bodies)
    _expect_same(_read(make, offsets, len(bodies)), bodies)


def check_while_published(make: Make, publish: Publish) -> None:
    """Messages that are published during reads come, too, in order and once."""
    offsets = _end(make)
    bodies = _bodies("while", 400)
    parts = [bodies[at : at + 10] for at in range(0, len(bodies), 10)]

    def send() -> None:
        for part in parts:
            publish(part)
            time.sleep(0.005)

    sender = threading.Thread(target=send)
    source = make()
    try:
        source.open(offsets)
        sender.start()
        found = _take(source, len(bodies))
    finally:
        source.close()
        if sender.ident is not None:
            sender.join()
    _expect_same(found, bodies)
    _expect_order(found, bodies)


def check_names(make: Make, publish: Publish) -> None:
    """The names of source and streams are the same every time."""
    offsets = _end(make)
    bodies = _bodies("names", 20)
    publish(bodies)
    _expect(bool(make().name), "a source has a name")
    _expect(make().name == make().name, "the name of a source is the same every time")
    streams = {message.stream for message in _read(make, offsets, len(bodies))}
    _expect(all(":" in stream for stream in streams), "a stream's name begins with its kind and a colon")
    again = {message.stream for message in _read(make, offsets, len(bodies))}
    _expect(streams == again, "the names of streams are the same every time")


def check_lag(make: Make, publish: Publish) -> None:
    """Where it is known how much waits, it is nothing once all was read; any thread may ask."""
    offsets = _end(make)
    publish(_bodies("lag", 50))
    source = make()
    answers: list[int | None] = []
    try:
        source.open(offsets)
        source.read(1, PATIENCE)
        asker = threading.Thread(target=lambda: answers.append(source.lag()))
        asker.start()
        asker.join()
        _take(source, 49)
        until = time.monotonic() + 5
        while source.lag() and time.monotonic() < until:
            source.read(1, QUIET)
        answers.append(source.lag())
    finally:
        source.close()
    _expect(len(answers) == 2, "any thread may ask for the lag")
    _expect(answers[0] is None or answers[0] > 0, f"there was more to read, and the lag was {answers[0]}")
    _expect(not answers[1], f"all was read, and the lag is {answers[1]}")


SOURCE_CHECKS: dict[str, Callable[[Make, Publish], None]] = {
    "order": check_order,
    "resume": check_resume,
    "twice": check_twice,
    "beginning": check_beginning,
    "timeout": check_timeout,
    "limit": check_limit,
    "closing": check_closing,
    "bodies": check_bodies,
    "while_published": check_while_published,
    "names": check_names,
    "lag": check_lag,
}


def _bodies(what: str, count: int) -> list[bytes]:
    """Return messages that no other check publishes, in an order that can be read from them."""
    mark = f"{what} {time.monotonic_ns()}"
    return [json.dumps({"src": mark, "dst": str(number)}).encode() for number in range(count)]


def _end(make: Make) -> Offsets:
    """Read all there is and return the offsets reached."""
    return _advanced({}, _read(make, {}, None))


def _read(make: Make, offsets: Mapping[str, int], count: int | None) -> list[Message]:
    source = make()
    try:
        source.open(offsets)
        return _take(source, count)
    finally:
        source.close()


def _take(source: Source, count: int | None) -> list[Message]:
    """Read as many as are expected, and look that no more come; without a number, until none come."""
    found: list[Message] = []
    until = time.monotonic() + PATIENCE
    while count is None or (len(found) < count and time.monotonic() < until):
        part = source.read(1000, QUIET if found or count is not None else FIRST)
        found += part
        if count is None and not part:
            return found
    found += source.read(1000, QUIET)
    return found


def _advanced(offsets: Mapping[str, int], found: Iterable[Message]) -> Offsets:
    return {**offsets, **{message.stream: message.offset for message in found}}


def _by_stream(found: Iterable[Message]) -> dict[str, list[tuple[int, bytes, str]]]:
    streams = defaultdict(list)
    for message in found:
        streams[message.stream].append((message.offset, message.body, message.form))
    return dict(streams)


def _expect(condition: bool, what: str) -> None:
    if not condition:
        raise AssertionError(f"expected: {what}")


def _expect_same(found: Sequence[Message], bodies: Sequence[bytes]) -> None:
    came = sorted(message.body for message in found)
    _expect(len(came) == len(bodies), f"{len(bodies)} messages, {len(came)} came")
    _expect(came == sorted(bodies), "every body comes as it was sent, and once")


def _expect_order(found: Sequence[Message], bodies: Sequence[bytes]) -> None:
    number = {body: at for at, body in enumerate(bodies)}
    for stream, messages in _by_stream(found).items():
        numbers = [number[body] for _, body, _ in messages]
        _expect(numbers == sorted(numbers), f"messages of {stream} come in the order in which they were sent")
