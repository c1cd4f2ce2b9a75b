"""A durable embedding is its in-memory twin, whatever happens to the process in between."""

import datetime
import threading
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import dygcn
from dygcn.engine.events import read_events
from dygcn.engine.models import folder as folders
from dygcn.errors import (
    CapacityError,
    DygcnError,
    EventError,
    FolderError,
    OptionError,
    StaleChange,
    StorageError,
    WriteFailed,
)
from dygcn.live.durable import embedding as durable
from dygcn.live.durable import source_batch, write_ahead
from dygcn.live.durable import source_batch as parts_module
from dygcn.live.durable.snapshots import SnapshotWriter
from dygcn.live.durable.source_batch import APPLIED, FULL, GAP, REPEATED, SourceBatch, StreamOffsets
from dygcn.live.durable.storage.dead_letters import DeadLetter, events_of
from dygcn.live.durable.storage.layout import list_snapshots
from dygcn.live.durable.storage.log import EventLog
from dygcn.live.files import Snapshot
from dygcn_lab.testbed.graphs import GraphOracle
from tests.live.crashing import (
    TOO_HEAVY,
    begin,
    comes_back,
    crash,
    many_folders,
    refuse_one,
    reopened,
    same,
    small_model,
)

# ---- any sequence of anything ------------------------------------------------------------------------

NODES = st.integers(0, 7)
WEIGHTS = st.sampled_from([1.0, 1.0, 2.5, TOO_HEAVY])
EVENT = st.tuples(NODES, NODES, st.just(0), st.sampled_from([1, 1, -1]), WEIGHTS)
CLIENTS = ("http:ann", "http:bob")


class DurableMachine(RuleBasedStateMachine):
    """Everything that can be done, against a dict of edges; the digest is that of a graph built from it."""

    @initialize(directed=st.booleans(), strings=st.booleans(), every=st.sampled_from([3, 20, 10**9]))
    def start(self, directed, strings, every):
        self.options = {"directed": directed, "kind": "string" if strings else "int64"}
        self.every, self.strings = every, strings
        self.live = begin(self.new_folder(), every, **self.options)
        self.oracle = GraphOracle(directed)
        self.sent = {client: [] for client in CLIENTS}
        self.reached, self.letters = {}, set()

    # -- helpers

    def shown(self, event):
        a, b = event[:2]
        return (f"n{a}", f"n{b}", *event[2:]) if self.strings else event

    def batch(self, events):
        return read_events([self.shown(event) for event in events], self.live.model.ids)

    def apply(self, events, stream, position, rows):
        """Apply what can be applied, and bury what cannot."""
        for event, row in zip(events, rows, strict=True):
            if event[3] > 0 and event[4] == TOO_HEAVY:
                self.letters.add((stream, position, row))
            else:
                self.oracle.apply([self.shown(event)])

    # -- plain updates

    @rule(events=st.lists(EVENT, max_size=6))
    def update(self, events):
        bad = any(event[3] > 0 and event[4] == TOO_HEAVY for event in events)
        before = self.live.digest()
        if bad:
            with pytest.raises(CapacityError):
                self.live.update([self.shown(event) for event in events])
            assert self.live.digest() == before
        else:
            self.live.update([self.shown(event) for event in events])
            self.oracle.apply(map(self.shown, events))

    @rule(events=st.lists(EVENT.filter(lambda event: event[4] < 9), max_size=4), position=st.integers(0, 30))
    def update_from_a_stream(self, events, position):
        fresh = position > self.reached.get("kafka:x/0", -1)
        change = self.live.update([self.shown(e) for e in events], stream="kafka:x/0", offset=position)
        if fresh:
            self.oracle.apply(map(self.shown, events))
            self.reached["kafka:x/0"] = position
        else:
            assert (len(change), len(change.left)) == (0, 0)

    # -- many requests at once

    @rule(data=st.data(), count=st.integers(1, 4))
    def ingest(self, data, count):
        parts, wanted = [], []
        for _ in range(count):
            kind = data.draw(st.sampled_from(["client", "client", "broker", "nobody"]))
            part, *result = getattr(self, f"from_{kind}")(data)
            parts.append(part)
            wanted.append(tuple(result))
        receipts = self.live._ingest(parts)
        assert [(receipt.status, receipt.applied + receipt.dead) for receipt in receipts] == wanted
        assert all(receipt.sequence <= self.live.sequence for receipt in receipts)

    def from_client(self, data):
        client = data.draw(st.sampled_from(CLIENTS))
        known, last = self.sent[client], self.reached.get(client, -1)
        first = data.draw(st.integers(max(last - 3, 0), last + 2))
        events = data.draw(st.lists(EVENT, min_size=1, max_size=5))
        events = known[first : first + len(events)] + events[len(known[first : first + len(events)]) :]
        position = first + len(events) - 1
        part = SourceBatch(self.batch(events), client, position, first)
        if position <= last:
            return part, REPEATED, 0
        if first > last + 1:
            return part, GAP, 0
        self.sent[client] = known[: last + 1] + events[last + 1 - first :]
        rows = range(last + 1 - first, len(events))
        self.apply([events[row] for row in rows], client, position, rows)
        self.reached[client] = position
        return part, APPLIED, len(rows)

    def from_broker(self, data):
        events, position = data.draw(st.lists(EVENT, max_size=4)), data.draw(st.integers(0, 40))
        part = SourceBatch(self.batch(events), "nats:y", position)
        if position <= self.reached.get("nats:y", -1):
            return part, REPEATED, 0
        self.apply(events, "nats:y", position, range(len(events)))
        self.reached["nats:y"] = position
        return part, APPLIED, len(events)

    def from_nobody(self, data):
        events = data.draw(st.lists(EVENT.filter(lambda event: event[4] < 9), max_size=3))
        self.oracle.apply(map(self.shown, events))
        return SourceBatch(self.batch(events)), APPLIED, len(events)

    # -- what is not in the log

    @rule(lists=st.lists(st.lists(EVENT.filter(lambda event: event[4] < 9), max_size=4), max_size=2))
    def bulk(self, lists):
        self.live.bulk([[self.shown(event) for event in events] for events in lists])
        for events in lists:
            self.oracle.apply(map(self.shown, events))

    @rule(nodes=st.lists(NODES, max_size=2))
    def remove_nodes(self, nodes):
        names = [f"n{node}" if self.strings else node for node in nodes]
        self.live.update(remove_nodes=names)
        for name in names:
            self.oracle.remove_node(name)

    @rule()
    def refuse_one(self):
        before = self.live.digest()
        refuse_one(self.live)
        assert self.live.digest() == before

    # -- the end of the process

    @rule()
    def snapshot(self):
        self.live.snapshot()

    @rule()
    def crash(self):
        before = self.live.sequence
        self.live = reopened(self.live, snapshot_every=self.every)
        assert (self.live.sequence, self.live._ahead.damage) == (before, [])

    @rule()
    def close(self):
        self.live.close()
        self.live = dygcn.open(self.live._folder, snapshot_every=self.every)

    @invariant()
    def it_is_the_graph_that_was_sent(self):
        twin = dygcn.start(self.live.model)
        twin.update([(a, b, 0, 1, weight) for (a, b), weight in self.oracle.edges.items()])
        assert self.live.digest() == twin.digest()
        assert self.live.streams == self.reached
        assert self.live.feed.sequence == self.live.sequence == self.live._log.last
        found = {(d.stream, d.offset, d.row) for _, d in self.live._log.dead_letters(10**6)}
        assert found == self.letters

    def teardown(self):
        crash(self.live)


RUN = settings(
    max_examples=12, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
HUNT = settings(
    RUN,
    max_examples=100,
    phases=[Phase.generate],
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
)


@pytest.fixture
def machine(monkeypatch):
    with many_folders() as new_folder:
        monkeypatch.setattr(DurableMachine, "new_folder", staticmethod(new_folder), raising=False)
        yield DurableMachine


def test_any_sequence_of_anything(machine):
    run_state_machine_as_test(machine, settings=RUN)


@pytest.mark.slow
def test_many_more_of_them(machine):
    run_state_machine_as_test(machine, settings=settings(RUN, max_examples=1000, stateful_step_count=50))


def repeats_are_not_noticed(monkeypatch):
    monkeypatch.setattr(StreamOffsets, "last_of", lambda self, stream: None)


def overlaps_are_applied_again(monkeypatch):
    monkeypatch.setattr(SourceBatch, "after", lambda self, last: self)


def events_are_applied_and_not_written(monkeypatch):
    """The journal of the last moment is lost: everything acknowledged since the file was opened."""
    whole = EventLog.append

    def append(self, entries, batch_id, dead=(), settled=()):
        if entries and entries[0].stream == "nats:y":
            return self.last
        return whole(self, entries, batch_id, dead)

    monkeypatch.setattr(EventLog, "append", append)


def refusals_are_not_written(monkeypatch):
    monkeypatch.setattr(write_ahead.WriteAhead, "_refuse", lambda self, batch_id: None)


def a_refusal_at_the_end_is_not_counted(monkeypatch):
    whole = write_ahead.replay

    def replay(log, begin, merge, apply):
        standing = whole(log, begin, merge, apply)
        log.last -= 1 if log.last > begin.sequence else 0
        return standing

    monkeypatch.setattr(write_ahead, "replay", replay)


def snapshots_share_their_streams(monkeypatch):
    """A snapshot that is written later says that it holds what came meanwhile."""
    whole = SnapshotWriter._take

    def take(self):
        taken = whole(self)
        taken.settings.log.streams = dict.fromkeys(self._ahead.offsets.streams, 10**6)
        return taken

    monkeypatch.setattr(SnapshotWriter, "_take", take)


MUTANTS = [
    repeats_are_not_noticed,
    overlaps_are_applied_again,
    events_are_applied_and_not_written,
    refusals_are_not_written,
    a_refusal_at_the_end_is_not_counted,
    snapshots_share_their_streams,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_seeded_bug_would_be_noticed(mutant, machine, monkeypatch):
    mutant(monkeypatch)
    with pytest.raises((AssertionError, DygcnError)):
        run_state_machine_as_test(machine, settings=HUNT)


# ---- one request -------------------------------------------------------------------------------------


@pytest.fixture
def live(tmp_path):
    live = begin(tmp_path / "x")
    yield live
    live.close()


def letters(live):
    found = (one for _, letter in live._log.dead_letters(1000) for one in events_of(letter))
    return sorted((one.stream, one.offset, one.row) for one in found)


def test_an_update_is_an_update(live):
    twin = dygcn.start(live.model)
    change, other = live.update(add=[(1, 2), (2, 3)]), twin.update(add=[(1, 2), (2, 3)])
    assert (sorted(change.ids), change.version, change.rows) == (sorted(other.ids), 1, other.rows)
    np.testing.assert_array_equal(change.vectors, live.vectors(change.ids))
    live.update(remove=[(1, 2)])
    with pytest.raises(dygcn.StaleChange):
        _ = change.vectors
    assert live.version == 2


def test_a_batch_that_cannot_be_read_leaves_no_trace(live):
    for wrong in ([(1, 2, 0, 5)], [("a", "b", 0, 1, -1.0)], 7, [(1,)]):
        with pytest.raises(EventError):
            live.update(wrong)
    with pytest.raises(OptionError):
        live.update([(1, 2)], add=[(3, 4)])
    assert live.sequence == 0


@pytest.mark.parametrize("now", [float("nan"), float("inf"), "today", b"", [1]])
def test_a_time_that_is_none_leaves_no_trace(live, now):
    """In the log it could not be read again."""
    with pytest.raises(EventError, match="now is"):
        live.update(add=[(1, 2)], now=now)
    assert live.sequence == 0


@pytest.mark.parametrize(
    "now",
    [
        datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        datetime.date(2026, 1, 1),
        5,
        np.float32(5),
        np.int64(5),
    ],
)
def test_any_time_comes_back(tmp_path, now):
    live = begin(tmp_path / "x", half_life=9.0)
    twin = dygcn.start(live.model)
    for one in (live, twin):
        one.update(add=[(1, 2)], now=now)
    assert live.digest() == twin.digest()
    comes_back(live)


def test_a_position_may_be_any_whole_number(live):
    live.update(add=[(1, 2)], stream="a", offset=np.int64(7))
    assert live.streams == {"a": 7}
    again = reopened(live)
    assert again.streams == {"a": 7}
    for wrong in (1.5, "1", None, -2, 2**63):
        with pytest.raises(OptionError):
            again.update(add=[(1, 2)], stream="a", offset=wrong)
    for stream, position in (("a", -1), ("", 3)):
        with pytest.raises(OptionError, match="belong together"):
            again.update(add=[(1, 2)], stream=stream, offset=position)
    with pytest.raises(OptionError, match="stream is 5; allowed is text"):
        again.update(add=[(1, 2)], stream=5, offset=9)
    with pytest.raises(EventError, match="t is 'x'"):
        again.forget([1], t="x")
    crash(again)


def test_ids_of_another_type_are_refused_before_or_after(live):
    live.update(add=[(1, 2)])
    with pytest.raises(EventError):
        live.update(add=[("a", "b")])
    [receipt] = live._ingest([SourceBatch(read_events([("a", "b")]))])
    assert (receipt.applied, receipt.dead) == (0, 1)
    again = reopened(live)
    assert again.digest() == live.digest()
    crash(again)


def test_events_without_a_time_are_refused_by_a_model_with_memory(tmp_path):
    live = begin(tmp_path / "x", half_life=3.0)
    with pytest.raises(EventError, match="remembers"):
        live.update(add=[(1, 2)])
    receipts = live._ingest([SourceBatch(read_events([(1, 2)])), SourceBatch(read_events([(1, 2, 3.0, 1)]))])
    assert [(one.applied, one.dead) for one in receipts] == [(0, 1), (1, 0)]
    assert live._ingest([SourceBatch(read_events([(2, 3)]), now=5.0)])[0].applied == 1
    assert live._state.graph.clock == 5.0
    comes_back(live)


def test_a_long_batch_is_several_entries_and_one_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(parts_module, "MOST_EVENTS", 10)
    live = begin(tmp_path / "x", half_life=3.0)
    change = live.update(add=[(n, n + 1) for n in range(35)], now=7.0, stream="a", offset=3)
    assert (change.version, live.sequence, live.streams) == (1, 4, {"a": 3})
    with pytest.raises(CapacityError):
        live.update([(n, n + 2, 1.0, 1, TOO_HEAVY if n == 25 else 1.0) for n in range(30)])
    comes_back(live)


def test_part_of_a_long_batch_is_none_of_it(tmp_path, monkeypatch):
    """A crash after the entries were written and before they were applied."""
    monkeypatch.setattr(parts_module, "MOST_EVENTS", 10)
    live = begin(tmp_path / "x")
    twin = dygcn.start(live.model)
    twin.update(add=[(n, n + 1) for n in range(35)])
    monkeypatch.setattr(dygcn.LiveEmbedding, "_apply", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        live.update(add=[(n, n + 1) for n in range(35)], stream="a", offset=3)
    monkeypatch.undo()
    again = reopened(live)
    assert (again.digest(), again.streams) == (twin.digest(), {"a": 3})
    crash(again)


# ---- many requests -----------------------------------------------------------------------------------


def part(*weights, client="", first=0, rows=None, dead=()):
    """Events 0-1, 1-2, ... with the given weights."""
    events = read_events([(n, n + 1, 0, 1, weight) for n, weight in enumerate(weights)] or [])
    if not client:
        return SourceBatch(events, rows=rows, dead=dead)
    return SourceBatch(events, client, first + len(weights) - 1, first, rows, dead)


@pytest.mark.parametrize("heavy", [[0], [6], [3], [0, 6], [1, 2, 3], [0, 1, 2, 3, 4, 5, 6]])
def test_what_cannot_be_applied_is_found_and_all_else_is_applied(live, heavy):
    weights = [TOO_HEAVY if n in heavy else 1.0 for n in range(7)]
    [receipt] = live._ingest([part(*weights, client="http:a", first=0)])
    assert (receipt.status, receipt.applied, receipt.dead) == (APPLIED, 7 - len(heavy), len(heavy))
    assert letters(live) == [("http:a", 6, n) for n in heavy]
    assert live.edge_count == 7 - len(heavy)
    assert live.streams == {"http:a": 6}
    [again] = live._ingest([part(*weights, client="http:a", first=0)])
    assert (again.status, again.applied, again.dead) == (REPEATED, 0, 0)
    assert all("1e+30" in one.reason and '"weight":1e30' in one.event for _, one in live._log.dead_letters())


def test_rows_are_those_of_the_message(live):
    """Where the message had bad rows, too, which are not in the batch."""
    bad = DeadLetter("http:a", 4, 1, "not an event", "x")
    rows = np.array([0, 2, 3, 4])
    one = SourceBatch(part(1.0, TOO_HEAVY, 1.0, TOO_HEAVY).batch, "http:a", 4, 0, rows, (bad,))
    [receipt] = live._ingest([one])
    assert (receipt.applied, receipt.dead) == (2, 3)
    assert letters(live) == [("http:a", 4, 1), ("http:a", 4, 2), ("http:a", 4, 4)]


def test_a_sum_that_is_too_heavy_costs_only_the_last_ones(tmp_path):
    """No single weight is too heavy, but together they are: what still fits, in order, is applied."""
    live = begin(tmp_path / "x")
    heavy = live._state.graph.limit * live._state.graph.grid * 0.4
    [receipt] = live._ingest(
        [SourceBatch(read_events([(0, n, 0, 1, heavy) for n in range(1, 5)]), "http:a", 3, 0)]
    )
    assert (receipt.applied, receipt.dead) == (2, 2)
    assert letters(live) == [("http:a", 3, 2), ("http:a", 3, 3)]
    comes_back(live)


def test_one_bad_request_stops_nobody(live):
    receipts = live._ingest(
        [part(1.0, client="http:a"), part(TOO_HEAVY, client="http:b"), part(1.0, 1.0, 1.0)]
    )
    assert [(one.status, one.applied, one.dead) for one in receipts] == [
        (APPLIED, 1, 0),
        (APPLIED, 0, 1),
        (APPLIED, 3, 0),
    ]
    assert live.streams == {"http:a": 0, "http:b": 0}


def test_dead_letters_of_those_without_a_name_are_kept_apart(live):
    for _ in range(2):
        live._ingest([part(TOO_HEAVY), part(1.0, TOO_HEAVY)])
    found = letters(live)
    assert len(found) == 4
    assert [place for _, _, place in found] == [0, 1, 0, 1]


def test_gaps_repeats_and_overlaps(live):
    def send(first, count):
        [receipt] = live._ingest([part(*[1.0] * count, client="http:a", first=first)])
        return receipt.status, receipt.applied, receipt.expected

    assert send(3, 2) == (GAP, 0, 0)
    assert send(0, 2) == (APPLIED, 2, 0)
    assert send(3, 2) == (GAP, 0, 2)
    assert send(0, 2) == (REPEATED, 0, 0)
    assert send(1, 1) == (REPEATED, 0, 0)
    assert send(1, 3) == (APPLIED, 2, 0)
    assert send(4, 1) == (APPLIED, 1, 0)
    assert live.streams == {"http:a": 4}


def test_what_overtakes_the_first_of_its_own_does_not_hide_it(live):
    """Two requests of a new client on two connections: the second one comes first, and must wait."""
    receipts = live._ingest([part(1.0, client="http:a", first=1), part(1.0, client="http:a", first=0)])
    assert [one.status for one in receipts] == [GAP, APPLIED]
    assert live._ingest([part(1.0, client="http:a", first=1)])[0].status == APPLIED


def test_several_requests_of_one_client_at_once(live):
    sent = [part(1.0, 1.0, client="http:a", first=first) for first in (0, 2, 0, 5, 3, 4)]
    receipts = live._ingest(sent)
    assert [(one.status, one.applied) for one in receipts] == [
        (APPLIED, 2),
        (APPLIED, 2),
        (REPEATED, 0),
        (GAP, 0),
        (APPLIED, 1),
        (APPLIED, 1),
    ]
    assert live.streams == {"http:a": 5}
    assert live.sequence == 4


def test_a_broker_may_leave_gaps_and_begin_anywhere(live):
    def send(position):
        return live._ingest([SourceBatch(read_events([(position, position + 1)]), "nats:x", position)])[
            0
        ].status

    assert [send(p) for p in (1000, 1001, 5000, 1000, 5000, 5001)] == [
        APPLIED,
        APPLIED,
        APPLIED,
        REPEATED,
        REPEATED,
        APPLIED,
    ]
    assert live.streams == {"nats:x": 5001}


def test_dated_undated_and_timed_requests_at_once(tmp_path):
    live, twin = begin(tmp_path / "x", unit=1.0), dygcn.start(small_model(unit=1.0))
    sent = [
        ([(1, 2)], None),
        ([(2, 3, 5.0, 1)], None),
        ([(3, 4, 6, 1)], None),
        ([(4, 5)], 9.0),
        ([(5, 6)], None),
    ]
    receipts = live._ingest([SourceBatch(read_events(rows), now=now) for rows, now in sent])
    for rows, now in sent:
        twin.update(rows, now=now)
    assert [one.applied for one in receipts] == [1] * 5
    assert (
        (live.digest(), live._state.graph.clock)
        == (twin.digest(), twin._state.graph.clock)
        == (twin.digest(), 9.0)
    )
    comes_back(live)


def test_too_many_streams(live, monkeypatch):
    monkeypatch.setattr(source_batch, "MOST_CLIENTS", 3)
    sent = [part(1.0, client=f"http:{name}") for name in "abcde"]
    assert [one.status for one in live._ingest(sent)] == [APPLIED] * 3 + [FULL] * 2
    more = [part(1.0, client=f"http:{name}", first=1) for name in "abc"] + [part(1.0)]
    assert [one.status for one in live._ingest(more)] == [APPLIED] * 4
    assert len(live.streams) == 3


def test_a_stream_that_cannot_be_kept_is_refused_before_anything(live):
    for wrong in (SourceBatch(read_events([(1, 2)]), "", 3), SourceBatch(read_events([(1, 2)]), "a\n", 3)):
        with pytest.raises(OptionError):
            live._ingest([part(1.0), wrong])
    assert live.sequence == 0


def test_nothing_at_all(live):
    assert live._ingest([]) == []
    assert (live.sequence, live.snapshot(), live.sequence) == (0, None, 0)


# ---- snapshots ---------------------------------------------------------------------------------------


def test_snapshots_are_written_behind(tmp_path):
    live = begin(tmp_path / "x", snapshot_every=10, keep_log="0B")
    for step in range(60):
        live.update(add=[(step, step + 1)])
        live._snapshots.wait()
    kept = [sequence for sequence, _ in list_snapshots(live._folder)]
    assert len(kept) == 2
    assert kept[0] > 40
    assert live._snapshots.seconds > 0
    first = live._log._db.execute("SELECT min(seq) FROM entries").fetchone()[0]
    assert first == kept[1]
    again = reopened(live)
    assert same(again, live)
    assert again._ahead.saved_at == kept[0]
    crash(again)


def test_updates_go_on_while_a_snapshot_is_written(tmp_path, monkeypatch):
    live = begin(tmp_path / "x", snapshot_every=5)
    writing, may_end, whole = threading.Event(), threading.Event(), Snapshot.write

    def slow(self, *places):
        writing.set()
        may_end.wait()
        whole(self, *places)

    monkeypatch.setattr(Snapshot, "write", slow)
    for step in range(5):
        live.update(add=[(step, step + 1)])
    writing.wait()
    for step in range(5, 40):
        live.update(add=[(step, step + 1)])
    assert list_snapshots(live._folder) == []
    may_end.set()
    live._snapshots.wait()
    assert [sequence for sequence, _ in list_snapshots(live._folder)] == [5]
    again = reopened(live)
    assert same(again, live)
    assert again._ahead.saved_at == 5
    crash(again)


def test_a_snapshot_of_nothing_new_is_not_written(live):
    live.update(add=[(1, 2)])
    live.snapshot()
    before = list_snapshots(live._folder)[0][1].stat().st_mtime_ns
    live.snapshot()
    live.close()
    assert list_snapshots(live._folder)[0][1].stat().st_mtime_ns == before


# ---- what fails --------------------------------------------------------------------------------------


def test_after_a_failed_write_vectors_are_still_read(live):
    live.update(add=[(1, 2)])
    live._log.fail(OSError("the disk is gone"))
    for use in (lambda: live.update(add=[(2, 3)]), lambda: live._ingest([part(1.0)]), live.snapshot):
        with pytest.raises(WriteFailed, match="the disk is gone"):
            use()
    assert live.vector(1).shape == (8,)
    assert 3 not in live
    assert live._ingest([SourceBatch(read_events([]), "http:a", 0, 5)])[0].status == GAP


def test_an_update_that_is_broken_off_is_never_half_there(tmp_path, monkeypatch):
    """Whatever it was, nobody knows how much was applied: nothing more is taken until the next start."""
    live = begin(tmp_path / "x")
    live.update(add=[(1, 2)])

    def interrupted(self, batch, now):
        raise KeyboardInterrupt

    monkeypatch.setattr(dygcn.LiveEmbedding, "_apply", interrupted)
    with pytest.raises(KeyboardInterrupt):
        live.update(add=[(2, 3)], stream="a", offset=1)
    monkeypatch.undo()
    with pytest.raises(WriteFailed):
        live.update(add=[(5, 6)])
    again = reopened(live)
    assert (sorted(again), again.streams) == ([1, 2, 3], {"a": 1})
    crash(again)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_operation_that_is_broken_off_is_never_half_there(tmp_path, monkeypatch, error):
    live = begin(tmp_path / "x")
    live.update(add=[(1, 2)])

    def interrupted(self, nodes):
        raise error

    monkeypatch.setattr(dygcn.LiveEmbedding, "_remove_nodes", interrupted)
    with pytest.raises(error):
        live.update(remove_nodes=[1])
    monkeypatch.undo()
    with pytest.raises(WriteFailed):
        live.update(add=[(5, 6)])
    again = reopened(live)
    assert sorted(again) == [1, 2]
    crash(again)


def test_an_operation_that_is_wrong_leaves_everything_as_it_was(live):
    live.update(add=[(1, 2)])
    digest = live.digest()
    for wrong in (
        lambda: live.update(remove_nodes=7),
        lambda: live.set_features([1], [[1.0]]),
        lambda: live.restart(),
        lambda: live.publish(tolerance=-1.0),
        lambda: live.bulk([[(1, 2, 3, 4, 5, 6)]]),
    ):
        try:
            wrong()
        except (DygcnError, TypeError):
            pass
        else:
            assert wrong is not None
    assert live.digest() == digest
    live.update(add=[(2, 3)])
    comes_back(live)


# ---- the end -----------------------------------------------------------------------------------------


def test_closing_twice_and_using_it_after(tmp_path):
    live = begin(tmp_path / "x")
    live.update(add=[(1, 2)])
    live.close()
    live.close()
    assert live.vector(1).shape == (8,)
    for use in (
        lambda: live.update(add=[(1, 3)]),
        lambda: live._ingest([part(1.0)]),
        lambda: live.bulk([[(1, 3)]]),
        lambda: live._log.dead_letters(),
        live.snapshot,
    ):
        with pytest.raises(StorageError, match="was closed"):
            use()
    with dygcn.open(live._folder) as again:
        assert again.digest() == live.digest()
        assert again._ahead.saved_at == again.sequence == 1


def test_closing_writes_what_is_needed_to_start_fast(live):
    live.update(add=[(1, 2)])
    live.close()
    assert [sequence for sequence, _ in list_snapshots(live._folder)] == [1]
    assert not (live._folder / "log.sqlite3-wal").exists()


def test_a_copy_is_saved_elsewhere(live, tmp_path):
    live.update(add=[(1, 2)])
    with pytest.raises(FolderError, match="is durable"):
        live.save(live._folder)
    with pytest.raises(FolderError, match="is durable"):
        live.save(live._folder / ".." / live._folder.name)
    live.save(tmp_path / "copy")
    assert dygcn.load(tmp_path / "copy").digest() == live.digest()
    assert type(live.recompute()) is dygcn.LiveEmbedding


def test_readers_see_whole_updates(tmp_path):
    """Another thread that holds the lock: every sum of vectors it sees is that of one sequence."""
    live = begin(tmp_path / "x")
    live.update(add=[(n, n + 1) for n in range(20)])
    stop, seen, failures = threading.Event(), {}, []

    def look():
        try:
            while not stop.is_set():
                with live.lock:
                    sequence, digest = live.sequence, live.digest()
                assert seen.setdefault(sequence, digest) == digest
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=look) for _ in range(2)]
    for reader in readers:
        reader.start()
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        live.update(add=[(live.sequence % 20, live.sequence % 17)])
        refuse_one(live)
    stop.set()
    for reader in readers:
        reader.join()
    assert not failures
    assert len(seen) > 1
    crash(live)


def test_a_watcher_that_raises_leaves_the_version_of_what_happened(live):
    change = live.update(add=[(1, 500)])
    before = live.version

    def watcher(nodes):
        raise EventError("from a watcher")

    live._ahead.watchers.append(watcher)
    with pytest.raises(EventError, match="from a watcher"):
        live.bulk([[(1, 501)]])
    assert 501 in live
    assert live.version > before
    with pytest.raises(StaleChange):
        _ = change.vectors


def test_a_snapshot_thread_that_cannot_start_is_not_waited_for(live, monkeypatch):
    def start(self):
        raise RuntimeError("no thread, on purpose")

    monkeypatch.setattr(threading.Thread, "start", start)
    live._snapshots.write_behind()
    assert "on purpose" in live._snapshots.failure
    monkeypatch.undo()
    live.close()
    dygcn.open(live._folder).close()


def test_watchers_are_told(live):
    result = []
    live._ahead.watchers.append(lambda nodes: result.append(len(nodes)))
    live.update(add=[(1, 2)])
    live.update([])
    live.bulk([[(5, 6)]])
    assert result == [2, 0, 4]


# ---- what is refused costs no more than what is applied ------------------------------------------------


@pytest.fixture
def appends(monkeypatch):
    """The entries of each transaction of the log, as they are written."""
    written, whole = [], EventLog.append

    def append(self, entries, batch_id, dead=(), settled=()):
        written.append([entry.kind for entry in entries])
        return whole(self, entries, batch_id, dead)

    monkeypatch.setattr(EventLog, "append", append)
    return written


REFUSED = {
    "weights off the grid": [(n, n + 1, 0, 1, 1e300 if n % 2 else 1e-300) for n in range(500)],
    "every other one": [(n, n + 1, 0, 1, 1.0 if n % 2 else 1e300) for n in range(500)],
    "a hub that is too heavy": [(0, n, 0, 1, 3e6) for n in range(1, 501)],
    "ids of another type": [(f"n{n}", "x") for n in range(500)],
}


@pytest.mark.parametrize("events", REFUSED.values(), ids=REFUSED.keys())
def test_any_number_of_refused_events_is_one_entry_and_one_sync(live, appends, events):
    live._ingest([SourceBatch(read_events(events), "http:a", len(events) - 1, 0)])
    assert appends == [["events"]]
    assert len(letters(live)) >= 250
    assert live.streams == {"http:a": len(events) - 1}


def test_many_requests_with_refused_events_are_one_transaction(live, appends):
    parts = [SourceBatch(read_events(REFUSED["every other one"]), f"http:{n}", 499, 0) for n in range(20)]
    receipts = live._ingest(parts)
    assert appends == [["events"] * 20]
    assert {(one.applied, one.dead) for one in receipts} == {(250, 250)}


@pytest.mark.parametrize("events", list(REFUSED.values())[:3], ids=list(REFUSED)[:3])
def test_an_update_that_is_refused_writes_nothing(live, appends, events):
    with pytest.raises(CapacityError):
        live.update(events)
    assert (appends, live.sequence) == ([], 0)


def test_a_refusal_by_surprise_costs_something_for_each_part_only(live, appends, monkeypatch):
    """The last resort: nothing was found before, and a batch is refused when it is applied."""
    monkeypatch.setattr(durable, "find_refused", lambda *_: {})
    good, bad = read_events([(n, n + 1, 0, 1) for n in range(500)]), read_events(REFUSED["every other one"])
    letter = DeadLetter("http:1", 499, 700, "no event", "x")
    receipts = live._ingest(
        [
            SourceBatch(good, "http:0", 499, 0),
            SourceBatch(bad, "http:1", 499, 0, dead=(letter,)),
            SourceBatch(good, "http:2", 499),
        ]
    )
    assert [(one.status, one.applied, one.dead) for one in receipts] == [
        (APPLIED, 500, 0),
        (APPLIED, 0, 501),
        (APPLIED, 500, 0),
    ]
    assert sum(map(len, appends)) == 3 + 1 + 1 + (1 + 1 + 1) + 1
    assert len(letters(live)) == 501
    comes_back(live)


def test_a_snapshot_is_reported_once_it_is_on_disk(tmp_path, monkeypatch):
    """Not while it is written; and when that was outlives the program."""
    live, seen = begin(tmp_path / "x"), []
    live.update(add=[(1, 2)])
    before, whole = (live._ahead.saved_at, live._snapshots.saved_time), folders._swap

    def swap(staged, target):
        seen.append((live._ahead.saved_at, live._snapshots.saved_time))
        whole(staged, target)

    monkeypatch.setattr(folders, "_swap", swap)
    live.snapshot()
    assert (seen, live._ahead.saved_at) == ([before], 1)
    assert live._snapshots.saved_time >= before[1] > 0
    crash(live)
    with dygcn.open(live._folder) as again:
        assert abs(again._snapshots.saved_time - live._snapshots.saved_time) < 5
