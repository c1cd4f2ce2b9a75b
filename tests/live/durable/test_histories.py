"""Histories have an identity: whoever was shown another one finds out, without anyone saying so."""

import dataclasses
import shutil

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

import dygcn
from dygcn.engine.records import History
from dygcn.errors import DamagedLog, FolderError, FolderInUse, OptionError, StorageError, WriteFailed
from dygcn.live.changed import Announcer
from dygcn.live.durable import embedding as durable
from dygcn.live.durable import write_ahead
from dygcn.live.durable.feed import FeedCursor, Histories
from dygcn.live.durable.storage import log as log_module
from dygcn.live.durable.storage.entries import Epoch, Kind, NewEntry
from dygcn.live.durable.storage.layout import list_snapshots
from dygcn.live.durable.storage.log import EventLog
from dygcn.live.durable.write_ahead import WriteAhead
from dygcn.live.embedding import LiveEmbedding
from tests.live.crashing import begin, crash, crashed_copy, many_folders, reopened
from tests.live.durable.readers import RUN, OneFolder, Reader, hunting
from tests.live.steps import step, take
from tests.live.test_rolled import begun

IDS = st.integers(0, 6)
EVENTS = st.lists(
    st.tuples(IDS, IDS, st.just(0), st.sampled_from([1, 1, -1]), st.sampled_from([1.0, 2.0])), max_size=5
)
LIMITS = st.sampled_from([1, 2, 7, 1000])
TOLERANCES = st.sampled_from([0, 0.3, 10.0, 10.0])  # with the last one no hub is ever announced


class MirrorMachine(OneFolder):
    """Mirrors that the feed alone feeds, over restarts, tolerances, new epochs and restored copies."""

    @initialize()
    def start(self):
        self.live = begin(self.new_folder())
        self.backups = []
        self.mirrors = [Reader() for _ in range(3)]
        self.update([(n, n + 1, 0, 1, 1.0) for n in range(6)])

    @rule(events=EVENTS)
    def update(self, events):
        self.live.update(events)

    @rule(one=IDS)
    def remove_nodes(self, one):
        self.live.update(remove_nodes=[one])

    @rule(events=EVENTS)
    def bulk(self, events):
        self.live.bulk([events])

    @rule(tolerance=TOLERANCES)
    def tolerate(self, tolerance):
        self.live.publish(tolerance=tolerance)

    @rule()
    def begin_epoch(self):
        self.live.feed.begin_epoch()

    # -- the end of the process, and of the disk

    @rule()
    def back_up(self):
        self.backups.append(crashed_copy(self.live, self.new_folder()))

    @rule(which=st.integers(0, 9), reported=st.booleans())
    def restore(self, which, reported):
        """Put a copy in the cursor of the folder: with the command for it, or without anyone saying so."""
        if self.backups:
            backup, folder = self.backups[which % len(self.backups)], self.new_folder()
            crash(self.live)
            if reported:
                dygcn.restore(backup, folder)
            else:
                shutil.copytree(backup, folder)
            self.live = dygcn.open(folder)

    # -- what one reader sees of an end

    @rule(which=st.integers(0, 2), ours=EVENTS, theirs=st.lists(EVENTS, max_size=3), anew=st.booleans())
    def another_way(self, which, ours, theirs, anew):
        """A reader, perhaps inside of a run of pages, is shown what a copy of the folder never did."""
        backup, mirror = crashed_copy(self.live, self.new_folder()), self.mirrors[which]
        self.live.update(ours)
        if anew:
            mirror.cursor = ""
            mirror.read(self.live, 2)
        else:
            mirror.catch_up(self.live, exact=False)
        crash(self.live)
        self.live = dygcn.open(backup)
        for events in theirs:
            self.live.update(events)

    @rule(
        which=st.integers(0, 2),
        events=EVENTS,
        tolerance=TOLERANCES,
        saved=st.booleans(),
        flushed=st.booleans(),
        orderly=st.booleans(),
    )
    def kept_back(self, which, events, tolerance, saved, flushed, orderly):
        """A reader is not told of some moves of the vectors that it has; then the process ends."""
        self.live.publish(tolerance=tolerance)
        self.mirrors[which].catch_up(self.live)
        self.live.update(events)
        if saved:
            self.live.snapshot()
        self.mirrors[which].catch_up(self.live, exact=False)
        if flushed:
            self.live.publish()
        if orderly:
            self.close()
        else:
            self.crash()
        self.mirrors[which].catch_up(self.live, exact=flushed)

    # -- reading

    @rule(which=st.integers(0, 2), limit=LIMITS)
    def read(self, which, limit):
        self.mirrors[which].read(self.live, limit)

    @rule(which=st.integers(0, 2), limit=LIMITS)
    def catch_up(self, which, limit):
        self.mirrors[which].catch_up(self.live, limit, exact=False)

    def teardown(self):
        self.live.publish()
        for mirror in self.mirrors:
            mirror.catch_up(self.live, 7)
        crash(self.live)


RUN = settings(RUN, max_examples=12, stateful_step_count=30)
HUNT = hunting(RUN, 2000)


@pytest.fixture
def machine(monkeypatch):
    monkeypatch.setenv("DYGCN_HEAVY_FROM", "2")
    with many_folders() as new_folder:
        monkeypatch.setattr(MirrorMachine, "new_folder", staticmethod(new_folder), raising=False)
        yield MirrorMachine


def test_mirrors_are_what_is_served(machine):
    run_state_machine_as_test(machine, settings=RUN)


@pytest.mark.slow
def test_many_more_mirrors(machine):
    run_state_machine_as_test(machine, settings=settings(RUN, max_examples=1000, stateful_step_count=50))


# ---- seeded bugs -------------------------------------------------------------------------------------


def chain_values_are_not_compared(monkeypatch):
    monkeypatch.setattr(Histories, "confirm_cursor", lambda self, cursor: cursor.epoch == self.epoch.id)


def epochs_are_not_compared(monkeypatch):
    def confirm_cursor(self, cursor):
        ours = self.at(cursor.sequence)
        return ours is not None and ours.chain.startswith(cursor.chain)

    monkeypatch.setattr(Histories, "confirm_cursor", confirm_cursor)


def a_restart_tells_nobody(monkeypatch):
    """Moves that a tolerance kept back before a snapshot are not told behind it, either."""
    whole = LiveEmbedding._announce_beyond
    monkeypatch.setattr(LiveEmbedding, "_announce_beyond", lambda self, to, unsaid=None: whole(self, to))


def a_restart_forgets_the_tolerance(monkeypatch):
    whole = WriteAhead._go_on_from

    def go_on_from(self, standing):
        whole(self, standing)
        self.live._announce_beyond(0.0)

    monkeypatch.setattr(WriteAhead, "_go_on_from", go_on_from)


def a_flush_is_not_done_again(monkeypatch):
    """One from whom moves were kept back before it is not told."""
    monkeypatch.setattr(write_ahead, "Kind", type("Kinds", (Kind,), {"FLUSH": "nothing"}))


def replay_forgets_the_epoch(monkeypatch):
    whole = WriteAhead._go_on_from

    def go_on_from(self, standing):
        whole(self, dataclasses.replace(standing, epoch=Epoch.unpack(self.log.genesis)))

    monkeypatch.setattr(WriteAhead, "_go_on_from", go_on_from)


def barriers_are_all_alike(monkeypatch):
    """What a snapshot holds is not in the chain: two copies that did different things look like one."""
    monkeypatch.setattr(durable.secrets, "token_bytes", bytes)


def a_place_says_only_how_far_its_reader_came(monkeypatch):
    """Not which position it was shown: inside a run of pages that is a later one."""
    whole = Histories.confirm_cursor

    def confirm_cursor(self, cursor):
        page_position = cursor.page_position
        if page_position is None:
            return whole(self, cursor)
        return self.at(min(page_position.upto, cursor.sequence)) is not None and cursor.epoch == self.epoch.id

    monkeypatch.setattr(Histories, "confirm_cursor", confirm_cursor)


MUTANTS = [
    chain_values_are_not_compared,
    epochs_are_not_compared,
    a_restart_forgets_the_tolerance,
    replay_forgets_the_epoch,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_seeded_bug_would_be_noticed(mutant, machine, monkeypatch):
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=HUNT)


@pytest.mark.parametrize(
    "mutant",
    [a_restart_tells_nobody, a_flush_is_not_done_again],
    ids=lambda mutant: mutant.__name__,
)
def test_steps_show_a_seeded_bug(mutant, machine, monkeypatch):
    """A mirror was not told of moves, which a flush publishes, and the process dies."""
    edge = [(1, 4, 0, 1, 1.0)]
    steps = [
        step("start"),
        step("snapshot"),
        step("kept_back", which=0, events=edge, tolerance=10.0, saved=True, flushed=True, orderly=False),
    ]
    take(machine, steps)
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        take(machine, steps)


# ---- copies ------------------------------------------------------------------------------------------


@pytest.fixture
def live(tmp_path):
    live = begin(tmp_path / "x", keep_log="0B")
    live.update(add=[(n, n + 1) for n in range(20)])
    yield live
    live._let_go()


def replaced(live, backup):
    """Lose the folder, put a copy of the backup in its cursor, and open it."""
    crash(live)
    shutil.rmtree(live._folder)
    shutil.copytree(backup, live._folder)
    return dygcn.open(live._folder)


@pytest.mark.parametrize("more", [0, 1, 4, 5, 6, 9])
def test_a_folder_that_was_replaced_by_an_older_copy(live, tmp_path, more):
    """Behind the reader, at the very sequence of the reader, and ahead of it."""
    live.snapshot()
    backup = crashed_copy(live, tmp_path / "backup")
    for n in range(5):
        live.update(add=[(100 + n, n)])
    reader = Reader().catch_up(live)
    shown = live.feed.history
    again = replaced(live, backup)
    for n in range(more):
        again.update(add=[(200 + n, n)])
    assert not again.feed.confirms(shown)
    resets = reader.resets
    reader.catch_up(again)
    assert reader.resets == resets + 1
    assert not set(reader.rows) & set(range(100, 105))
    again._let_go()


def test_a_reader_inside_of_a_run_of_pages_that_was_replaced(tmp_path):
    """It came only so far as both histories share, and was told of departures that only one of them had."""
    live = begin(tmp_path / "x")
    live.update(add=[(1, 2)])
    live.snapshot()
    live.update(add=[(3, 4)])
    live.update(add=[(5, 6), (7, 8)])
    backup = crashed_copy(live, tmp_path / "backup")
    reader = Reader()
    for _ in range(2):
        assert reader.read(live, 2)
    live.update(remove=[(1, 2)])
    for _ in range(2):
        assert reader.read(live, 2)
    assert (sorted(reader.reported_left), FeedCursor.read(reader.cursor).page_position.upto) == ([1, 2], 3)
    again = replaced(live, backup)
    again.update(add=[(9, 10)])
    assert again.sequence == 4
    reader.catch_up(again)
    assert reader.resets == 2
    again._let_go()


def test_a_place_without_the_position_that_was_shown_would_be_noticed(tmp_path, monkeypatch):
    a_place_says_only_how_far_its_reader_came(monkeypatch)
    with pytest.raises(AssertionError):
        test_a_reader_inside_of_a_run_of_pages_that_was_replaced(tmp_path)


OPERATIONS = {
    "remove_nodes": lambda live, n: live.update(remove_nodes=[n]),
    "bulk": lambda live, n: live.bulk([[(n, 99)]]),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_only_snapshots_hold_tells_copies_apart(live, tmp_path, name):
    """Two copies do different things that the log does not hold, at the same sequence."""
    other = dygcn.open(crashed_copy(live, tmp_path / "other"))
    for one, n in ((live, 3), (other, 7)):
        OPERATIONS[name](one, n)
    assert live.sequence == other.sequence
    assert not other.feed.confirms(live.feed.history)
    reader = Reader().catch_up(live)
    reader.catch_up(other)
    other._let_go()


def test_operations_that_leave_no_trace_in_the_chain_would_be_noticed(live, tmp_path, monkeypatch):
    barriers_are_all_alike(monkeypatch)
    with pytest.raises(AssertionError):
        test_what_only_snapshots_hold_tells_copies_apart(live, tmp_path, "remove_nodes")


def test_copies_that_did_the_same_are_one_history(live, tmp_path):
    other = dygcn.open(crashed_copy(live, tmp_path / "other"))
    for one in (live, other):
        one.update(add=[(3, 30)])
    assert other.feed.history == live.feed.history
    assert other.feed.confirms(live.feed.history)
    other._let_go()


def test_a_new_log_is_a_new_epoch(live, tmp_path):
    reader, shown = Reader().catch_up(live), live.feed.history
    live.save(tmp_path / "model")
    with dygcn.open(tmp_path / "new", dygcn.load(tmp_path / "model")) as new:
        assert new.feed.history.epoch != shown.epoch
        assert new.feed.history.generation >= shown.generation
        assert not new.feed.confirms(shown)
        reader.catch_up(new)
        assert reader.resets == 2


# ---- epochs ------------------------------------------------------------------------------------------


def test_a_new_epoch_starts_everyone_anew(live):
    reader, shown = Reader().catch_up(live), live.feed.history
    first = live.feed.begin_epoch()
    assert first == live.feed.history
    assert (first.sequence, len(first.epoch), len(first.chain)) == (shown.sequence + 1, 16, 32)
    assert first.epoch != shown.epoch
    assert first.generation > shown.generation
    assert not live.feed.confirms(shown)
    assert live.feed.confirms(first)
    reader.catch_up(live)
    assert reader.resets == 2
    live.update(add=[(1, 9)])
    reader.catch_up(live)
    assert reader.resets == 2


def test_a_generation_grows_also_where_the_clock_does_not(live, monkeypatch):
    before = live.feed.history.generation
    monkeypatch.setattr("dygcn.live.durable.storage.entries.time.time_ns", lambda: 0)
    assert [live.feed.begin_epoch().generation - before for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("saved", ["never", "before", "behind", "pruned"])
def test_an_epoch_survives(live, saved):
    if saved == "before":
        live.snapshot()
    first = live.feed.begin_epoch()
    if saved != "never":
        live.snapshot()
    live.update(add=[(1, 9)])
    if saved == "pruned":
        for n in range(3):
            live.update(add=[(1, 10 + n)])
            live.snapshot()
        oldest = live._log._db.execute("SELECT min(seq) FROM entries").fetchone()[0]
        assert oldest > first.sequence
    shown = live.feed.history
    for _ in range(2):
        live = reopened(live)
        assert live.feed.history == shown
        assert live.feed.confirms(shown)
    assert live.feed.begin_epoch().generation > first.generation
    live._let_go()


def test_an_epoch_of_a_rolled_embedding(tmp_path):
    """It is no update: nothing is due for it, before or after a restart."""
    live, twin = dygcn.open(tmp_path / "x", begun("rolling")), begun("rolling")
    for n in range(9):
        for one in (live, twin):
            one.update(add=[(n, n + 2), (n, n + 5)])
        if n % 3 == 1:
            live.feed.begin_epoch()
        if n % 4 == 3:
            live = reopened(live)
        assert live.digest() == twin.digest()
    with pytest.raises(dygcn.errors.FeatureError):
        live.publish(tolerance=0.1)
    with pytest.raises(dygcn.errors.FeatureError):
        live.publish()
    assert live._log.failure is None
    live._let_go()


@pytest.mark.parametrize("body", [b"", bytes(15), bytes(17), b"\xff" * 16])
def test_an_entry_that_is_no_epoch_is_damage(live, body):
    crash(live)
    log = EventLog(live._folder / "log.sqlite3")
    log.append([NewEntry(Kind.EPOCH, "", -1, body)], log.last_batch_id + 1)
    log.close()
    with pytest.raises(DamagedLog, match="epoch"):
        dygcn.open(live._folder)


def test_positions_are_known_as_long_as_they_are_remembered(live, monkeypatch):
    monkeypatch.setattr(log_module, "MOST_CHAINS", 8)
    shown = [live.feed.history]
    for n in range(20):
        live.update(add=[(1, 30 + n)])
        shown.append(live.feed.history)
        if n % 6 == 5:
            live.snapshot()
    known = [live.feed.confirms(one) for one in shown]
    in_file = live._log._db.execute("SELECT min(seq) FROM entries").fetchone()[0]
    assert known == [one.sequence >= min(in_file, live.sequence - 7) for one in shown]
    snapshots = [sequence for sequence, _ in list_snapshots(live._folder)]
    assert all(live.feed.confirms(one) for one in shown if one.sequence in snapshots)
    again = reopened(live)
    assert [again.feed.confirms(one) for one in shown] == [one.sequence >= in_file for one in shown]
    again._let_go()


def test_positions_that_are_pruned_are_remembered(live):
    shown = []
    for n in range(50):
        live.update(add=[(1, 30 + n)])
        shown.append(live.feed.history)
        live.snapshot()
    assert all(map(live.feed.confirms, shown))
    assert live._log._db.execute("SELECT count(*) FROM entries").fetchone()[0] <= 2


def test_positions_that_somebody_made_up(live):
    now = live.feed.history
    for wrong in (
        dataclasses.replace(now, generation=now.generation + 1),
        dataclasses.replace(now, epoch="0" * 16),
        dataclasses.replace(now, chain="0" * 32),
        dataclasses.replace(now, chain=now.chain[:16]),
        *(dataclasses.replace(now, sequence=n) for n in (-1, 0, now.sequence + 1, 10**30)),
        History(0, "", 0, ""),
    ):
        assert not live.feed.confirms(wrong)


# ---- restoring ---------------------------------------------------------------------------------------


def test_a_folder_is_restored(live, tmp_path):
    live.update(add=[(1, 50)], stream="clicks", offset=7)
    live.publish(tolerance=0.25)
    live.publish()
    shown = live.feed.history
    digest, streams = live.digest(), live.streams
    live.close()
    (live._folder / "cursors").mkdir(exist_ok=True)
    (live._folder / "cursors" / "one.json").write_text("{}")
    before = sorted(path.relative_to(live._folder) for path in live._folder.rglob("*"))
    position = dygcn.restore(live._folder, tmp_path / "deep" / "er" / "again")
    assert sorted(path.relative_to(live._folder) for path in live._folder.rglob("*")) == before
    with dygcn.open(tmp_path / "deep" / "er" / "again") as again:
        assert again.feed.confirms(position)
        assert again.feed.history.epoch == position.epoch
        assert position.generation > shown.generation
        assert not again.feed.confirms(shown)
        assert (again.digest(), again.streams, again._tolerance) == (digest, streams, 0.25)
        assert not (again._folder / "cursors").exists()
    assert [path.name for path in (tmp_path / "deep" / "er").iterdir()] == ["again"]
    with dygcn.open(live._folder) as same:
        assert same.feed.history == shown


def test_of_two_restored_copies_the_last_one_wins(live, tmp_path):
    live.close()
    first, second = (dygcn.restore(live._folder, tmp_path / name) for name in ("one", "two"))
    assert first.sequence == second.sequence
    assert first.epoch != second.epoch
    assert second.generation >= first.generation > 0


def test_a_backup_that_is_open_is_not_restored(live, tmp_path):
    with pytest.raises(FolderInUse):
        dygcn.restore(live._folder, tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_what_cannot_be_restored_says_so(live, tmp_path):
    live.close()
    dygcn.start(live.model).save(tmp_path / "plain")
    (tmp_path / "here").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for backup, folder, named in (
        (tmp_path / "plain", tmp_path / "new", "not a durable folder"),
        (tmp_path / "nothing", tmp_path / "new", "does not exist"),
        (live._folder, tmp_path / "here", "exists"),
        (live._folder, tmp_path / "link", "exists"),
        (live._folder, live._folder, "exists"),
        (live._folder, live._folder / "inside", "lies inside"),
    ):
        with pytest.raises(FolderError, match=named):
            dygcn.restore(backup, folder)
    with dygcn.open(live._folder) as again:
        assert len(again) == 21


def test_a_damaged_backup_is_not_restored(live, tmp_path):
    live.update(add=[(1, 50)])
    live.close()
    for path in (live._folder, *(cursor for _, cursor in list_snapshots(live._folder))):
        (path / "graph.safetensors").write_bytes(b"")
    with pytest.raises((FolderError, StorageError)):
        dygcn.restore(live._folder, tmp_path / "again")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x"]


# ---- the tolerance -----------------------------------------------------------------------------------


@pytest.fixture
def hubs(monkeypatch):
    monkeypatch.setenv("DYGCN_HEAVY_FROM", "16")


def hub(path):
    live = begin(path)
    live.update(add=[(0, spoke) for spoke in range(1, 60)] + [(n, n + 1) for n in range(1, 30)])
    return live


def keep_back(live, first=1000):
    """Have a tolerance keep moves back."""
    for n in range(3):
        live.update(add=[(0, first + n)])
    assert live.error_bound([1])[0] > 0


@pytest.mark.parametrize("end", ["_let_go", "close"])
@pytest.mark.parametrize("saved", [True, False])
def test_a_restart_keeps_back_what_was_kept_back(hubs, tmp_path, saved, end):
    live = hub(tmp_path / "x")
    live.publish(tolerance=0.5)
    reader = Reader().catch_up(live)
    keep_back(live)
    if saved:
        live.snapshot()
    reader.catch_up(live, exact=False)
    sequence, digest = live.sequence, live.digest()
    assert any(reader.rows[one] != live[one].tobytes() for one in live)
    getattr(live, end)()
    again = dygcn.open(live._folder)
    assert (again._tolerance, again.sequence) == (0.5, sequence)
    assert again.digest() == again.recompute().digest() == digest
    assert reader.catch_up(again, exact=False).reported == []
    keep_back(again, 2000)  # as before
    reader.catch_up(again, exact=False)
    again.publish()
    assert {*range(1, 60)} <= {*reader.catch_up(again).reported}
    again._let_go()


def test_a_restart_without_anything_kept_back_is_quiet(hubs, tmp_path):
    live = hub(tmp_path / "x")
    live.publish(tolerance=0.5)
    keep_back(live)
    live.publish()
    live.snapshot()
    reader = Reader().catch_up(live)
    for _ in range(2):
        live = reopened(live)
        assert (live.sequence, len(live.feed.since(reader.cursor, 9).rows)) == (live._ahead.saved_at, 0)
    live._let_go()


def test_a_flush_in_the_log_is_told_to_those_before_it(hubs, tmp_path):
    """Kept back before the snapshot, published behind it."""
    live = hub(tmp_path / "x")
    live.publish(tolerance=0.5)
    keep_back(live)
    live.snapshot()
    reader = Reader().catch_up(live, exact=False)
    told = live.publish().ids.tolist()
    live = reopened(live)
    assert live.sequence == reader.shown.sequence + 1
    reader.catch_up(live)
    assert (reader.resets, sorted(reader.reported)) == (1, sorted(told))
    live._let_go()


def test_closing_publishes_nothing(hubs, tmp_path):
    live = hub(tmp_path / "x")
    live.publish(tolerance=0.5)
    reader = Reader().catch_up(live)
    keep_back(live)
    reader.catch_up(live, exact=False)
    live.close()
    sequence = live.sequence
    for _ in range(2):
        with dygcn.open(live._folder) as again:
            assert (again.sequence, again._ahead.saved_at, again._tolerance) == (sequence, sequence, 0.5)
            assert again.digest() == live.digest()
            assert reader.catch_up(again, exact=False).reported == []


@pytest.mark.parametrize("tolerance", [0, 0.125, 7])
@pytest.mark.parametrize("saved", [True, False])
def test_the_last_tolerance_counts(tmp_path, tolerance, saved):
    live = hub(tmp_path / "x")
    live.publish(tolerance=0.25)
    live.publish(tolerance=tolerance)
    if saved:
        live.snapshot()
    live = reopened(live)
    assert live._tolerance == tolerance
    assert live.version == live._log.last_batch_id
    live._let_go()


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "much"])
def test_a_tolerance_that_is_none_leaves_no_trace(live, wrong):
    before = live.feed.history
    with pytest.raises(OptionError, match="tolerance is"):
        live.publish(tolerance=wrong)
    assert (live.feed.history, live._log.failure) == (before, None)


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("change", [lambda live: live.publish(), lambda live: live.publish(tolerance=0.1)])
def test_what_was_published_by_halves_fails_the_log(hubs, tmp_path, monkeypatch, error, change):
    """It is no refusal: nobody knows how much of it was done."""
    live = hub(tmp_path / "x")
    live.publish(tolerance=0.5)
    reader = Reader().catch_up(live)
    keep_back(live)
    reader.catch_up(live, exact=False)

    def say(self, nodes):
        raise error("no room for what was announced")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Announcer, "_say", say)
        with pytest.raises(error):
            change(live)
    assert isinstance(live._log.failure, WriteFailed)
    for use in (
        live.publish,
        lambda: live.update(add=[(3, 77)]),
        lambda: live.publish(tolerance=1),
        live.feed.begin_epoch,
    ):
        with pytest.raises(WriteFailed):
            use()
    again = reopened(live)
    assert again.digest() == again.recompute().digest()
    reader.catch_up(again)
    again._let_go()


def test_a_flush_that_fails_and_counts_as_refused_would_be_noticed(hubs, tmp_path, monkeypatch):
    def log_then(self, entries, change, dead=(), refusable=(), settled=()):
        batch_id = self.log.last_batch_id + 1
        self.sequence = self.log.append(entries, batch_id, dead)
        self._making = self.sequence, batch_id
        try:
            return change()
        except BaseException:
            self._refuse(batch_id)
            raise

    monkeypatch.setattr(WriteAhead, "log_then", log_then)
    with monkeypatch.context() as meanwhile, pytest.raises(AssertionError):
        test_what_was_published_by_halves_fails_the_log(
            hubs, tmp_path, meanwhile, MemoryError, lambda one: one.publish()
        )
