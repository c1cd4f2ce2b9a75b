"""From any folder that a crash can leave to the state that was acknowledged, or to a named error."""

import dataclasses
import json
import shutil
import sqlite3
import warnings
from contextlib import closing

import numpy as np
import pytest

import dygcn
from dygcn.engine.events import read_events
from dygcn.engine.models import folder as folders
from dygcn.errors import DamagedFolder, DamagedLog, EventError, NormBandWarning
from dygcn.live.durable import embedding as durable
from dygcn.live.durable import recovery
from dygcn.live.durable.recovery import Beginning, batches, logged_batches, newest_good
from dygcn.live.durable.snapshots import SnapshotWriter
from dygcn.live.durable.source_batch import SourceBatch
from dygcn.live.durable.storage.entries import Entry, Kind, pack
from dygcn.live.durable.storage.layout import MARK_FILE, list_snapshots, snapshot_path
from dygcn.live.durable.storage.log import EventLog
from dygcn.live.durable.write_ahead import WriteAhead
from dygcn.live.files import load_snapshot, take_snapshot
from dygcn.live.model_files import LogPosition
from dygcn.paper import BaseRecipe, Watch
from tests.live.crashing import (
    TOO_HEAVY,
    begin,
    comes_back,
    crash,
    crashed_copy,
    many_folders,
    refuse_one,
    reopened,
    same,
    small_model,
)
from tests.live.test_rolled import begun, model_of

EMPTY = pack(read_events([]))
LETTERS = {"e": Kind.EVENTS, "r": Kind.REFUSAL, "b": Kind.BARRIER, "n": Kind.EPOCH, "f": Kind.FLUSH}


def made(*kinds):
    """Entries of a log by kind: `e2` for events of batch 2, `r3:2` for a refusal of batch 2 in batch 3."""
    entries = []
    for seq, text in enumerate(kinds, 1):
        batch_id, _, refused = text[1:].partition(":")
        kind = LETTERS[text[0]]
        body = refused.encode() if kind == Kind.REFUSAL else pack(read_events([(seq, seq + 1)]))
        entries.append(Entry(seq, int(batch_id), kind, "", -1, body, b""))
    return entries


# ---- logged batches and batches ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        ([], []),
        (["e1"], [(1, 1, True)]),
        (["e1", "e2"], [(1, 1, False), (2, 2, True)]),
        (["e1", "e1", "e2", "e2", "e2"], [(1, 2, False), (2, 5, True)]),
        (["e1", "r2:1"], []),
        (["e1", "r2:1", "e3"], [(3, 3, True)]),
        (["e1", "e2", "r3:2", "e4"], [(1, 1, False), (4, 4, True)]),
        (["e1", "e2", "e2", "r3:2"], [(1, 1, False)]),
        (["b1", "r2:1", "e3"], [(3, 3, True)]),
        (["e1", "b2"], [(1, 1, False), (2, 2, True)]),
        (["b1"], [(1, 1, True)]),
        (["r1:0", "e2"], [(2, 2, True)]),
        (["e1", "n2"], [(1, 1, False)]),
        (["e1", "n2", "f3", "e4"], [(1, 1, False), (3, 3, False), (4, 4, True)]),
        (["f1"], [(1, 1, True)]),
    ],
)
def test_cuts_that_were_not_refused(kinds, found):
    assert [
        (logged[-1].batch_id, logged[-1].seq, last) for logged, last in logged_batches(made(*kinds))
    ] == found


@pytest.mark.parametrize("behind", ["e2", "b2", "r2:7", "n2", "f2"])
def test_what_only_a_snapshot_holds_is_missed(behind):
    with pytest.raises(DamagedLog, match="only in a snapshot"):
        list(logged_batches(made("b1", behind, "e3")))


def replayed(*bodies, merge=True):
    entries = [Entry(seq, seq, Kind.EVENTS, "", -1, body, b"") for seq, body in enumerate(bodies, 1)]
    return [
        (len(one.batch), one.now, len(one.logged_batches), one.certain)
        for one in batches(logged_batches(entries), lambda: merge)
    ]


PLAIN, DATED = pack(read_events([(1, 2)])), pack(read_events([(1, 2, 3, 1)]))
NOW = pack(read_events([(1, 2)]), 7.0)


def test_cuts_are_joined_where_nobody_can_see_it():
    assert replayed(PLAIN, PLAIN, PLAIN) == [(2, None, 2, True), (1, None, 1, False)]
    assert replayed(PLAIN, DATED, DATED, PLAIN, PLAIN) == [
        (1, None, 1, True),
        (2, None, 2, True),
        (1, None, 1, True),
        (1, None, 1, False),
    ]
    assert replayed(PLAIN, NOW, PLAIN, PLAIN) == [
        (1, None, 1, True),
        (1, 7.0, 1, True),
        (1, None, 1, True),
        (1, None, 1, False),
    ]


def test_cuts_are_left_alone_where_they_matter():
    assert [one[2:] for one in replayed(*[PLAIN] * 4, merge=False)] == [(1, True)] * 3 + [(1, False)]


def test_not_too_many_are_joined(monkeypatch):
    monkeypatch.setattr(recovery, "_MERGED", 3)
    assert [one[0] for one in replayed(*[PLAIN] * 9)] == [3, 3, 2, 1]


# ---- which snapshot ----------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """A folder with snapshots at 2 and 4 and two entries behind them, as a crash left it."""
    live = begin(tmp_path / "x", keep_log="0B")
    for step in range(1, 7):
        live.update(add=[(0, step)], stream="clicks", offset=step * 10)
        if step in (2, 4):
            live.snapshot()
    crash(live)
    return live._folder


def state_of(folder):
    with dygcn.open(folder) as live:
        return live.digest(), live.streams, live.sequence, live._ahead.damage


@pytest.fixture
def whole(folder, tmp_path):
    return state_of(shutil.copytree(folder, tmp_path / "copy"))


def begins(folder):
    with closing(EventLog(folder / "log.sqlite3")) as log:
        return newest_good(folder, log)


def test_the_newest_is_taken(folder):
    found = begins(folder)
    assert isinstance(found, Beginning)
    assert (found.position.sequence, found.position.batch_id, found.position.streams) == (
        4,
        4,
        {"clicks": 40},
    )
    assert (found.damage, found.unusable, len(found.state.graph)) == ([], [], 5)


DAMAGE = {
    "flipped": lambda place: (place / "graph.safetensors").write_bytes(
        bytes([(place / "graph.safetensors").read_bytes()[0] ^ 1])
        + (place / "graph.safetensors").read_bytes()[1:]
    ),
    "truncated": lambda place: (place / "model.safetensors").write_bytes(b""),
    "without a manifest": lambda place: (place / "manifest.json").unlink(),
    "without a graph": lambda place: (place / "graph.safetensors").unlink(),
    "emptied": lambda place: [file.unlink() for file in place.iterdir()],
    "gone": shutil.rmtree,
}


@pytest.mark.parametrize("how", sorted(DAMAGE))
def test_an_older_one_and_the_log_give_the_same(folder, whole, how):
    DAMAGE[how](snapshot_path(folder, 4))
    digest, streams, sequence, damage = state_of(folder)
    assert (digest, streams, sequence) == whole[:3]
    assert len(damage) == 1
    assert "4" in damage[0]
    assert state_of(folder) == whole  # the damaged one is out of the way, a new one in its place


@pytest.mark.parametrize("how", ["flipped", "without a manifest"])
def test_a_damaged_one_does_not_count_among_those_that_are_kept(folder, how):
    DAMAGE[how](snapshot_path(folder, 4))
    with dygcn.open(folder) as live:
        live.snapshot()
        assert [sequence for sequence, _ in list_snapshots(folder)] == [6, 2]
    assert (folder / "snapshots" / "damaged").is_dir()


def test_all_damaged(folder):
    for _, place in list_snapshots(folder):
        DAMAGE["flipped"](place)
    with pytest.raises(DamagedLog, match="entry 1 is not what was written, or is missing"):
        dygcn.open(folder)
    DAMAGE["flipped"](folder)
    with pytest.raises(DamagedFolder, match="no snapshot that can be used"):
        dygcn.open(folder)
    assert len(list_snapshots(folder)) == 2  # nothing was set aside: nothing better was found


def test_before_the_first_snapshot_there_is_what_it_began_with(tmp_path):
    live = begin(tmp_path / "x")
    live.update(add=[(1, 2)])
    again = reopened(live)
    assert begins_at(again) == 0
    assert same(again, live)
    crash(again)


def begins_at(live):
    return live._ahead.saved_at


def reseal(place, change):
    """Write a snapshot whose checksums are right and whose content is not."""
    settings, files, _ = folders.read_folder(place, ("model.safetensors", "graph.safetensors"))
    change(settings)
    shutil.rmtree(place)
    folders.write_folder(place, settings, files)


LIES = {
    "another sequence": lambda log: log.update(sequence=3),
    "a sequence below zero": lambda log: log.update(sequence=-4),
    "a sequence beyond all": lambda log: log.update(sequence=2**70),
    "a batch_id beyond all": lambda log: log.update(batch_id=2**63),
    "a batch_id below zero": lambda log: log.update(batch_id=-1),
    "a stream below zero": lambda log: log.update(streams={"a": -1}),
    "a stream beyond all": lambda log: log.update(streams={"a": 2**63}),
    "no epoch": lambda log: log.update(epoch=""),
    "an epoch of no digits": lambda log: log.update(epoch="x" * 32),
    "an epoch beyond all": lambda log: log.update(epoch="f" * 32),
    "a tolerance below zero": lambda log: log.update(tolerance=-0.5),
}


@pytest.mark.parametrize("lie", sorted(LIES))
def test_a_position_that_cannot_be_is_damage(folder, whole, lie):
    reseal(snapshot_path(folder, 4), lambda settings: LIES[lie](settings["log"]))
    digest, streams, sequence, damage = state_of(folder)
    assert (digest, streams, sequence, len(damage)) == (*whole[:3], 1)


def test_a_snapshot_without_a_position_is_damage(folder, whole):
    reseal(snapshot_path(folder, 4), lambda settings: settings.update(log=None))
    assert state_of(folder)[:3] == whole[:3]


def test_a_snapshot_of_another_chain_is_refused(folder):
    """It is whole, so it says that the log is not the one it was made of."""
    reseal(snapshot_path(folder, 4), lambda settings: settings["log"].update(chain="00" * 16))
    with pytest.raises(DamagedLog, match="does not hold entry 4"):
        dygcn.open(folder)


def test_a_log_that_lost_its_end_is_refused(folder):
    with closing(sqlite3.connect(folder / "log.sqlite3")) as db, db:
        db.execute("DELETE FROM entries WHERE seq >= 4")
    with pytest.raises(DamagedLog, match="its end is lost"):
        dygcn.open(folder)
    (folder / "log.watermark").unlink()
    with pytest.raises(DamagedLog, match="does not hold entry 4"):
        dygcn.open(folder)


def test_a_log_that_is_gone_is_refused(folder):
    (folder / "log.sqlite3").unlink()
    for _ in range(2):
        with pytest.raises(DamagedLog, match=r"log\.sqlite3 is missing"):
            dygcn.open(folder)
    assert not (folder / "log.sqlite3").exists()


def test_a_log_that_is_gone_is_refused_where_there_is_no_snapshot(tmp_path):
    live = begin(tmp_path / "x")
    live.update(add=[(1, 2)])
    crash(live)
    (live._folder / "log.sqlite3").unlink()
    (live._folder / MARK_FILE).unlink()  # as before there was one
    for _ in range(2):
        with pytest.raises(DamagedLog, match="reached entry 1"):
            dygcn.open(live._folder)


@pytest.mark.parametrize("marked", [True, False])
def test_the_log_of_another_folder_is_refused(folder, tmp_path, marked):
    other = begin(tmp_path / "other")
    for step in range(1, 9):
        other.update(add=[(100, step)])
    crash(other)
    shutil.copy(other._folder / "log.sqlite3", folder)
    if marked:
        shutil.copy(other._folder / "log.watermark", folder)
    with pytest.raises(DamagedLog):
        dygcn.open(folder)


def test_an_altered_entry_behind_the_snapshot_is_noticed(folder):
    with closing(sqlite3.connect(folder / "log.sqlite3")) as db, db:
        db.execute("UPDATE entries SET body = ? WHERE seq = 5", (pack(read_events([(7, 8)])),))
    with pytest.raises(DamagedLog, match="entry 5"):
        dygcn.open(folder)


def test_an_altered_entry_that_nobody_needs_is_no_harm(folder, whole):
    with closing(sqlite3.connect(folder / "log.sqlite3")) as db, db:
        db.execute("UPDATE entries SET body = ? WHERE seq = 3", (pack(read_events([(7, 8)])),))
    assert state_of(shutil.copytree(folder, folder.with_name("copy 2")))[:3] == whole[:3]
    DAMAGE["flipped"](snapshot_path(folder, 4))
    with pytest.raises(DamagedLog, match="entry 3"):
        dygcn.open(folder)


def test_a_snapshot_that_belongs_to_nobody_would_be_noticed(folder, monkeypatch):
    """The mutant: the newest whole snapshot is taken, whatever log lies beside it."""
    reseal(snapshot_path(folder, 4), lambda settings: settings["log"].update(chain="00" * 16))
    monkeypatch.setattr(EventLog, "chain_at", lambda self, seq: bytes(16))
    with pytest.raises(DamagedLog):  # only the chain behind it still notices
        dygcn.open(folder)


def test_a_snapshot_is_of_one_moment(tmp_path):
    """It is written later, and shares nothing with the state, which goes on."""
    live = begin(tmp_path / "x", directed=True, half_life=5.0)
    for t in range(30):
        live.update([(t % 7, t % 5 + 7, float(t), 1 if t % 3 else -1, 1.0 + t % 4)])
    then, digest = (
        take_snapshot(live._state, live.version, LogPosition(30, 30, "", {}, "", 0.0), live.feed.image),
        live.digest(),
    )
    for t in range(30, 80):
        live.update([(t % 9, t % 5 + 7, float(t), 1 if t % 3 else -1, 1.0 + t % 4)])
    live.update(remove_nodes=[7])
    then.write(tmp_path / "then")
    assert dygcn.load(tmp_path / "then").digest() == digest != live.digest()
    assert load_snapshot(tmp_path / "then")[2].sequence == 30
    crash(live)


# ---- what is not in the log --------------------------------------------------------------------------


class Died(BaseException):
    """What a crash looks like from inside."""


def die(*_):
    raise Died


OPERATIONS = {
    "bulk": lambda live: live.bulk([[(5, 6)], [(6, 7)]]),
    "remove_nodes": lambda live: live.update(remove_nodes=[1]),
}


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_an_operation_whose_snapshot_was_not_written_never_was(tmp_path, monkeypatch, name):
    live = begin(tmp_path / "x")
    live.update(add=[(1, 2), (2, 3)], stream="a", offset=1)
    before = live.digest()
    monkeypatch.setattr(SnapshotWriter, "_write", die)
    with pytest.raises(Died):
        OPERATIONS[name](live)
    monkeypatch.undo()
    assert live.digest() != before
    again = reopened(live)
    assert (again.digest(), again.streams, again._ahead.damage) == (before, {"a": 1}, [])
    twice = reopened(again)
    assert same(twice, again)
    OPERATIONS[name](twice)
    done = reopened(twice)
    assert same(done, twice)
    crash(done)


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_an_operation_is_there_once_its_snapshot_is(tmp_path, monkeypatch, name):
    live = begin(tmp_path / "x")
    live.update(add=[(1, 2), (2, 3)], stream="a", offset=1)
    monkeypatch.setattr(SnapshotWriter, "_tidy", die)
    with pytest.raises(Died):
        OPERATIONS[name](live)
    monkeypatch.undo()
    comes_back(live)


@pytest.mark.parametrize("behind", [0, 1, 3])
@pytest.mark.parametrize("how", sorted(DAMAGE))
@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_an_operation_whose_snapshot_is_damaged_is_missed_by_name(tmp_path, name, how, behind):
    """It was acknowledged and is nowhere else: never silently without it."""
    live = begin(tmp_path / "x")
    live.update(add=[(1, 2), (2, 3)])
    OPERATIONS[name](live)
    for step in range(behind):
        live.update(add=[(9, step)])
    crash(live)
    DAMAGE[how](list_snapshots(live._folder)[0][1])
    for _ in range(2):
        with pytest.raises((DamagedFolder, DamagedLog)):
            dygcn.open(live._folder)


def test_a_lost_operation_that_is_not_missed_would_be_noticed(tmp_path, monkeypatch):
    """The mutant: an operation at the end of the log is always taken for one that was never done."""

    def replayed(self, one):
        self.damage = []
        whole(self, one)

    whole = WriteAhead._replayed
    monkeypatch.setattr(WriteAhead, "_replayed", replayed)
    with pytest.raises(pytest.fail.Exception):
        test_an_operation_whose_snapshot_is_damaged_is_missed_by_name(tmp_path, "bulk", "flipped", 0)


def test_a_bulk_load_with_a_bad_part_keeps_the_parts_before_it(tmp_path):
    live = begin(tmp_path / "x")
    live.update(add=[(1, 2)])
    with pytest.raises(EventError):
        live.bulk([[(5, 6)], [(6, 7, 0, 1, TOO_HEAVY)], [(8, 9)]])
    assert sorted(live) == [1, 2, 5, 6]
    assert live.digest() == live.recompute().digest()
    np.testing.assert_array_equal(live.vectors([5]), live.recompute().vectors([5]))
    again = reopened(live)
    assert same(again, live)

    def broken():
        yield [(10, 11)]
        raise RuntimeError("the file ends here")

    with pytest.raises(RuntimeError):
        again.bulk(broken())
    assert 10 in again
    last = reopened(again)
    assert same(last, again)
    crash(last)


def test_a_plain_bulk_load_with_a_bad_part_has_vectors_for_the_parts_before_it():
    live = dygcn.start(small_model())
    live.update(add=[(1, 2)])
    live.nearest(1)
    with pytest.raises(EventError):
        live.bulk([[(2, 6)], [(6, 7, 0, 1, TOO_HEAVY)]])
    assert live.digest() == live.recompute().digest()
    assert live.nearest(1) == live.recompute().nearest(1)
    assert live.version == 2


# ---- crashes between any two steps -------------------------------------------------------------------


def script():
    """Requests of two clients and a broker, with events that no model carries, and plain updates."""

    def part(stream, first, *weights):
        events = [(first % 5, first % 3 + 5 + i, 0, 1, weight) for i, weight in enumerate(weights)]
        return SourceBatch(read_events(events), f"http:{stream}", first + len(weights) - 1, first)

    bad = TOO_HEAVY
    return [
        lambda live: live._ingest([part("a", 0, 1, 2, 3), part("b", 0, 1, bad, 2)]),
        lambda live: live._ingest([part("a", 3, bad, bad), part("b", 3, 4)]),
        lambda live: live.update([(1, 2, 0, 1, 3.0)], stream="kafka:x/0", offset=17),
        lambda live: live._ingest([part("a", 5, 1, 1, bad, 1, 1, 1, bad)]),
        lambda live: live.bulk([[(20, 21)], [(21, 22)]]) if 22 not in live else None,
        lambda live: live._ingest([part("b", 4, bad)]),
        lambda live: live._ingest([part("b", 5, 1), part("a", 12, 7), part("b", 6, bad, 1)]),
        lambda live: live.snapshot(),
        lambda live: live.update([(1, 9, 0, -1, 1.0)], stream="kafka:x/0", offset=30),
    ]


def outcome(live):
    letters = {(one.stream, one.offset, one.row, one.event) for _, one in live._log.dead_letters(1000)}
    return live.digest(), live.streams, letters


def watch(monkeypatch, reported):
    """Call `told` before and after everything that a crash can fall between."""

    def around(owner, name):
        whole = getattr(owner, name)

        def call(*arguments, **options):
            reported()
            result = whole(*arguments, **options)
            reported()
            return result

        monkeypatch.setattr(owner, name, call)

    around(EventLog, "append")
    around(dygcn.LiveEmbedding, "_apply")
    around(SnapshotWriter, "_write")
    around(SnapshotWriter, "_tidy")


def run_with_crash(path, nth, monkeypatch):
    """Run the script, crash at the n-th point, open again and go on from what was not answered."""
    live, count = begin(path), [0]

    def reported():
        count[0] += 1
        if count[0] == nth:
            raise Died

    with monkeypatch.context() as meanwhile:
        watch(meanwhile, reported)
        steps = iter(script())
        for step in steps:
            try:
                step(live)
            except Died:
                break
        else:
            return live, False
    before = shutil.copytree(live._folder, path.with_name(f"{path.name} crashed"))
    crash(live)
    live = dygcn.open(before)
    step(live)  # whoever was not answered asks again
    for step in steps:
        step(live)
    return live, True


SIFTED = {
    ("http:b", 2, 1),
    ("http:a", 4, 0),
    ("http:a", 4, 1),
    ("http:a", 11, 2),
    ("http:a", 11, 6),
    ("http:b", 4, 0),
    ("http:b", 7, 0),
}
WHOLE = (
    SIFTED | {("http:b", 2, 0), ("http:b", 2, 2), ("http:b", 7, 1)} | {("http:a", 11, n) for n in range(7)}
)


def nothing_is_found_before(monkeypatch):
    """Have every refusal come as a surprise, when events are applied."""
    monkeypatch.setattr(durable, "find_refused", lambda *_: {})
    monkeypatch.setattr(durable, "check_batch", lambda *_: None)


@pytest.mark.parametrize(
    ("surprised", "every"),
    [(False, 1), (True, 3), pytest.param(True, 1, marks=pytest.mark.slow)],
    ids=["refused before", "refused after", "refused after, every point"],
)
def test_a_crash_at_any_point_changes_nothing(monkeypatch, surprised, every):
    if surprised:
        nothing_is_found_before(monkeypatch)
    with many_folders() as new_folder:
        plain, crashed = run_with_crash(new_folder(), 0, monkeypatch)
        wanted, nth = outcome(plain), 0
        assert not crashed
        assert {letter[:3] for letter in wanted[2]} == (WHOLE if surprised else SIFTED)
        crash(plain)
        crashed = True
        while crashed:
            nth += every
            live, crashed = run_with_crash(new_folder(), nth, monkeypatch)
            assert outcome(live) == wanted, f"crash at point {nth}"
            again = reopened(live)
            assert outcome(again) == wanted, f"crash at point {nth}"
            crash(again)
        assert nth > (90 if surprised else 30)


def test_letters_that_name_another_place_would_be_noticed(monkeypatch):
    """The mutant: letters are told apart by the sequence, which is another one after a crash."""
    whole = SourceBatch.without

    def without(self, refused, sequence):
        sifted = whole(self, refused, sequence)
        named = tuple(dataclasses.replace(letter, offset=sequence) for letter in sifted.dead)
        return dataclasses.replace(sifted, dead=named)

    monkeypatch.setattr(SourceBatch, "without", without)
    with pytest.raises(AssertionError, match="http:b"):
        test_a_crash_at_any_point_changes_nothing(monkeypatch, surprised=False, every=1)


def test_a_refusal_that_is_not_written_would_be_noticed(monkeypatch):
    """The mutant: a batch that cannot be applied is only forgotten in memory."""

    def refuse(self, batch_id):
        self.pending = False

    monkeypatch.setattr(WriteAhead, "_refuse", refuse)
    with pytest.raises((AssertionError, EventError), match=r"crash at point|weight is"):
        test_a_crash_at_any_point_changes_nothing(monkeypatch, surprised=True, every=1)


# ---- refusals at the end -----------------------------------------------------------------------------


def test_a_refusal_at_the_end_counts(tmp_path):
    live = begin(tmp_path / "x")
    live.update(add=[(1, 2)])
    refuse_one(live)
    assert live.sequence == 3
    for _ in range(3):
        live = reopened(live)
        assert (live.sequence, live.feed.sequence) == (3, 3)
    live.close()
    with dygcn.open(live._folder) as again:
        assert (again.sequence, again.version) == (3, 1)
        assert again.update(add=[(4, 5)]).version > 1
        assert again.sequence == 4
    with dygcn.open(live._folder) as again:
        assert 4 in again


@pytest.mark.parametrize("applied", [True, False])
def test_a_cut_of_which_nobody_knows_is_tried(tmp_path, monkeypatch, applied):
    """Written, then nothing: it is applied if it can be, refused if not."""
    live = begin(tmp_path / "x")
    live.update(add=[(1, 2)])
    nothing_is_found_before(monkeypatch)
    monkeypatch.setattr(dygcn.LiveEmbedding, "_apply", die)
    with pytest.raises(Died):
        live.update([(3, 4, 0, 1, 1.0 if applied else TOO_HEAVY)], stream="a", offset=1)
    monkeypatch.undo()
    again = reopened(live)
    assert (3 in again, again.streams) == (applied, {"a": 1} if applied else {})
    last = reopened(again)
    assert same(last, again)
    crash(last)


# ---- all kinds of models -----------------------------------------------------------------------------


def some_events(random, dated, weighted, strings, count=40):
    for _ in range(count):
        rows = []
        for _ in range(int(random.integers(1, 6))):
            a, b = (f"n{end}" if strings else int(end) for end in random.integers(0, 12, 2))
            t = float(random.integers(0, 50)) if dated else 0
            rows.append(
                (a, b, t, int(random.choice([1, 1, -1])), float(random.integers(1, 9)) if weighted else 1.0)
            )
        yield rows if dated else [(a, b, 0, op, w) for a, b, _, op, w in rows]


@pytest.mark.parametrize("merged", [20_000, 1], ids=["merged", "one by one"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"directed": True, "orders": 3},
        {"kind": "string"},
        {"half_life": 9.0},
        {"half_life": 9.0, "directed": True, "kind": "string"},
        {"unit": 5.0},
        {"unit": 5.0, "half_life": 3.0},
    ],
    ids=str,
)
def test_every_kind_of_model_comes_back(tmp_path, options, merged, monkeypatch):
    monkeypatch.setattr(recovery, "_MERGED", merged)
    random = np.random.default_rng(1)
    live, twin = begin(tmp_path / "x", **options), dygcn.start(small_model(**options))
    for step, rows in enumerate(some_events(random, True, True, options.get("kind") == "string")):
        now = 60.0 + step if step % 7 == 3 else None
        undated = now is not None and step % 2
        events = {
            name: column
            for name, column in zip(
                ("src", "dst", "t", "op", "weight"), map(list, zip(*rows, strict=True)), strict=True
            )
            if name != "t" or not undated
        }
        live.update(events, now=now, stream="s", offset=step)
        twin.update(events, now=now)
        assert live.digest() == twin.digest()
        if step == 20:
            live.snapshot()
        if step % 9 == 5:
            live = reopened(live)
            assert (live.digest(), live._state.graph.clock) == (twin.digest(), twin._state.graph.clock)
            assert live.streams == {"s": step}
    crash(live)


@pytest.mark.parametrize("rule", ["rolling", "spectral"])
def test_rolled_vectors_come_back_with_their_cuts(tmp_path, rule):
    """The result depends on the batches, so the same ones are made again."""
    live, twin = dygcn.open(tmp_path / "x", begun(rule)), begun(rule)
    joined = begun(rule)
    random, everything = np.random.default_rng(3), []
    for step, rows in enumerate(some_events(random, False, False, False)):
        everything += rows
        live.update(rows)
        twin.update(rows)
        if step == 12:
            live.snapshot()
        if step % 7 == 5:
            live = reopened(live)
        assert live.digest() == twin.digest()
    joined.update(everything)
    assert joined.digest() != live.digest()
    crash(live)


def test_a_fitted_rolling_embedding_comes_back(tmp_path):
    """Its base is trained, and taken anew on the way; its checks go on where they were."""
    pytest.importorskip("torch")
    base = dataclasses.replace(BaseRecipe(), epochs=5)
    recipe = dygcn.RollingRecipe(rounds=3, base=base, watch=Watch(links=0.0, every=4))
    random = np.random.default_rng(5)
    past = [(*random.integers(0, 20, 2).tolist(), t, 1) for t in range(6) for _ in range(30)]
    live = dygcn.open(tmp_path / "x", dygcn.fit(past, dim=4, rule="rolling", recipe=recipe))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(30):
            live.update(add=random.integers(0, 30, (5, 2)).tolist(), stream="a", offset=step)
            if step == 13:
                live.restart()
            if step % 10 == 8:
                again = reopened(live)
                assert same(again, live)
                live = again
        assert same(reopened(live), live)


def test_merged_cuts_of_a_rolled_embedding_would_be_noticed(tmp_path, monkeypatch):
    whole = recovery.batches
    monkeypatch.setattr(recovery, "batches", lambda found, merge, end: whole(found, lambda: True))
    with pytest.raises(AssertionError):
        test_rolled_vectors_come_back_with_their_cuts(tmp_path, "rolling")


def test_a_group_of_requests_is_one_cut_again(tmp_path):
    live = dygcn.open(tmp_path / "x", begun("rolling"))
    for step in range(6):
        first = 2 * step
        live._ingest(
            [
                SourceBatch(read_events([(step, step + 1), (step, step + 2)]), "http:a", first + 1, first),
                SourceBatch(read_events([(step + 3, step)])),
                SourceBatch(read_events([(step + 3, step, 5.0, 1)])),
            ]
        )
    comes_back(live)


def test_a_base_of_your_own_comes_back(tmp_path):
    live = dygcn.open(tmp_path / "x", begun("rolling"))
    live.update(add=[(1, 2), (2, 3)])
    live.restart(dygcn.Embedding([1, 2, 30], np.eye(3, 4, dtype=np.float32) + 1))
    live.update(add=[(3, 30)])
    again = reopened(live)
    assert same(again, live)
    with pytest.raises(dygcn.errors.FeatureError):
        again.bulk([[(1, 2)]])
    assert again.sequence == live.sequence
    crash(again)


def test_given_features_come_back(tmp_path):
    features = (["a", "b", "c"], np.eye(3, 8, dtype=np.float32))
    live = dygcn.open(tmp_path / "x", dygcn.fit([("a", "b"), ("b", "c")], features=features, dim=4))
    live.update(add=[("a", "c")])
    live.set_features(["a", "z"], np.ones((2, 8), np.float32))
    live.update(add=[("z", "b")])
    again = reopened(live)
    assert same(again, live)
    with pytest.raises(dygcn.errors.FeatureError):
        again.set_features(["a"], np.ones((1, 3), np.float32))
    last = reopened(again)
    assert last.digest() == live.digest()
    crash(last)


@pytest.mark.parametrize("as_error", [True, False])
def test_a_warning_comes_after_the_update_is_whole(tmp_path, as_error):
    """Also where warnings are errors: the events are applied, and their place is kept."""
    watching = Watch(band=(0.9, 1.1), every=1)
    base = dygcn.Embedding([0, 1, 2, 3], np.ones((4, 4), np.float32))
    started = dygcn.start(model_of("rolling", watch=watching, scale=9.0))
    started.restart(base)
    live = dygcn.open(tmp_path / "x", started)
    with warnings.catch_warnings():
        warnings.simplefilter("error" if as_error else "ignore")
        if as_error:
            with pytest.raises(NormBandWarning):
                live.update(add=[(0, 1)], stream="a", offset=5)
        else:
            live.update(add=[(0, 1)], stream="a", offset=5)
        assert live.streams == {"a": 5}
        assert live._log.failure is None
        assert len(live.update(add=[(2, 3)], stream="a", offset=5)) == 0
        comes_back(live)


def test_a_snapshot_says_what_it_holds(tmp_path):
    with begin(tmp_path / "x") as live:
        live.update(add=[(1, 2)], stream="kafka:x/1", offset=99)
    manifest = json.loads((snapshot_path(live._folder, 1) / "manifest.json").read_text())
    log = manifest["settings"]["log"]
    assert (log["sequence"], log["batch_id"], log["streams"]) == (1, 1, {"kafka:x/1": 99})
    assert (log["epoch"][16:], log["chain"], log["tolerance"]) == (
        live.feed.history.epoch,
        live.feed.history.chain,
        0.0,
    )
    assert dygcn.load(snapshot_path(live._folder, 1)).digest() == live.digest()


def test_the_entries_of_an_empty_batch(tmp_path):
    live = begin(tmp_path / "x")
    live._ingest([SourceBatch(read_events([]), "kafka:x/0", 4)])
    live.update([])
    again = reopened(live)
    assert (again.streams, again.sequence, len(again)) == ({"kafka:x/0": 4}, 2, 0)
    crash(again)


def test_a_hot_copy_comes_back(tmp_path):
    """With the journal as it is while the process runs."""
    live = begin(tmp_path / "x")
    for step in range(50):
        live.update(add=[(step, step + 1)], stream="a", offset=step)
    copy = crashed_copy(live, tmp_path / "copy")
    assert (copy / "log.sqlite3-wal").stat().st_size > 0
    with dygcn.open(copy) as again:
        assert same(again, live)
    crash(live)


def test_empty_entries_are_what_a_barrier_is_read_as():
    assert recovery._NO_EVENTS == EMPTY
