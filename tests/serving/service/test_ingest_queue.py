"""The queue: bounded in events and in rows, first come first served, drained at the end."""

import threading
import time

import pytest

import dygcn
from dygcn.engine.events import read_events
from dygcn.engine.events.wire import decode_events
from dygcn.errors import WriteFailed
from dygcn.live.durable.source_batch import SourceBatch
from dygcn.serving.service.cost_estimate import ROWS_OF_A_BOUNDED_EVENT
from dygcn.serving.service.ingest_queue import Closing, IngestQueue, Overloaded, dead_letters_of
from dygcn.serving.service.settings import CurrentSettings, Limits, ServiceSettings

FEW = Limits(queued_events=10, queued_rows=1_000, cut_events=4, cut_rows=500)


class Held:
    """A live embedding whose writer can be held up, and which remembers its transactions."""

    def __init__(self, live):
        self.live, self.lock, self._state = live, live.lock, live._state
        self.go, self.entered = threading.Event(), threading.Event()
        self.go.set()
        self.cuts = []
        self.error = None

    def _ingest(self, parts):
        self.entered.set()
        assert self.go.wait(20)
        self.cuts.append([len(part.batch) for part in parts])
        if self.error is not None:
            raise self.error
        return self.live._ingest(parts)


class Answers:
    """Collects answers, in the order in which they come."""

    def __init__(self):
        self.found, self.changed = [], threading.Condition()

    def to(self, name):
        def answer(result):
            with self.changed:
                self.found.append((name, result))
                self.changed.notify_all()

        return answer

    def wait(self, count):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.found) >= count, timeout=20)
            return self.found


@pytest.fixture
def pushed_to_all(monkeypatch):
    """An event at a hub costs as many rows as the hub has neighbours."""
    monkeypatch.setenv("DYGCN_HEAVY_FROM", "inf")


@pytest.fixture
def held(folder):
    with dygcn.open(folder(edges=[(0, spoke) for spoke in range(1, 200)])) as live:
        yield Held(live)


@pytest.fixture
def ingest_queue(held):
    made = []

    def make(limits=FEW, applied=lambda: None):
        made.append(IngestQueue(held, CurrentSettings(ServiceSettings(folder="", limits=limits)), [applied]))
        return made[-1]

    yield make
    held.go.set()
    for one in made:
        one.close()


def events(*edges):
    return SourceBatch(read_events(list(edges)))


def distinct(first, count):
    """Events between nodes that are new, two rows each."""
    return events(*((1_000 + 2 * i, 1_001 + 2 * i) for i in range(first, first + count)))


def stop_writer(held, queue, answers):
    """Have the writer wait with one part in its hands, so that the queue behind it is known."""
    held.go.clear()
    held.entered.clear()
    queue.submit(distinct(5_000, 1), answers.to("first"))
    assert held.entered.wait(20)


def fill(queue, answers, parts):
    """Submit until there is no room; return how many parts were taken."""
    for number, part in enumerate(parts):
        try:
            queue.submit(part, answers.to(number))
        except Overloaded:
            return number
    return len(parts)


def test_what_is_submitted_is_applied_and_answered(ingest_queue, held):
    queue, answers = ingest_queue(), Answers()
    queue.submit(events((7, 500), (8, 501)), answers.to("a"))
    [(_, receipt)] = answers.wait(1)
    assert (receipt.status, receipt.applied, receipt.dead) == ("applied", 2, 0)
    assert receipt.sequence == held.live.sequence
    assert 500 in held.live
    assert (queue.total_events, queue.total_requests) == (2, 1)


def test_first_come_first_served(ingest_queue, held):
    queue, answers = ingest_queue(Limits()), Answers()
    stop_writer(held, queue, answers)
    for number in range(50):
        queue.submit(distinct(number, 1), answers.to(number))
    held.go.set()
    assert [name for name, _ in answers.wait(51)] == ["first", *range(50)]
    sequences = [receipt.sequence for _, receipt in answers.found]
    assert sequences == sorted(sequences)


def test_many_requests_make_one_transaction_of_bounded_size(ingest_queue, held):
    queue, answers = ingest_queue(), Answers()
    stop_writer(held, queue, answers)
    for number in range(9):
        queue.submit(distinct(number, 1), answers.to(number))
    held.go.set()
    answers.wait(10)
    assert held.cuts == [[1], [1, 1, 1, 1], [1, 1, 1, 1], [1]]


@pytest.mark.usefixtures("pushed_to_all")
def test_a_cut_is_bounded_in_rows_too(ingest_queue, held):
    queue, answers = ingest_queue(), Answers()
    stop_writer(held, queue, answers)
    for number in range(4):
        queue.submit(events((0, 2_000 + number)), answers.to(number))  # about 200 rows each
    held.go.set()
    answers.wait(5)
    assert held.cuts == [[1], [1, 1], [1, 1]]


def test_a_queue_full_of_events_sheds(ingest_queue, held):
    queue, answers = ingest_queue(), Answers()
    stop_writer(held, queue, answers)
    for number in range(9):
        queue.submit(distinct(number, 1), answers.to(number))
    with pytest.raises(Overloaded, match="10 events wait") as error:
        queue.submit(distinct(20, 1), answers.to("shed"))
    assert 1 <= error.value.retry_after <= 60
    assert queue.shed == 1
    held.go.set()
    assert len(answers.wait(10)) == 10
    queue.submit(distinct(21, 1), answers.to("again"))
    assert answers.wait(11)[-1][0] == "again"


@pytest.mark.usefixtures("pushed_to_all")
def test_a_queue_full_of_rows_sheds(ingest_queue, held):
    """Five events at a hub of two hundred are a thousand rows."""
    queue, answers = ingest_queue(), Answers()
    stop_writer(held, queue, answers)
    taken = fill(queue, answers, [events((0, 3_000 + number)) for number in range(10)])
    assert 3 <= taken <= 5
    assert queue.rows <= FEW.queued_rows
    queue.submit(distinct(0, 1), answers.to("small"))  # there is room for what is cheap


def test_bad_events_wait_in_the_queue_too(ingest_queue, held):
    """They are held in memory as the others are, with a reason each."""
    queue, answers = ingest_queue(), Answers()
    stop_writer(held, queue, answers)
    bad = decode_events(b"[1,2,3,4,5,6]", "json", "int64")
    part = SourceBatch(bad.batch, dead=tuple(dead_letters_of(bad.bad, "", 7)))
    queue.submit(part, answers.to("bad"))
    assert queue.events == 7
    with pytest.raises(Overloaded):
        queue.submit(part, answers.to("shed"))
    held.go.set()
    receipt = dict(answers.wait(2))["bad"]
    assert (receipt.applied, receipt.dead) == (0, 6)
    assert queue.total_dead == 6


def test_requests_without_events_have_a_bound(ingest_queue, held):
    queue, answers = ingest_queue(), Answers()
    stop_writer(held, queue, answers)
    nothing = SourceBatch(read_events([], "int64"))
    assert fill(queue, answers, [nothing] * 100) == 9


def test_what_is_larger_than_all_room_comes_in_alone(ingest_queue, held):
    queue, answers = ingest_queue(), Answers()
    queue.submit(distinct(0, 50), answers.to("large"))
    assert answers.wait(1)[0][1].applied == 50
    stop_writer(held, queue, answers)
    queue.submit(distinct(100, 50), answers.to("large"))  # only the writer has something in its hands
    with pytest.raises(Overloaded):
        queue.submit(distinct(200, 1), answers.to("shed"))
    held.go.set()
    answers.wait(3)


def test_a_trial_waits_for_its_turn_and_splits_a_cut(ingest_queue, held):
    queue, answers = ingest_queue(), Answers()
    stop_writer(held, queue, answers)
    cuts = []
    queue.submit(distinct(0, 1), answers.to("before"))
    queue.submit_work(lambda: cuts.append(list(held.cuts)) or "tried", 2, answers.to("trial"))
    queue.submit(distinct(1, 1), answers.to("after"))
    assert (queue.events, queue.rows) == (4, 3 * ROWS_OF_A_BOUNDED_EVENT + 2)
    held.go.set()
    found = answers.wait(4)
    assert [name for name, _ in found] == ["first", "before", "trial", "after"]
    assert dict(found)["trial"] == "tried"
    assert (cuts, held.cuts) == ([[[1], [1]]], [[1], [1], [1]])
    queue.close()
    assert (queue.events, queue.rows, queue.total_requests) == (0, 0, 3)


def test_trials_have_a_bound_in_rows_and_an_error_goes_to_whoever_asked(ingest_queue, held):
    queue, answers = ingest_queue(), Answers()
    stop_writer(held, queue, answers)
    queue.submit_work(lambda: 1 // 0, 900, answers.to("wrong"))
    with pytest.raises(Overloaded):
        queue.submit_work(lambda: "tried", 900, answers.to("refused"))
    assert queue.shed == 1
    held.go.set()
    found = dict(answers.wait(2))
    assert isinstance(found["wrong"], ZeroDivisionError)
    queue.submit_work(lambda: "tried", 900, answers.to("later"))
    assert dict(answers.wait(3))["later"] == "tried"
    queue.close()
    with pytest.raises(Closing):
        queue.submit_work(lambda: "tried", 1, answers.to("late"))


def test_a_queue_without_bounds_would_be_noticed(ingest_queue, held, monkeypatch):
    monkeypatch.setattr(IngestQueue, "_fits", lambda self, events, rows: True)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_a_queue_full_of_events_sheds(ingest_queue, held)


def test_rows_that_nobody_counts_would_be_noticed(ingest_queue, held, monkeypatch):
    monkeypatch.setattr("dygcn.serving.service.ingest_queue.expected_rows", lambda state, batch: len(batch))
    with pytest.raises(AssertionError):
        test_a_queue_full_of_rows_sheds(ingest_queue, held)


def test_a_source_waits_for_room(ingest_queue, held):
    queue, answers = ingest_queue(), Answers()
    stop_writer(held, queue, answers)
    queue.submit(distinct(0, 9), answers.to("rest"))
    waited = threading.Thread(
        target=lambda: queue.submit(distinct(50, 5), answers.to("waited"), wait=20), daemon=True
    )
    waited.start()
    time.sleep(0.1)
    assert waited.is_alive()
    assert queue.shed == 0
    held.go.set()
    assert answers.wait(3)[-1][0] == "waited"
    waited.join(20)


def test_waiting_ends_with_overloaded(ingest_queue, held):
    queue, answers = ingest_queue(), Answers()
    stop_writer(held, queue, answers)
    queue.submit(distinct(0, 9), answers.to("rest"))
    begun = time.monotonic()
    with pytest.raises(Overloaded):
        queue.submit(distinct(50, 5), answers.to("never"), wait=0.2)
    assert time.monotonic() - begun > 0.15


def test_how_long_to_stay_away_follows_from_how_long_rows_take(ingest_queue, held):
    queue, answers = ingest_queue(), Answers()
    stop_writer(held, queue, answers)
    queue.submit(distinct(0, 9), answers.to("rest"))
    for seconds_a_row, least, most in ((1e-9, 1, 1), (0.05, 15, 25), (1e6, 60, 60)):
        queue.seconds_a_row = seconds_a_row
        with pytest.raises(Overloaded) as error:
            queue.submit(distinct(50, 5), answers.to("never"))
        assert least <= error.value.retry_after <= most


def test_where_events_are_bounded_the_door_does_not_ask_the_embedding(ingest_queue, held):
    queue, answers = ingest_queue(), Answers()
    stop_writer(held, queue, answers)
    held.lock = None
    queue.submit(distinct(0, 2), answers.to("waits"))
    assert queue.submit(distinct(2, 2), answers.to("must not wait"), blocking=False)
    assert (queue.events, queue.rows) == (5, 5 * ROWS_OF_A_BOUNDED_EVENT)
    held.lock = held.live.lock
    held.go.set()
    answers.wait(3)


def test_an_error_goes_to_whoever_waits_and_the_writer_goes_on(ingest_queue, held):
    queue, answers = ingest_queue(), Answers()
    held.error = WriteFailed("the disk is full")
    stop_writer(held, queue, answers)
    queue.submit(distinct(0, 1), answers.to("a"))
    queue.submit(distinct(1, 1), answers.to("b"))
    held.go.set()
    assert [str(result) for _, result in answers.wait(3)] == ["the disk is full"] * 3
    assert queue.total_events == 0
    held.error = None
    queue.submit(distinct(2, 1), answers.to("c"))
    assert answers.wait(4)[-1][1].applied == 1


def test_others_are_told_before_whoever_sent_it(ingest_queue, held):
    """So that a reader that was waiting has the news by the time the sender hears that it is there."""
    order = []
    queue = ingest_queue(applied=lambda: order.append("applied"))
    answered = threading.Event()
    queue.submit(distinct(0, 1), lambda result: (order.append("answer"), answered.set()))
    assert answered.wait(20)
    assert order == ["applied", "answer"]


def test_closing_applies_what_waits_and_takes_nothing_more(ingest_queue, held):
    queue, answers = ingest_queue(), Answers()
    stop_writer(held, queue, answers)
    for number in range(8):
        queue.submit(distinct(number, 1), answers.to(number))
    closing = threading.Thread(target=queue.close, daemon=True)
    closing.start()
    time.sleep(0.05)
    with pytest.raises(Closing):
        queue.submit(distinct(50, 1), answers.to("late"))
    assert closing.is_alive()
    held.go.set()
    closing.join(20)
    assert not closing.is_alive()
    assert len(answers.found) == 9
    assert (queue.events, queue.rows) == (0, 0)
    queue.close()


def test_whoever_waits_for_room_hears_that_it_closes(ingest_queue, held):
    queue, answers, heard = ingest_queue(), Answers(), []
    stop_writer(held, queue, answers)
    queue.submit(distinct(0, 9), answers.to("rest"))

    def wait():
        try:
            queue.submit(distinct(50, 5), answers.to("never"), wait=20)
        except Closing as error:
            heard.append(error)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    time.sleep(0.05)
    closing = threading.Thread(target=queue.close, daemon=True)
    closing.start()
    waiting.join(20)
    assert len(heard) == 1
    held.go.set()
    closing.join(20)


def test_many_threads_lose_nothing(ingest_queue, held):
    """What was taken is there, what was shed is not, and the books are even at the end."""
    queue, answers = ingest_queue(Limits(queued_events=30, queued_rows=2_000, cut_events=8)), Answers()
    taken, shed = [], []

    def send(thread):
        for number in range(60):
            node = 10_000 + 100 * thread + number
            try:
                queue.submit(events((node, 3)), answers.to(node))
                taken.append(node)
            except Overloaded:
                shed.append(node)
            if number % 7 == 0:
                time.sleep(0.001)

    threads = [threading.Thread(target=send, args=(number,), daemon=True) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    queue.close()
    assert len(taken) + len(shed) == 360
    assert {name for name, _ in answers.found} == set(taken)
    assert all(node in held.live for node in taken)
    assert not any(node in held.live for node in shed)
    assert (queue.events, queue.rows) == (0, 0)
    assert (queue.total_events, queue.shed) == (len(taken), len(shed))


def test_a_full_queue_refuses_before_any_work_is_done(ingest_queue, held):
    queue, answers = ingest_queue(), Answers()
    queue.refuse_if_full()
    stop_writer(held, queue, answers)
    queue.refuse_if_full()
    queue.submit(distinct(0, 9), answers.to("rest"))
    with pytest.raises(Overloaded) as error:
        queue.refuse_if_full()
    assert 1 <= error.value.retry_after <= 60
    assert queue.shed == 1
    held.go.set()
    answers.wait(2)
    until_empty = time.monotonic() + 10
    while queue.events:
        assert time.monotonic() < until_empty
        time.sleep(0.01)
    queue.refuse_if_full()


def test_nobody_waits_for_the_embedding_who_must_not(pushed_to_all, ingest_queue, held):
    queue, answers = ingest_queue(), Answers()
    assert queue.submit(distinct(0, 1), answers.to("now"), blocking=False)
    answers.wait(1)
    held_by_another, let_go = threading.Event(), threading.Event()

    def hold():
        with held.lock:
            held_by_another.set()
            assert let_go.wait(60)

    other = threading.Thread(target=hold, daemon=True)
    other.start()
    assert held_by_another.wait(20)
    assert not queue.submit(distinct(1, 1), answers.to("never"), blocking=False)
    assert other.is_alive()  # the lock was not waited for
    let_go.set()
    other.join(20)
    assert queue.submit(distinct(2, 1), answers.to("again"), blocking=False)
    assert [name for name, _ in answers.wait(2)] == ["now", "again"]
    assert held.lock.acquire(blocking=False)  # it was let go
    held.lock.release()
