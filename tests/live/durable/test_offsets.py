"""Offsets of streams: places for each kind, clients that fell silent, and what forgetting promises."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import dygcn
from dygcn.engine.events import read_events
from dygcn.errors import DygcnError
from dygcn.live.durable import source_batch
from dygcn.live.durable.source_batch import (
    APPLIED,
    FORGOTTEN,
    FULL,
    GAP,
    REPEATED,
    SourceBatch,
    StreamOffsets,
    is_packed,
)
from dygcn.live.durable.storage.entries import Kind
from dygcn.live.durable.storage.log import EventLog
from dygcn_lab.testbed.graphs import GraphOracle
from tests.live.crashing import begin, crash, many_folders, reopened, same
from tests.live.steps import step, take


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now = 1_000_000.0

    def time(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(source_batch, "time", clock)
    return clock


@pytest.fixture
def live(tmp_path):
    live = begin(tmp_path / "x")
    yield live
    live.close()


def sent(stream, first, count=1, *, resumes=False):
    """Events that a client numbers, each of them an edge of its own."""
    events = [(1000 + hash(stream) % 1000, 2000 + first + n) for n in range(count)]
    return SourceBatch(read_events(events), stream, first + count - 1, first, resumes=resumes)


def from_broker(stream, position):
    return SourceBatch(read_events([(1, 2 + position)]), stream, position)


def statuses(live, *parts):
    return [receipt.status for receipt in live._ingest(parts)]


# ---- places --------------------------------------------------------------------------------------------


def test_clients_take_no_place_from_brokers(live, monkeypatch):
    monkeypatch.setattr(source_batch, "MOST_CLIENTS", 3)
    monkeypatch.setattr(source_batch, "MOST_STREAMS", 2)
    assert statuses(live, *(sent(f"http:{n}", 0) for n in range(5))) == [APPLIED] * 3 + [FULL] * 2
    assert statuses(live, *(from_broker(f"kafka:x/{n}", 0) for n in range(3))) == [APPLIED] * 2 + [FULL]
    live.close()
    again = dygcn.open(live._folder)
    assert statuses(again, sent("http:5", 0), from_broker("kafka:x/3", 0)) == [FULL, FULL]
    assert again._forget_stream("http:0") == 0
    assert statuses(again, sent("http:5", 0), sent("http:6", 0)) == [APPLIED, FULL]
    again.close()


def test_a_client_that_comes_too_early_takes_no_place(live, monkeypatch):
    monkeypatch.setattr(source_batch, "MOST_CLIENTS", 1)
    assert statuses(live, sent("http:a", 5), sent("http:b", 0)) == [GAP, APPLIED]


def test_the_longest_silent_client_goes_where_there_is_no_other_place(live, clock, monkeypatch):
    monkeypatch.setattr(source_batch, "MOST_CLIENTS", 3)
    live._offsets.idle_seconds = 100.0
    for name in "abc":
        assert statuses(live, sent(f"http:{name}", 0)) == [APPLIED]
        clock.now += 10
    clock.now += 60
    assert statuses(live, sent("http:d", 0)) == [FULL]  # nobody was silent for 100 seconds
    assert statuses(live, sent("http:a", 0)) == [REPEATED]  # which is a sign of life, too
    clock.now += 25
    assert statuses(live, sent("http:d", 0), sent("http:e", 0)) == [APPLIED, FULL]
    assert sorted(live.streams) == ["http:a", "http:c", "http:d"]
    clock.now += 1000
    assert statuses(live, sent("http:f", 0), sent("http:g", 0), sent("http:c", 1)) == [APPLIED] * 3
    assert sorted(live.streams) == ["http:c", "http:f", "http:g"]
    again = reopened(live)
    assert same(again, live)
    assert statuses(again, sent("http:a", 1)) == [FORGOTTEN]
    crash(again)


def test_places_of_silent_clients_are_one_transaction(live, clock, monkeypatch):
    monkeypatch.setattr(source_batch, "MOST_CLIENTS", 50)
    assert set(statuses(live, *(sent(f"http:old {n}", 0) for n in range(50)))) == {APPLIED}
    clock.now += source_batch.IDLE_SECONDS
    appended, whole = [], EventLog.append
    monkeypatch.setattr(
        EventLog, "append", lambda self, *result: appended.append(result[0]) or whole(self, *result)
    )
    assert set(statuses(live, *(sent(f"http:new {n}", 0) for n in range(50)))) == {APPLIED}
    assert [{entry.kind for entry in entries} for entries in appended] == [{Kind.FORGET}, {"events"}]


def test_the_time_of_silence_outlives_a_restart(tmp_path, clock, monkeypatch):
    monkeypatch.setattr(source_batch, "MOST_CLIENTS", 2)
    live = begin(tmp_path / "x")
    assert statuses(live, sent("http:a", 0), sent("http:b", 0)) == [APPLIED] * 2
    live.close()
    clock.now += source_batch.IDLE_SECONDS / 2
    live = dygcn.open(live._folder)
    assert statuses(live, sent("http:b", 1)) == [APPLIED]
    clock.now += source_batch.IDLE_SECONDS / 2
    assert statuses(live, sent("http:c", 0), sent("http:d", 0)) == [APPLIED, FULL]
    assert sorted(live.streams) == ["http:b", "http:c"]
    live.close()


# ---- forgetting ------------------------------------------------------------------------------------------


def test_a_forgotten_client_is_told_and_nothing_is_applied(live):
    assert statuses(live, sent("http:a", 0, 5)) == [APPLIED]
    assert live._forget_stream("http:a") == 4
    assert live._forget_stream("http:a") is None
    before = live.digest()
    for part in (sent("http:a", 0), sent("http:a", 0, 5), sent("http:a", 5), sent("http:a", 9)):
        [receipt] = live._ingest([part])
        assert (receipt.status, receipt.expected, receipt.applied) == (FORGOTTEN, 5, 0)
    wrong = [sent("http:a", 4, 2, resumes=True), sent("http:a", 6, resumes=True)]
    assert statuses(live, *wrong) == [FORGOTTEN] * 2
    assert live.digest() == before
    assert statuses(live, sent("http:a", 5, resumes=True), sent("http:a", 6)) == [APPLIED] * 2
    assert live.streams == {"http:a": 6}
    assert statuses(live, sent("http:a", 5)) == [REPEATED]


def test_a_forgotten_stream_of_a_broker_goes_on_where_it_was(live):
    assert statuses(live, *(from_broker("kafka:x/0", n) for n in range(5))) == [APPLIED] * 5
    assert live._forget_stream("kafka:x/0") == 4
    assert len(live.update([(7, 8)], stream="kafka:x/0", offset=4)) == 0
    found = statuses(live, *(from_broker("kafka:x/0", n) for n in range(6)))
    assert found == [REPEATED] * 5 + [APPLIED]
    assert live.streams == {"kafka:x/0": 5}


@pytest.mark.parametrize("snapshot", [False, True])
def test_forgetting_is_durable(live, snapshot):
    statuses(live, sent("http:a", 0, 5), sent("http:b", 0), from_broker("nats:y", 3))
    live._forget_stream("http:a")
    live._forget_stream("nats:y")
    if snapshot:
        live.snapshot()
    again = reopened(live)
    assert same(again, live)
    assert (again.version, again.streams) == (live.version, {"http:b": 0})
    assert statuses(again, sent("http:a", 5), from_broker("nats:y", 3)) == [FORGOTTEN, REPEATED]
    assert statuses(again, sent("http:a", 5, resumes=True)) == [APPLIED]
    last = reopened(again)
    assert same(last, again)
    assert statuses(last, sent("http:a", 6)) == [APPLIED]
    crash(last)


def test_as_many_forgotten_names_are_remembered_as_is_said(live, monkeypatch):
    monkeypatch.setattr(source_batch, "MOST_FORGOTTEN", 3)
    for n in range(5):
        statuses(live, sent(f"http:{n}", 0, 2))
        live._forget_stream(f"http:{n}")
    # The two that were forgotten first are strangers: who goes on is told that the beginning is missing.
    found = live._ingest([sent(f"http:{n}", 2) for n in range(5)])
    assert [(one.status, one.expected) for one in found] == [(GAP, 0)] * 2 + [(FORGOTTEN, 2)] * 3


def test_the_manifest_of_as_many_streams_as_can_be_can_be_read(tmp_path, monkeypatch):
    """Names are chosen by whoever sends: with the longest ones the snapshot must still be a snapshot."""
    live = begin(tmp_path / "x")
    longest = 200 - len("http:") - 6
    for n in range(source_batch.MOST_CLIENTS):
        live._offsets.reach(f"http:{'é' * (longest // 2)}{n:06d}", 2**62)
        live._offsets.reach(f"nats:{'x' * longest}{n:06d}", 2**63 - 1)
    live._offsets._forgotten = {2**62 + n: 2**62 + n for n in range(source_batch.MOST_FORGOTTEN)}
    live.update([(1, 2)])
    live.close()
    with dygcn.open(live._folder) as again:
        assert again._ahead.damage == []
        assert again._offsets.image() == live._offsets.image()


def test_what_is_packed():
    some = StreamOffsets({"http:a": 3, "nats:y": 1})
    some.forget("http:a")
    streams, heard, forgotten = some.image()
    assert (streams, heard, is_packed(forgotten)) == ({"nats:y": 1}, [], True)
    again = StreamOffsets(streams, heard, forgotten)
    assert (again.last_of("http:a"), again.last_of("http:b"), again.image()) == (3, None, some.image())
    for wrong in ("x", "AAAA", "ü"):
        assert not is_packed(wrong)


# ---- any sequence of anything --------------------------------------------------------------------------

CLIENTS = st.sampled_from(["http:a", "http:b", "http:c", "http:d"])


class Forgetting(RuleBasedStateMachine):
    """Clients that send, repeat, overtake themselves and are forgotten, between crashes: each event once."""

    @initialize()
    def start(self):
        self.live = begin(self.new_folder(), 5)
        self.oracle = GraphOracle(False)
        self.sent = {}  # how far each client came, whatever became of its place
        self.clock.now += 1

    def edge(self, client, number):
        # The same edge comes and goes: who applies an event twice, or in another order, is found out.
        return (ord(client[-1]), 10 + number % 3, 0, 1 if number % 2 == 0 else -1, 1.0 + number)

    @rule(client=CLIENTS, back=st.integers(-1, 4), count=st.integers(1, 3), resumes=st.booleans())
    def send(self, client, back, count, resumes):
        last = self.sent.get(client, -1)
        first = max(last + 1 - back, 0)
        numbers = range(first, first + count)
        part = SourceBatch(
            read_events([self.edge(client, n) for n in numbers]),
            client,
            numbers[-1],
            first,
            resumes=resumes,
        )
        here = client in self.live.streams
        [receipt] = self.live._ingest([part])
        if receipt.status == APPLIED:
            assert first <= last + 1
            self.oracle.apply([self.edge(client, n) for n in numbers if n > last])
            self.sent[client] = numbers[-1]
        elif receipt.status == REPEATED:
            assert here
            assert numbers[-1] <= last
        elif receipt.status == GAP:
            assert receipt.expected == last + 1 < first
        elif receipt.status == FORGOTTEN:
            assert not here
            assert receipt.expected == last + 1
            assert not resumes or first != last + 1
        else:
            assert receipt.status == FULL
            assert len(self.live.streams) == 2

    @rule(client=CLIENTS)
    def forget(self, client):
        here = client in self.live.streams
        assert self.live._forget_stream(client) == (self.sent[client] if here else None)

    @rule(seconds=st.sampled_from([1, 60, source_batch.IDLE_SECONDS]))
    def wait(self, seconds):
        self.clock.now += seconds

    @rule(snapshot=st.booleans())
    def crash(self, snapshot):
        if snapshot:
            self.live.snapshot()
        self.live = reopened(self.live, snapshot_every=5)

    @invariant()
    def every_event_counts_once(self):
        twin = dygcn.start(self.live.model)
        twin.update([(a, b, 0, 1, weight) for (a, b), weight in self.oracle.edges.items()])
        assert self.live.digest() == twin.digest()
        assert len(self.live.streams) <= 2
        for client, last in self.live.streams.items():
            assert last == self.sent[client]

    def teardown(self):
        crash(self.live)


RUN = settings(
    max_examples=15, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
HUNT = settings(
    RUN,
    max_examples=1000,
    phases=[Phase.generate],
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
)


@pytest.fixture
def machine(monkeypatch, clock):
    monkeypatch.setattr(source_batch, "MOST_CLIENTS", 2)
    with many_folders() as new_folder:
        monkeypatch.setattr(Forgetting, "new_folder", staticmethod(new_folder), raising=False)
        monkeypatch.setattr(Forgetting, "clock", clock, raising=False)
        yield Forgetting


def test_any_sequence_of_sending_and_forgetting(machine):
    run_state_machine_as_test(machine, settings=RUN)


@pytest.mark.slow
def test_many_more_of_them(machine):
    run_state_machine_as_test(machine, settings=settings(RUN, max_examples=1000, stateful_step_count=50))


def forgotten_names_are_not_remembered(monkeypatch):
    monkeypatch.setattr(source_batch, "MOST_FORGOTTEN", 0)


def forgetting_is_not_written(monkeypatch):
    whole = EventLog.append

    def append(self, entries, batch_id, dead=(), settled=()):
        forgets = entries and entries[0].kind == Kind.FORGET
        return self.last if forgets else whole(self, entries, batch_id, dead)

    monkeypatch.setattr(EventLog, "append", append)


def snapshots_do_not_know_who_was_forgotten(monkeypatch):
    whole = StreamOffsets.image
    monkeypatch.setattr(StreamOffsets, "image", lambda self: (*whole(self)[:2], ""))


def whoever_is_forgotten_may_go_on_anywhere(monkeypatch):
    whole = source_batch._judge

    def judge(part, last, here):
        status, expected = whole(part, last, here)
        return (APPLIED, 0) if status == FORGOTTEN else (status, expected)

    monkeypatch.setattr(source_batch, "_judge", judge)


def busy_clients_lose_their_places(monkeypatch):
    monkeypatch.setattr(
        StreamOffsets, "hear", lambda self, *streams: [self._heard.setdefault(s, 0.0) for s in streams]
    )
    monkeypatch.setattr(
        StreamOffsets, "forget", lambda self, *streams: [self.streams.pop(s) for s in streams]
    )


@pytest.mark.parametrize(
    "mutant",
    [
        forgotten_names_are_not_remembered,
        busy_clients_lose_their_places,
    ],
    ids=lambda mutant: mutant.__name__,
)
def test_a_seeded_bug_would_be_noticed(mutant, machine, monkeypatch):
    mutant(monkeypatch)
    with pytest.raises((AssertionError, DygcnError, KeyError)):
        run_state_machine_as_test(machine, settings=HUNT)


def one_from(client, back=0):
    return step("send", client=client, back=back, count=1, resumes=False)


SHOWN = {
    forgetting_is_not_written: [
        step("start"),
        one_from("http:a"),
        one_from("http:b"),
        step("forget", client="http:a"),
        one_from("http:c"),
        step("crash", snapshot=False),
        step("every_event_counts_once"),
    ],
    snapshots_do_not_know_who_was_forgotten: [
        step("start"),
        one_from("http:a"),
        step("forget", client="http:a"),
        step("crash", snapshot=True),
        one_from("http:a"),
    ],
    whoever_is_forgotten_may_go_on_anywhere: [
        step("start"),
        one_from("http:a"),
        step("forget", client="http:a"),
        one_from("http:a", back=-1),
    ],
}


@pytest.mark.parametrize("mutant", SHOWN, ids=lambda mutant: mutant.__name__)
def test_steps_show_a_seeded_bug(mutant, machine, monkeypatch):
    take(machine, SHOWN[mutant])
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        take(machine, SHOWN[mutant])
