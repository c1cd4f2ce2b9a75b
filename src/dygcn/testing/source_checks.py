"""The contract of sources, as checks for any of them."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, TypeAlias

from dygcn.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

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
    "ø", "日本語", "🦜", "e\u0301", "\u2028", "\ufeff", "\U0010ffff", '"', "\\", "\t", "\x00", "{}",
    "a" * 300,
)  # fmt: skip


def check_order(make: Make, publish: Publish) -> None:
    """Every message comes once, in the order of its stream, at offsets that grow."""
    begun, bodies = _published(make, publish, "order", 300)
    found = _read(make, begun, len(bodies))
    _expect_all(found, bodies)
    for stream, messages in _by_stream(found).items():
        each = [offset for offset, _, _ in messages]
        _expect(all(0 <= at < 1 << 63 for at in each), f"offsets of {stream} are within 0..2^63 - 1")
        _expect(sorted(set(each)) == each, f"offsets of {stream} grow from message to message")
        _expect(each[0] > begun.get(stream, -1), f"offsets of {stream} go on after the last one read")


def check_resume(make: Make, publish: Publish) -> None:
    """From every offset, exactly the messages after it come."""
    begun, bodies = _published(make, publish, "resume", 8)
    found = _read(make, begun, len(bodies))
    for count in range(len(found) + 1):
        reached = _advanced(begun, found[:count])
        expected, again = found[count:], _read(make, reached, len(found) - count)
        _expect(
            _by_stream(again) == _by_stream(expected),
            f"opened behind {reached}, it reads the {len(expected)} messages behind that, each as before",
        )


def check_twice(make: Make, publish: Publish) -> None:
    """Two readings from one offset are the same, by one source or by two."""
    begun, bodies = _published(make, publish, "twice", 20)
    first = _by_stream(_read(make, begun, len(bodies)))
    _expect(first == _by_stream(_read(make, begun, len(bodies))), "two sources read the same")
    with closing(make()) as source:
        for _ in range(2):  # without a close between
            source.open(begun)
            again = _by_stream(_take(source, len(bodies)))
            _expect(again == first, "a source that is opened again reads the same")


def check_beginning(make: Make, publish: Publish) -> None:
    """Without an offset, a stream is read from its beginning; offsets of other streams mean nothing."""
    bodies = _bodies("beginning", 3)
    publish(bodies)
    everything = _read(make, {}, None)
    _expect({message.body for message in everything} >= set(bodies), "without an offset, all is read")
    again = _by_stream(_read(make, {"elsewhere:x": 10**9}, len(everything)))
    _expect(again == _by_stream(everything), "offsets of streams that are not its own change nothing")


def check_timeout(make: Make, publish: Publish) -> None:
    """A read with nothing to read ends in time; one with something does not wait."""
    with _opened(make, _end(make)) as source:
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
            _expect(spent < delay + PROMPT, f"a message came after {delay} s, the read took {spent:.2f} s")


def check_limit(make: Make, publish: Publish) -> None:
    """No read returns more than its limit, and a small limit loses no message."""
    begun, bodies = _published(make, publish, "limit", 40)
    found: list[Message] = []
    with _opened(make, begun) as source:
        until = time.monotonic() + PATIENCE
        for limit in [7, 1, 3, 2, 1, 5, 1000] * len(bodies):
            part = source.read(limit, QUIET)
            _expect(len(part) <= limit, f"asked for {limit}, {len(part)} came")
            found += part
            if len(found) >= len(bodies) or time.monotonic() > until:
                break
        found += source.read(1000, QUIET)
    _expect_all(found, bodies)


def check_closing(make: Make, publish: Publish) -> None:
    """It may be closed at any time, and opened again; closed, it cannot be read."""
    begun, _ = _published(make, publish, "closing", 2)
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
        source.open(begun)
        _expect(len(_take(source, 2)) == 2, "a source that was closed can be opened again")
        source.close()
        source.close()


def check_bodies(make: Make, publish: Publish) -> None:
    """Bodies come as they were sent, odd ones and large ones."""
    begun = _end(make)
    bodies = [
        json.dumps({"src": text, "dst": "b"}, ensure_ascii=escaped).encode()
        for text in ODD
        for escaped in {True, text.isascii()}
    ]
    large = [{"src": "a", "dst": "b", "note": "x" * size} for size in (LARGE, 1, LARGE)]
    bodies += [json.dumps(event).encode() for event in large]
    publish(bodies)
    _expect_same(_read(make, begun, len(bodies)), bodies)


def check_while_published(make: Make, publish: Publish) -> None:
    """Messages that are published during reads come, too, in order and once."""
    bodies = _bodies("while", 400)

    def send() -> None:
        for at in range(0, len(bodies), 10):
            publish(bodies[at : at + 10])
            time.sleep(0.005)

    sender = threading.Thread(target=send)
    with _opened(make, _end(make)) as source:
        sender.start()
        try:
            found = _take(source, len(bodies))
        finally:
            sender.join()
    _expect_all(found, bodies)


def check_names(make: Make, publish: Publish) -> None:
    """The names of source and streams are the same every time."""
    begun, bodies = _published(make, publish, "names", 20)
    _expect(bool(make().name), "a source has a name")
    _expect(make().name == make().name, "the name of a source is the same every time")
    streams, again = ({message.stream for message in _read(make, begun, len(bodies))} for _ in range(2))
    _expect(all(":" in stream for stream in streams), "a stream's name begins with its kind and a colon")
    _expect(streams == again, "the names of streams are the same every time")


def check_lag(make: Make, publish: Publish) -> None:
    """A known lag is 0 once all was read; any thread may read it."""
    begun, bodies = _published(make, publish, "lag", 50)
    answers: list[int | None] = []
    with _opened(make, begun) as source:
        source.read(1, PATIENCE)
        asker = threading.Thread(target=lambda: answers.append(source.lag()))
        asker.start()
        asker.join()
        _take(source, len(bodies) - 1)
        until = time.monotonic() + 5
        while source.lag() and time.monotonic() < until:
            source.read(1, QUIET)
        answers.append(source.lag())
    _expect(len(answers) == 2, "any thread may ask for the lag")
    _expect(answers[0] is None or answers[0] > 0, f"there was more to read, and the lag was {answers[0]}")
    _expect(not answers[1], f"all was read, and the lag is {answers[1]}")


SOURCE_CHECKS: dict[str, Callable[[Make, Publish], None]] = {  # all checks, by name
    name.removeprefix("check_"): check for name, check in globals().items() if name.startswith("check_")
}


def check_source(make: Make, publish: Publish) -> None:
    """Check that a source does what `dygcn.serving.sources.Source` promises.

    Parameters
    ----------
    make
        Returns a new source, not open yet, each time that it is called; all read the same.
    publish
        Appends messages to what is read, in their order; returns when a reader can see them. Bodies are JSON
        on one line. No other publisher may be active meanwhile.

    Raises
    ------
    AssertionError
        If it does not; the text says what was expected.
    """
    for check in SOURCE_CHECKS.values():
        check(make, publish)


def _bodies(what: str, count: int) -> list[bytes]:
    """Return messages that no other check publishes, in an order that can be read from them."""
    mark = f"{what} {time.monotonic_ns()}"
    return [json.dumps({"src": mark, "dst": str(number)}).encode() for number in range(count)]


def _end(make: Make) -> Offsets:
    return _advanced({}, _read(make, {}, None))


def _published(make: Make, publish: Publish, what: str, count: int) -> tuple[Offsets, list[bytes]]:
    """Publish messages; return the offsets before them, and their bodies."""
    begun, bodies = _end(make), _bodies(what, count)
    publish(bodies)
    return begun, bodies


@contextmanager
def _opened(make: Make, offsets: Mapping[str, int]) -> Iterator[Source]:
    with closing(make()) as source:
        source.open(offsets)
        yield source


def _read(make: Make, offsets: Mapping[str, int], count: int | None) -> list[Message]:
    with _opened(make, offsets) as source:
        return _take(source, count)


def _take(source: Source, count: int | None) -> list[Message]:
    """Read as many as are expected, and check that no more come; without a number, until none come."""
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


def _expect_all(found: Sequence[Message], bodies: Sequence[bytes]) -> None:
    _expect_same(found, bodies)
    number = {body: at for at, body in enumerate(bodies)}
    for stream, messages in _by_stream(found).items():
        numbers = [number[body] for _, body, _ in messages]
        _expect(numbers == sorted(numbers), f"messages of {stream} come in the order in which they were sent")
