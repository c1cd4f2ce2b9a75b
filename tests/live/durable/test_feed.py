"""Whoever reads the feed has, once there is no more, exactly the vectors that are there."""

import dataclasses

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule, run_state_machine_as_test

import dygcn
from dygcn.engine.models.state import State
from dygcn.errors import EventError, OptionError, WriteFailed
from dygcn.live.changed import ChangeRecord
from dygcn.live.durable import feed as module
from dygcn.live.durable import recovery, snapshots, write_ahead
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.durable.feed import ALL_NODES, Departures, Feed, FeedCursor, Histories
from tests.live.crashing import TOO_HEAVY, begin, crash, many_folders, reopened
from tests.live.durable.readers import RUN, Dated, Reader, hunting
from tests.live.steps import step, take

TIMED = ("src", "dst", "t")
IDS = st.integers(0, 6)
EVENTS = st.lists(
    st.tuples(IDS, IDS, st.just(0), st.sampled_from([1, 1, -1]), st.sampled_from([1.0, 2.0])), max_size=5
)
LIMITS = st.sampled_from([1, 2, 7, 1000])


class FeedMachine(Dated):
    """Three readers, each at a cursor of its own, while the graph changes and the program dies."""

    most_left, half_life = 2, None

    @initialize(directed=st.booleans(), orders=st.integers(1, 3))
    def start(self, directed, orders):
        self.before, module.MOST_LEFT = module.MOST_LEFT, self.most_left
        self.live = begin(self.new_folder(), directed=directed, orders=orders, half_life=self.half_life)
        self.readers = [Reader() for _ in range(3)]
        self.history = []  # (sequence, ids that moved, ids that left)
        self.joined = set()  # sequences that may have been replayed as one with the next
        self.exact_from = 0
        self.update([(100, 101, 0, 1, 1.0), (102, 103, 0, 1, 1.0)])  # these never move again

    def note(self, change):
        self.history.append((self.live.sequence, set(change.ids.tolist()), set(change.left.tolist())))

    @rule(events=EVENTS)
    def update(self, events):
        self.note(self.live.update(self.dated(events)))

    @rule(which=st.integers(0, 2), one=IDS)
    def taken_back(self, which, one):
        """After a restart nobody can see that this ever happened, but one reader did."""
        self.update([(one, 50, 0, 1, 1.0)])
        self.readers[which].catch_up(self.live)
        self.update([(one, 50, 0, -1, 1.0)])
        self.update([])

    @rule(which=st.integers(0, 2), events=EVENTS)
    def restart_ahead(self, which, events):
        """One reader is behind the snapshot that the program starts from."""
        self.readers[which].catch_up(self.live)
        self.update(events)
        self.snapshot()
        self.restart()
        self.catch_up(which, 1000)

    @rule()
    def refused(self):
        with pytest.raises(EventError):
            self.live.update([(0, 1, 0, 1, TOO_HEAVY)])

    @rule(nodes=st.lists(IDS, max_size=3))
    def remove_nodes(self, nodes):
        self.note(self.live.update(remove_nodes=nodes))

    @rule(events=EVENTS)
    def bulk(self, events):
        self.note(self.live.bulk([self.dated(events)]))
        self.exact_from = self.live.sequence

    @rule()
    def snapshot(self):
        self.live.snapshot()

    @rule()
    def restart(self):
        """Batches of the log that are replayed as one are told as one; the last few are replayed alone."""
        self.joined |= {*range(self.live._ahead.saved_at + 1, self.live.sequence - recovery._SHARE + 1)}
        if self.half_life is not None:  # a removed edge that has not faded moved nobody, and is replayed
            self.exact_from = self.live.sequence
        self.live = reopened(self.live)

    @rule(which=st.integers(0, 2), limit=LIMITS)
    def read(self, which, limit):
        self.readers[which].read(self.live, limit)

    @rule(which=st.integers(0, 2), limit=LIMITS)
    def catch_up(self, which, limit):
        reader = self.readers[which]
        before, resets = reader.cursor, reader.resets
        reader.catch_up(self.live, limit)
        assert reader.cursor == self.live.feed.cursor
        cursor = FeedCursor.read(before)
        inside = cursor is None or cursor.page_position is not None
        if not inside and reader.resets == resets and cursor.sequence >= self.exact_from:
            self.check_exact(reader, cursor.sequence)
        again = self.live.feed.since(reader.cursor, 9)
        assert (len(again.rows), again.more, again.reset) == (0, False, False)

    def check_exact(self, reader, cursor):
        """Each node once, and only what moved or left since."""
        moved, left = self.since(cursor)
        here, told = set(self.live), set(reader.reported)
        assert len(told) == len(reader.reported)
        assert told >= moved & here
        assert set(reader.reported_left) >= left - here
        if cursor not in self.joined:
            assert told == moved & here
            assert set(reader.reported_left) == left - here

    def since(self, cursor):
        """Who moved and who left behind a cursor."""
        found = [(ids, gone) for sequence, ids, gone in self.history if sequence > cursor]
        return set().union(*(ids for ids, _ in found)), set().union(*(gone for _, gone in found))

    @invariant()
    def the_feed_has_come_as_far_as_the_rest(self):
        assert self.live.feed.sequence == self.live.sequence

    def teardown(self):
        for reader in self.readers:
            reader.catch_up(self.live, 2)
        module.MOST_LEFT = self.before
        crash(self.live)


class LongMemory(FeedMachine):
    """The same, where no one who left is forgotten."""

    most_left = 10**6


class Fading(FeedMachine):
    """The same in a model that remembers removed edges for a while."""

    most_left, half_life = 10**6, 2.0


HUNT = hunting(RUN, 1500)


@pytest.fixture(autouse=True)
def folders(monkeypatch):
    monkeypatch.setattr(module, "MOST_LEFT", module.MOST_LEFT)
    with many_folders() as new_folder:
        monkeypatch.setattr(FeedMachine, "new_folder", staticmethod(new_folder), raising=False)
        yield


@pytest.mark.parametrize("machine", [FeedMachine, LongMemory, Fading], ids=lambda machine: machine.__name__)
def test_readers_always_get_there(machine):
    run_state_machine_as_test(machine, settings=RUN)


@pytest.mark.slow
@pytest.mark.parametrize("machine", [FeedMachine, LongMemory, Fading], ids=lambda machine: machine.__name__)
def test_many_more_readers_do(machine):
    run_state_machine_as_test(machine, settings=settings(RUN, max_examples=500))


# ---- seeded bugs -------------------------------------------------------------------------------------


def who_left_is_told_again(monkeypatch):
    whole = Departures.number_at
    monkeypatch.setattr(Departures, "number_at", lambda self, sequence: whole(self, sequence - 1))


def a_new_beginning_misses_who_moved_before(monkeypatch):
    """Not everything is told, only what moved since nobody knows who left."""
    whole = Feed._next_nodes

    def next_nodes(self, page_position, limit):
        floor = self._departures.floor
        return whole(self, dataclasses.replace(page_position, upto=max(page_position.upto, floor)), limit)

    monkeypatch.setattr(Feed, "_next_nodes", next_nodes)


def a_page_forgets_who_left_behind_its_end(monkeypatch):
    whole = Feed._next_departures

    def next_departures(self, page_position, limit):
        left, page_position, _ = whole(self, page_position, limit)
        return left, dataclasses.replace(page_position, left=self._departures.last), False

    monkeypatch.setattr(Feed, "_next_departures", next_departures)


def who_came_back_is_told_as_gone(monkeypatch):
    monkeypatch.setattr(Feed, "_gone", lambda self, ids: np.ones(len(ids), np.bool_))


def who_left_long_ago_is_forgotten_and_nobody_is_told(monkeypatch):
    whole = Departures.forget

    def forget(self, sequence):
        floor, forgotten = self.floor, self.forgotten
        whole(self, sequence)
        self.floor, self.forgotten = floor, forgotten

    monkeypatch.setattr(Departures, "forget", forget)


def moves_of_the_replayed_log_are_forgotten(monkeypatch):
    """A reader that saw some of it never hears of the rest."""
    monkeypatch.setattr(
        write_ahead, "may_have_moved", lambda state, one, delta, left: (delta.receiver[:0], left)
    )


def only_the_sum_of_cuts_is_told(monkeypatch):
    """A reader that saw one of them never hears that it was taken back."""
    whole = recovery.may_have_moved
    monkeypatch.setattr(recovery, "_SHARE", 0)  # all of the log as one

    def alone(state, one, delta, left):
        return whole(state, dataclasses.replace(one, logged_batches=one.logged_batches[:1]), delta, left)

    monkeypatch.setattr(write_ahead, "may_have_moved", alone)


def everyone_moved_when_the_snapshot_was_made(monkeypatch):
    """Every reader from before it is told everything again."""
    whole = ChangeRecord.sequences_of

    def sequences_of(self, nodes):
        return np.full(len(nodes), whole(self, nodes).max(initial=0))

    monkeypatch.setattr(ChangeRecord, "sequences_of", sequences_of)


def who_left_is_not_in_the_snapshot(monkeypatch):
    monkeypatch.setattr(Departures, "everything", lambda self: None)


def recycled_nodes_keep_their_past(monkeypatch):
    whole = Feed.note

    def note(self, nodes, left, *rest):
        whole(self, nodes[1:], left, *rest)

    monkeypatch.setattr(Feed, "note", note)


def pages_end_with_the_sequence(monkeypatch):
    """A page that ends inside a sequence: the rest of that sequence is skipped."""
    whole = Feed._find

    def find(self, cursor):
        found = whole(self, cursor)
        return None if found is None else dataclasses.replace(found, node=ALL_NODES)

    monkeypatch.setattr(Feed, "_find", find)


def bulk_loads_forget_nothing(monkeypatch):
    whole = DurableEmbedding.bulk

    def bulk(self, parts):
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(Feed, "forget", lambda self, sequence: None)
            return whole(self, parts)

    monkeypatch.setattr(DurableEmbedding, "bulk", bulk)


def another_run_has_the_same_nodes(monkeypatch):
    """Places of a run that is over are read as if nodes had the same numbers now."""
    whole = Feed.__init__

    def init(self, *arguments):
        whole(self, *arguments)
        self._run = "00112233aabbccdd"

    monkeypatch.setattr(Feed, "__init__", init)


def who_fades_is_not_told(monkeypatch):
    """After a restart: ids that no event of the log names."""
    whole = State.apply_to_graph
    monkeypatch.setattr(
        State,
        "apply_to_graph",
        lambda self, batch, now=None: (whole(self, batch, now)[0], self.transaction.nobody),
    )


MUTANTS = [
    (who_left_is_told_again, LongMemory),
    (a_new_beginning_misses_who_moved_before, FeedMachine),
    (moves_of_the_replayed_log_are_forgotten, LongMemory),
    (everyone_moved_when_the_snapshot_was_made, LongMemory),
    (recycled_nodes_keep_their_past, LongMemory),
    (pages_end_with_the_sequence, LongMemory),
    (a_page_forgets_who_left_behind_its_end, LongMemory),
    (who_came_back_is_told_as_gone, LongMemory),
    (who_left_long_ago_is_forgotten_and_nobody_is_told, FeedMachine),
    (another_run_has_the_same_nodes, LongMemory),
]


@pytest.mark.parametrize(("mutant", "machine"), MUTANTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_seeded_bug_would_be_noticed(mutant, machine, monkeypatch):
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=HUNT)


BEGUN = [
    step("start", directed=False, orders=2),
    step("update", events=[(0, 1, 0, 1, 1.0), (2, 3, 0, 1, 1.0)]),
    step("catch_up", which=0, limit=1000),
]
PARTED = [(0, 1, 0, -1, 1.0)]
SHOWN = {
    only_the_sum_of_cuts_is_told: [*BEGUN, step("taken_back", which=0, one=0), step("restart")],
    who_left_is_not_in_the_snapshot: [
        *BEGUN,
        step("update", events=PARTED),
        step("snapshot"),
        step("restart"),
    ],
    bulk_loads_forget_nothing: [*BEGUN, step("bulk", events=PARTED)],
}


@pytest.mark.parametrize("mutant", SHOWN, ids=lambda mutant: mutant.__name__)
def test_steps_show_a_seeded_bug(mutant, monkeypatch):
    take(LongMemory, SHOWN[mutant])
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        take(LongMemory, SHOWN[mutant])


# ---- single cases ------------------------------------------------------------------------------------


@pytest.fixture
def live(tmp_path):
    live = begin(tmp_path / "x")
    yield live
    live.close()


def test_the_empty_place_is_before_everything(live):
    begun = live.feed.cursor
    live.update(add=[(1, 2)])
    page = live.feed.since("", 10)
    assert page.reset
    assert sorted(page.rows.ids.tolist()) == [1, 2]
    assert not live.feed.since(begun, 10).reset
    assert sorted(live.feed.since(begun, 10).rows.ids.tolist()) == [1, 2]


def test_pages_inside_one_sequence(live):
    cursor = live.feed.cursor
    live.update(add=[(n, n + 1) for n in range(10)])
    found, pages = [], []
    while True:
        page = live.feed.since(cursor, 4)
        found += page.rows.ids.tolist()
        pages.append(len(page.rows.ids))
        cursor = page.next
        if not page.more:
            break
    assert sorted(found) == list(range(11))
    assert pages == [4, 4, 3]
    assert cursor == live.feed.cursor


def test_an_id_that_left_and_came_back_is_told_once(live):
    live.update(add=[(1, 2), (2, 3)])
    cursor = live.feed.cursor
    live.update(remove=[(1, 2)])
    assert live.feed.since(cursor, 9).rows.left.tolist() == [1]
    live.update(add=[(1, 3)])
    page = live.feed.since(cursor, 9)
    assert (page.rows.left.tolist(), sorted(page.rows.ids.tolist())) == ([], [1, 2, 3])
    live.update(remove=[(1, 3)])
    page = live.feed.since(cursor, 9)
    assert (page.rows.left.tolist(), page.rows.history.sequence) == ([1], 4)


def test_a_recycled_node_is_another_id(live):
    live.update(add=[(1, 2), (3, 4)])
    cursor = live.feed.cursor
    live.update(remove=[(1, 2)])
    live.update(add=[(5, 6)])
    page = live.feed.since(cursor, 9)
    assert sorted(page.rows.left.tolist()) == [1, 2]
    assert sorted(page.rows.ids.tolist()) == [5, 6]


def test_who_left_is_not_told_for_ever(live):
    """Whoever waits for news must not be woken by old ones."""
    live.update(add=[(1, 2), (2, 3)])
    live.update(remove=[(1, 2)])
    cursor = live.feed.cursor
    assert len(live.feed.since(cursor, 9).rows) == 0
    live.update([])
    assert len(live.feed.since(cursor, 9).rows) == 0


def test_a_page_is_bounded_in_all_its_rows(live):
    """Also in ids that left, however many left at once, and none is told twice or left out."""
    live.update(add=[(0, n) for n in range(1, 6001)])
    cursor = live.feed.cursor
    live.update(remove=[(0, n) for n in range(1, 5001)])
    reported, pages = [], 0
    while True:
        page = live.feed.since(cursor, 1500)
        assert len(page.rows) <= 1500
        reported += page.rows.left.tolist()
        cursor, pages = page.next, pages + 1
        if not page.more:
            break
    assert sorted(reported) == list(range(1, 5001))
    assert pages == 5  # 5,000 that left, and the thousand others, which moved


def test_a_page_looks_at_few_of_those_who_left(live, monkeypatch):
    """Ids that came back are not told, but looking for them costs, too."""
    live.update(add=[(0, n) for n in range(1, 20_001)])
    cursor = live.feed.cursor
    live.update(remove=[(0, n) for n in range(1, 20_001)])
    live.update(add=[(0, n) for n in range(1, 20_001)])
    looked, whole = [], Feed._gone
    monkeypatch.setattr(Feed, "_gone", lambda self, ids: looked.append(len(ids)) or whole(self, ids))
    reader = Reader()
    reader.cursor, reader.shown = cursor, live.feed.history
    for _ in range(19):
        page = live.feed.since(reader.cursor, 1)
        assert (len(page.rows), page.more) == (0, True)
        reader.cursor = page.next
    assert looked == [module._LOOK] * 19
    monkeypatch.undo()
    page = live.feed.since("", 20_001)
    reader.rows = dict.fromkeys(page.rows.ids.tolist())
    reader.catch_up(live)


def test_a_new_beginning_does_not_tell_who_left_before_it(live):
    live.update(add=[(0, n) for n in range(1, 500)])
    live.update(remove=[(0, n) for n in range(1, 400)])
    reader = Reader()
    assert reader.read(live, 10)
    live.update(remove=[(0, 400)])
    reader.catch_up(live, 10)
    assert reader.reported_left == [400]


def test_a_slow_reader_gets_there_while_many_leave(tmp_path, monkeypatch):
    """What is forgotten of those who left is no concern of a reader that was told, or began after them."""
    monkeypatch.setattr(module, "MOST_LEFT", 10)
    live = begin(tmp_path / "x")
    live.update(add=[(0, n) for n in range(1, 300)])
    reader = Reader()
    more, last = reader.read(live, 20), 1000
    while more:
        live.update(add=[(last, last + 1)])
        live.update(remove=[(last, last + 1)])
        last += 2
        more = reader.read(live, 20)
    assert last > 1020  # more left than are remembered
    assert reader.resets == 1
    reader.catch_up(live)
    crash(live)


def test_one_that_comes_and_goes_is_one(tmp_path, monkeypatch):
    """However often: nobody else is forgotten for it."""
    monkeypatch.setattr(module, "MOST_LEFT", 10)
    live = begin(tmp_path / "x")
    live.update(add=[(0, 1), (1, 2), (2, 3)])
    reader = Reader().catch_up(live)
    live.update(remove=[(2, 3)])
    for _ in range(100):
        live.update(add=[(1, 9)])
        live.update(remove=[(1, 9)])
    reader.catch_up(live)
    assert (reader.resets, sorted(set(reader.reported_left))) == (1, [3, 9])
    assert len(live.feed._departures) <= 10
    crash(live)


def test_versions_are_the_sequence_of_the_page(live):
    """The vectors are right as of it, whenever they moved."""
    cursor = live.feed.cursor
    live.update(add=[(1, 2)])
    live.update(add=[(8, 9)])
    live.update(remove=[(1, 2)])
    rows = live.feed.since(cursor, 9).rows
    assert (sorted(rows.ids.tolist()), sorted(rows.left.tolist())) == ([8, 9], [1, 2])
    assert rows.history.sequence == 3
    assert rows.history == live.feed.history


def test_strings(tmp_path):
    with begin(tmp_path / "x", kind="string") as live:
        live.update(add=[("ann", "böb")])
        cursor = live.feed.cursor
        live.update(remove=[("ann", "böb")], add=[("cat", "dan")])
        page = live.feed.since(cursor, 9)
        assert (sorted(page.rows.ids), sorted(page.rows.left)) == (["cat", "dan"], ["ann", "böb"])


def test_a_restart_goes_on_where_readers_are(live):
    late = Reader().catch_up(live)
    live.update(add=[(1, 2), (2, 3)])
    live.snapshot()
    reader = Reader().catch_up(live)
    live.update(add=[(4, 5)])
    live.update(remove=[(1, 2)])
    again = reopened(live)
    resets = reader.resets
    reader.catch_up(again)
    assert reader.resets == resets
    assert reader.reported_left == [1]
    late.catch_up(again)  # from before the snapshot, which holds who moved and who left
    assert late.resets == 1
    assert sorted(late.reported) == [2, 3, 4, 5]
    crash(again)


def test_a_crash_sends_again_what_moved_behind_the_cursor_alone(tmp_path):
    """Of a log of 200 batches: exactly that near its end, and not much more far from it."""
    live = begin(tmp_path / "x")
    live.update(add=[(n, n + 1000) for n in range(300)])
    live.snapshot()
    cursors = {}
    for n in range(200):
        cursors[n] = live.feed.cursor
        live.update(add=[(n, n + 2000)])
    again = reopened(live)
    for n, cursor in cursors.items():
        page = again.feed.since(cursor, 10**6)
        moved = {one for m in range(n, 200) for one in (m, m + 1000, m + 2000)}
        told = set(page.rows.ids.tolist())
        assert (page.reset, told >= moved) == (False, True)
        most = len(moved) if n > 200 - recovery._SHARE else len(moved) * 4 // 3 + 3
        assert len(told) <= most
    crash(again)


def test_what_was_taken_back_while_nobody_looked_is_told(tmp_path):
    """After a restart only the sum of many batches is known; a reader may have seen one taken back."""
    live = begin(tmp_path / "x")
    live.update(add=[(1, 2), (2, 3), (3, 4)])
    live.snapshot()
    reader = Reader().catch_up(live)
    live.update([(1, 2, 0, 1, 5.0), (8, 9, 0, 1, 1.0)])
    live.update(remove=[(3, 4)])
    reader.catch_up(live)
    live.update([(1, 2, 0, 1, 1.0), (3, 4, 0, 1, 1.0), (8, 9, 0, -1, 1.0)])
    live.update([])
    live.update([])
    again = reopened(live)
    reader.catch_up(again)
    assert {8, 9} <= set(reader.reported_left)
    crash(again)


def test_who_faded_while_nobody_looked_is_told(tmp_path):
    """Ids that time took away are named in no event of the log."""
    live = begin(tmp_path / "x", half_life=2.0)
    live.update([(1, 2, 0.0), (2, 3, 0.0), (7, 8, 0.0)], columns=TIMED)
    live.update([(7, 8, 1.0, -1)])
    live.snapshot()
    reader = Reader().catch_up(live)
    assert 7 in reader.rows
    live.update([(3, 4, 100.0)], columns=TIMED)
    live.update([(3, 5, 101.0)], columns=TIMED)
    live.update([(3, 6, 102.0)], columns=TIMED)
    assert 7 not in live
    again = reopened(live)
    reader.catch_up(again)
    assert {7, 8} <= set(reader.reported_left)
    crash(again)


def test_who_fades_and_is_not_told_would_be_noticed(tmp_path, monkeypatch):
    who_fades_is_not_told(monkeypatch)
    with pytest.raises(AssertionError):
        test_who_faded_while_nobody_looked_is_told(tmp_path)


def test_what_time_alone_moved_is_told(tmp_path):
    """No event at all: the clock went on, and what is remembered of an edge weighs less."""
    live = begin(tmp_path / "x", half_life=2.0)
    live.update([(1, 2, 0.0), (2, 3, 0.0), (3, 4, 0.0)], columns=TIMED)
    live.update([(2, 3, 1.0, -1)])
    live.snapshot()
    reader = Reader().catch_up(live)
    for now in (4.0, 4.5, 5.5):
        live.update([], now=now)
    again = reopened(live)
    assert {2, 3} <= set(reader.catch_up(again).reported)
    crash(again)


def test_a_place_inside_a_page_of_another_run(live):
    live.update(add=[(n, n + 1) for n in range(10)])
    reader = Reader()
    assert reader.read(live, 3)
    again = reopened(live)
    reader.catch_up(again, 4)
    crash(again)


def test_a_stale_change_of_a_tolerance_says_so(live):
    live.update(add=[(0, spoke) for spoke in range(1, 40)])
    change = live.publish(tolerance=0.5)
    live.update(add=[(0, 40)])
    with pytest.raises(dygcn.StaleChange):
        _ = change.vectors


WORD, OTHER = "00112233aabbccdd", "ffeeddccbbaa9988"
NO_CURSORS = ["x", "1.2", "1.2.3.4", "-1", "1.", ".", "1.x.y", "²", "1" * 19, " 1", "1\n", "+1", WORD]
NO_CURSORS += [
    f"{WORD}.{rest}" for rest in ("1", "1.", f"x.{WORD}", f"1.{WORD[1:]}", f"1.{WORD}.2", f"1.{WORD}\n")
]
NO_CURSORS += [f"{WORD}.1.{rest}" for rest in (WORD.upper(), f"{WORD}.1.1.1.x", f"{WORD}.1.1.1.{WORD}.1")]


@pytest.mark.parametrize("cursor", NO_CURSORS)
def test_what_is_no_place(live, cursor):
    with pytest.raises(OptionError, match="not a cursor"):
        live.feed.since(cursor, 10)


@pytest.mark.parametrize(
    "cursor", ["0", "1", "2", "999999999999999999", f"{WORD}.1.{WORD}", f"{WORD}.0.{WORD}.0.0.0.{WORD}"]
)
def test_what_names_no_position_of_this_history_is_a_new_beginning(live, cursor):
    live.update(add=[(1, 2)])
    page = live.feed.since(cursor, 10)
    assert (page.reset, page.more, sorted(page.rows.ids.tolist())) == (True, False, [1, 2])


def test_every_part_of_a_place_that_is_another_one_is_a_new_beginning(live):
    live.update(add=[(1, 2)])
    now = FeedCursor.read(live.feed.cursor)
    assert not live.feed.since(str(now), 10).reset
    for other in (
        dataclasses.replace(now, epoch=OTHER),
        dataclasses.replace(now, chain=OTHER),
        dataclasses.replace(now, sequence=0),
        dataclasses.replace(now, sequence=2),  # it has not come yet
    ):
        assert live.feed.since(str(other), 10).reset


def test_places_that_somebody_made_up_are_answered(live):
    live.update(add=[(n, n + 1) for n in range(9)])
    live.update(remove=[(3, 4)])
    page = live.feed.since("", 2)
    cursor = FeedCursor.read(page.next)
    greatest = 10**18 - 1
    for upto, node, left in [
        (0, 0, 0),
        (greatest, 0, 0),
        (0, greatest, 0),
        (0, 0, greatest),
        (greatest,) * 3,
    ]:
        for run in (WORD, cursor.page_position.run):
            page_position = dataclasses.replace(
                cursor.page_position, upto=upto, node=node, left=left, run=run
            )
            found = live.feed.since(str(dataclasses.replace(cursor, page_position=page_position)), 3)
            assert len(found.rows) <= 3


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_is_at_least_one(live, limit):
    live.update(add=[(1, 2)])
    with pytest.raises(OptionError, match="limit"):
        live.feed.since("", limit)


CHANGES_WITH_A_BARRIER = {
    "remove_nodes": lambda live: live.update(remove_nodes=[3]),
    "bulk": lambda live: live.bulk([[(8, 9), (1, 9)]]),
}


def fail_a_barrier(live, change, monkeypatch):
    """Have a change made whose snapshot cannot be written: it is seen, and never happened."""
    with monkeypatch.context() as full:
        full.setattr(snapshots.Snapshot, "write", no_room)
        with pytest.raises(WriteFailed, match="No space"):
            CHANGES_WITH_A_BARRIER[change](live)


def no_room(*_):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("change", sorted(CHANGES_WITH_A_BARRIER))
@pytest.mark.parametrize("restarts", [1, 3])
def test_a_change_that_never_happened_is_taken_back_from_readers(tmp_path, monkeypatch, change, restarts):
    live = begin(tmp_path / "x")
    live.update(add=[(1, 2), (2, 3), (3, 4)])
    before, inside, misled = Reader().catch_up(live), Reader(), Reader()
    fail_a_barrier(live, change, monkeypatch)
    misled.catch_up(live)
    inside.read(live, 1)
    for _ in range(restarts):  # the refusal is in the log first, then in a snapshot
        live = reopened(live)
        live.update(add=[(1, 4)])
        live.snapshot()
    for reader, resets in ((before, 1), (misled, 2), (inside, 2)):
        assert reader.catch_up(live).resets == resets
    crash(live)


def test_a_refused_barrier_that_is_not_noted_would_be_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(Histories, "refuse", lambda self, sequences: None)
    with pytest.raises(AssertionError):
        test_a_change_that_never_happened_is_taken_back_from_readers(tmp_path, monkeypatch, "remove_nodes", 1)
