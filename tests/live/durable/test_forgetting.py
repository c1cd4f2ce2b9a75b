"""A forgotten id is in no file and does not come back, whatever is replayed; everyone else stays exact."""

import contextlib
import functools
import json
import os
import shutil
import sqlite3

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import dygcn
from dygcn.engine.events import id_column, read_events
from dygcn.engine.events.wire import decode_events
from dygcn.errors import DamagedFolder, DamagedLog, EventError, FolderError, MissingFolder, StorageError
from dygcn.live.durable import feed, forgetting
from dygcn.live.durable.forgetting import Redaction, text_finder
from dygcn.live.durable.opening import restore
from dygcn.live.durable.source_batch import SourceBatch
from dygcn.live.durable.storage import sqlite_file
from dygcn.live.durable.storage.dead_letters import DeadLetter, events_of
from dygcn.live.durable.storage.erasures import ERASURES_FILE, Erasures
from dygcn.live.durable.storage.layout import LOG_FILE
from dygcn.live.durable.storage.log import EventLog
from dygcn.paper import BaseRecipe
from tests.live.crashing import many_folders

NAME = "dan-miller"
FRIENDS = [("ann", "bob"), ("bob", "cat"), ("cat", "ann"), ("ann", NAME), (NAME, "bob"), ("cat", "eve")]


def files_with(folder, name=NAME):
    """Return the files of a folder that have an id in them, as bytes."""
    wanted = name.encode()
    return sorted(
        str(file.relative_to(folder))
        for file in folder.rglob("*")
        if file.is_file() and wanted in file.read_bytes()
    )


def fitted(**options):
    return dygcn.fit(FRIENDS, dim=8, **options) if options else plain()


@functools.cache
def plain():
    """One embedding for all: a folder begins with a copy of it."""
    return dygcn.fit(FRIENDS, dim=8)


def lived(folder, **options):
    """Return a folder that has the id wherever a folder can have one: also in what it once was."""
    live = dygcn.open(folder, fitted(**options))
    live.update(add=[(NAME, "fay"), ("fay", "gus")], stream="clicks", offset=1)
    live.snapshot()
    live.update(remove_nodes=[NAME])
    live.update(add=[("hal", NAME), ("hal", "ann")], stream="clicks", offset=2)
    bad = decode_events(b'[{"src": "%b", "dst": 7}, {"src": "ann"}]' % NAME.encode(), "json", "string")
    dead = tuple(DeadLetter("clicks", 3, one.row, one.reason, one.text) for one in bad.bad)
    live._ingest([SourceBatch(bad.batch, "clicks", 3, rows=bad.rows, dead=dead)])
    live.snapshot()
    live.update(add=[(NAME, "ann")], remove=[("cat", "eve")], stream="clicks", offset=4)
    return live


def test_no_file_names_it_and_everyone_else_is_exact(tmp_path):
    live = lived(tmp_path / "x")
    assert len(files_with(tmp_path / "x")) > 4
    before = live.digest()
    receipt = live.forget([NAME])
    assert files_with(tmp_path / "x") == []
    assert receipt.digest_before == before
    assert receipt.digest_after == live.digest() == live.recompute().digest()
    assert (receipt.found, receipt.dead_letters) == (1, 1)
    assert receipt.entries >= 2
    assert receipt.sequence == live.sequence
    assert [letter.event for _, letter in live._log.dead_letters()] == ['{"src": "ann"}']
    digest = live.digest()
    live.close()
    assert files_with(tmp_path / "x") == []
    with dygcn.open(tmp_path / "x") as again:
        assert again.digest() == digest
        assert again._ahead.damage == []
        assert NAME not in again


@pytest.mark.parametrize(
    "options",
    [
        {"features": "hashed"},
        {"features": (["ann", "bob", "cat", NAME, "eve"], np.eye(5, 8, dtype=np.float32))},
        {"features": dygcn.Embedding(["ann", "bob", "cat", NAME, "eve"], np.eye(5, 8, dtype=np.float32))},
        {"memory": 10.0},
        {"directed": True},
    ],
    ids=["hashed", "given", "embedding", "memory", "directed"],
)
def test_every_kind_of_model(tmp_path, options):
    if "memory" in options:
        events = {"src": [a for a, _ in FRIENDS], "dst": [b for _, b in FRIENDS], "t": range(len(FRIENDS))}
        live = dygcn.open(tmp_path / "x", dygcn.fit(events, dim=8, **options))
        live.update({"src": [NAME], "dst": ["ann"], "op": [-1], "t": [7]})
    else:
        live = dygcn.open(tmp_path / "x", fitted(**options))
        live.update(add=[(NAME, "fay"), ("fay", "gus")], stream="clicks", offset=1)
    live.forget(NAME)
    assert files_with(tmp_path / "x") == []
    assert live.digest() == live.recompute().digest()
    digest = live.digest()
    live.close()
    with dygcn.open(tmp_path / "x") as again:
        assert again.digest() == digest


@pytest.mark.filterwarnings("ignore::dygcn.errors.TrainingWarning")
def test_the_papers_rule(tmp_path):
    live = dygcn.open(
        tmp_path / "x",
        fitted(rule="rolling", recipe=dygcn.RollingRecipe(rounds=3, base=BaseRecipe(epochs=3))),
    )
    live.update(add=[(NAME, "fay"), ("fay", "gus")])
    live.forget(NAME)
    assert files_with(tmp_path / "x") == []
    digest = live.digest()
    live.close()
    with dygcn.open(tmp_path / "x") as again:
        assert again.digest() == digest


def test_a_row_of_the_model_does_not_come_back_with_a_new_person(tmp_path):
    live = dygcn.open(tmp_path / "x", fitted())
    live.forget(NAME)
    live.update(add=[(NAME, "zoe")])
    assert live.unreached == 2
    digest = live.digest()
    assert digest == live.recompute().digest()
    live.close()
    with dygcn.open(tmp_path / "x") as again:
        assert again.digest() == digest


def test_integer_ids(tmp_path):
    rare = 7_215_431_899_125_551
    live = dygcn.open(tmp_path / "x", dygcn.fit([(1, 2), (2, rare), (rare, 1), (2, 3)], dim=4))
    live.update(add=[(rare, 4), (4, 1)])
    live.snapshot()
    live.forget(rare)
    raw = rare.to_bytes(8, "little")
    assert [file for file in (tmp_path / "x").rglob("*") if file.is_file() and raw in file.read_bytes()] == []
    assert live.digest() == live.recompute().digest()
    live.close()


def test_ids_of_another_type_are_refused(tmp_path):
    with dygcn.open(tmp_path / "x", fitted()) as live, pytest.raises(EventError):
        live.forget([7])


def test_dead_letters_that_many_events_share_keep_the_others(tmp_path):
    names = [NAME if row == 250 else f"p{row}" for row in range(300)]
    dead = [
        DeadLetter("clicks", 1, row, f'src "{name}", dst 7; allowed are strings', f'{{"src": "{name}"}}')
        for row, name in enumerate(names)
    ]
    with dygcn.open(tmp_path / "x", fitted()) as live:
        live._ingest([SourceBatch(read_events([("ann", "bob")]), "clicks", 1, dead=tuple(dead))])
        live.forget(NAME)
        left = [one for _, letter in live._log.dead_letters(1_000) for one in events_of(letter)]
        assert sorted(one.row for one in left) == [row for row in range(300) if row != 250]
        assert files_with(tmp_path / "x") == []


# ---- what comes back, and what does not --------------------------------------------------------------------


def event(t=None, name=NAME, other="ann"):
    return read_events({"src": [name], "dst": [other], **({} if t is None else {"t": [t]})})


@pytest.mark.parametrize(
    ("stream", "position", "t", "comes"),
    [
        ("clicks", 4, None, False),  # at the offset of the forget, or before
        ("clicks", 5, None, True),
        ("other", 0, None, True),  # nobody can know
        ("late", 9, 100.0, False),  # a partition that delivers late
        ("late", 9, 100.5, True),
        ("", -1, 99.0, False),
        ("", -1, 101.0, True),
        ("", -1, None, True),
    ],
)
def test_old_events_are_dropped_and_later_ones_are_a_new_person(tmp_path, stream, position, t, comes):
    live = lived(tmp_path / "x")
    live.forget(NAME, t=100.0)
    if stream == "clicks":
        live._offsets.streams.clear()  # as if the broker's stream were read from its start
    batch = event(t)
    live._ingest([SourceBatch(batch, stream, position), SourceBatch(event(t, "new", "ann"))])
    assert (NAME in live) is comes
    assert "new" in live
    assert live._forgetting.summary().old_events == (not comes)
    assert live.digest() == live.recompute().digest()
    live.close()


def test_an_update_drops_old_events_too(tmp_path):
    with dygcn.open(tmp_path / "x", fitted()) as live:
        live.forget(NAME, t=5)
        live.update({"src": [NAME, "ann"], "dst": ["bob", "zoe"], "t": [5, 6]})
        assert NAME not in live
        assert "zoe" in live
        assert live._forgetting.summary().old_events == 1


def test_numbered_events_of_a_client_have_an_offset_each(tmp_path):
    with dygcn.open(tmp_path / "x", fitted()) as live:
        live._ingest([SourceBatch(event(), "http:shop", 0, first=0)])
        live.forget(NAME)
        live._offsets.streams.clear()
        both = read_events({"src": [NAME, NAME], "dst": ["bob", "cat"]})
        live._ingest([SourceBatch(both, "http:shop", 1, first=0)])
        assert live._forgetting.summary().old_events == 1
        assert NAME in live


def test_a_new_folder_goes_on_where_the_old_one_was(tmp_path):
    live = lived(tmp_path / "old")
    live.forget(NAME)
    fresh = live.refit().embedding
    with dygcn.open(tmp_path / "new", fresh, after=live) as new:
        assert new.streams == live.streams
        for position in range(1, 5):
            new._ingest([SourceBatch(event(), "clicks", position)])
        assert NAME not in new
        new._offsets.streams.clear()
        new._ingest([SourceBatch(event(), "clicks", 4)])
        assert NAME not in new
        new._ingest([SourceBatch(event(), "clicks", 5)])
        assert NAME in new
    live.close()
    assert files_with(tmp_path / "new") != []  # the new person


def test_a_new_folder_remembers_offsets_after_a_restart(tmp_path):
    live = lived(tmp_path / "old")
    live.forget(NAME)
    dygcn.open(tmp_path / "new", live.refit().embedding, after=live).close()
    with dygcn.open(tmp_path / "new") as new:
        assert new.streams == live.streams
        assert new._forgetting.summary().ids == 1
    live.close()


@pytest.mark.parametrize("file", [False, True])
def test_restoring_an_older_backup_applies_later_forgets(tmp_path, file):
    live = lived(tmp_path / "x")
    live.close()
    shutil.copytree(tmp_path / "x", tmp_path / "backup")
    with dygcn.open(tmp_path / "x") as live:
        live.forget(NAME)
        digest = live.digest()
    forgets = tmp_path / "x" / ERASURES_FILE if file else tmp_path / "x"
    restore(tmp_path / "backup", tmp_path / "again", forgets=forgets)
    assert files_with(tmp_path / "again") == []
    with dygcn.open(tmp_path / "again") as again:
        assert again.digest() == digest
        assert NAME not in again
        again._ingest([SourceBatch(event(), "clicks", 4)])
        assert NAME not in again


def test_forgets_of_another_folder_are_refused(tmp_path):
    for name in ("x", "y"):
        with dygcn.open(tmp_path / name, fitted()) as live:
            live.forget(NAME)
    with pytest.raises(FolderError, match="of another folder"):
        restore(tmp_path / "x", tmp_path / "z", forgets=tmp_path / "y")
    with pytest.raises(MissingFolder, match=ERASURES_FILE):
        restore(tmp_path / "x", tmp_path / "z", forgets=tmp_path)
    assert not (tmp_path / "z").exists()


# ---- forget events of a source -----------------------------------------------------------------------------


def part_of(body, position=5, stream="clicks"):
    found = decode_events(body, "json", "string")
    return SourceBatch(found.batch, stream, position, rows=found.rows, forgets=found.forgets)


def test_an_event_of_a_source_forgets(tmp_path):
    live = lived(tmp_path / "x")
    body = (
        b'[{"src": "dan-miller", "dst": "ann"}, {"src": "ann", "dst": "ivy"}, {"op": "forget", "id": '
        b'"dan-miller"}, {"src": "ivy", "dst": "bob"}]'
    )
    before = SourceBatch(event(), "clicks", 5)
    (first, receipt) = live._ingest([before, part_of(body, 6)])
    assert (first.applied, receipt.applied) == (1, 2)
    assert NAME not in live
    assert "ivy" in live
    assert files_with(tmp_path / "x") == []
    (again,) = live._ingest([part_of(body, 6)])
    assert again.status == "repeated"
    assert live._forgetting.summary().ids == 1
    live._ingest([part_of(b'[{"op": "forget", "id": "dan-miller"}, {"src": "dan-miller", "dst": "bob"}]', 7)])
    assert NAME in live  # what comes after the forget is a new person
    assert live.digest() == live.recompute().digest()
    live.close()


@pytest.mark.parametrize(
    "bad", [b'{"op": "forget"}', b'{"op": "forget", "id": 7}', b'{"op": "forget", "id": "%b"}' % (b"x" * 257)]
)
def test_a_bad_forget_event_is_a_dead_letter(bad):
    found = decode_events(b"[%b]" % bad, "json", "string")
    assert not found.forgets
    assert "forget event is" in found.bad[0].reason


# ---- readers and sinks -------------------------------------------------------------------------------------


def left_of(live, cursor):
    page = live.feed.since(cursor, 1_000)
    return page.reset, page.rows.left.tolist()


def test_readers_learn_that_it_left_and_cursors_stay_good(tmp_path):
    live = lived(tmp_path / "x")
    before = live.feed.cursor
    live.forget(NAME)
    assert left_of(live, before) == (False, [NAME])
    after = live.feed.cursor
    live.update(add=[("ann", "gus")])
    live.close()
    with dygcn.open(tmp_path / "x") as again:
        assert left_of(again, after) == (False, [])
        assert left_of(again, before)[0]  # whoever was not told begins anew, and drops what is not shown


def test_who_forgets_again_after_a_crash_has_sinks_told_again(tmp_path):
    live = lived(tmp_path / "x")
    live.forget(NAME)
    live._let_go()  # before a sink read it
    with dygcn.open(tmp_path / "x") as again:
        after = again.feed.cursor
        again.forget(NAME)
        assert left_of(again, after) == (False, [NAME])
        again.update(add=[(NAME, "ann")])
        assert left_of(again, after) == (False, [])
        again.forget(NAME)
    assert files_with(tmp_path / "x") == []


def test_the_past_is_redacted_and_says_so(tmp_path):
    live = lived(tmp_path / "x")
    noted = live.sequence
    live.forget(NAME)
    live.close()
    for sequence in range(noted + 1):
        past = dygcn.open(tmp_path / "x", as_of=sequence)
        assert NAME not in past
        assert past.redacted
        assert past.digest() == past.recompute().digest()
    assert not dygcn.open(tmp_path / "x", as_of="now").redacted


# ---- interrupted -------------------------------------------------------------------------------------------

STEPS = {
    "before the graph": (forgetting.Redaction, "nodes_in"),
    "before the rows": (forgetting.Redaction, "forget_rows"),
    "before snapshots": (forgetting.Redaction, "redact_snapshots"),
    "in the base": (forgetting, "complete_base"),
    "in snapshots": (forgetting.Redaction, "_redact_snapshot"),
    "before the log": (EventLog, "redact"),
    "before the end": (Erasures, "complete"),
}


@pytest.mark.parametrize("step", STEPS)
def test_an_interrupted_forget_is_completed_when_the_folder_is_opened(tmp_path, monkeypatch, step):
    live = lived(tmp_path / "x")
    owner, name = STEPS[step]

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, stop)
    with pytest.raises(KeyboardInterrupt):
        live.forget(NAME)
    live._let_go()
    monkeypatch.undo()
    with dygcn.open(tmp_path / "x") as again:
        assert NAME not in again
        assert again.digest() == again.recompute().digest()
        assert again._forgetting.summary().ids == 1
        again._ingest([SourceBatch(event(), "clicks", 4)])
        assert NAME not in again
    assert files_with(tmp_path / "x") == []


@pytest.mark.parametrize("nth", range(1, 4))
def test_files_of_the_base_are_replaced_one_by_one(tmp_path, monkeypatch, nth):
    live, calls, replace = lived(tmp_path / "x"), [], os.replace

    def replaced(source, target):
        if "redacted" in str(source):
            calls.append(target)
            if len(calls) == nth:
                raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(forgetting.os, "replace", replaced)
    with pytest.raises(KeyboardInterrupt):
        live.forget(NAME)
    live._let_go()
    monkeypatch.undo()
    with dygcn.open(tmp_path / "x") as again:
        assert again._ahead.damage == []
    assert files_with(tmp_path / "x") == []
    assert NAME not in dygcn.open(tmp_path / "x", as_of=0)


def test_a_reader_of_the_journal_is_waited_for_then_said(tmp_path, monkeypatch):
    live = lived(tmp_path / "x")
    monkeypatch.setattr(EventLog, "_truncated", lambda self: False)
    monkeypatch.setattr("dygcn.live.durable.storage.sqlite_file._PATIENCE", 0.1)
    with pytest.raises(StorageError, match="is being read by another program"):
        live.forget(NAME)
    monkeypatch.undo()
    assert NAME not in live
    live.forget(["nobody"])  # whatever is forgotten next completes it
    assert files_with(tmp_path / "x") == []
    live.close()


def test_lost_erasures_are_noticed(tmp_path):
    with dygcn.open(tmp_path / "x", fitted()) as live:
        live.forget(NAME)
    (tmp_path / "x" / ERASURES_FILE).unlink()
    with pytest.raises(DamagedFolder, match="lost erasures"):
        dygcn.open(tmp_path / "x")


def test_damaged_erasures_are_noticed(tmp_path):
    with dygcn.open(tmp_path / "x", fitted()) as live:
        live.forget(NAME)
    file = tmp_path / "x" / ERASURES_FILE
    content = bytearray(file.read_bytes())
    for at in range(0, len(content), 7):
        damaged = content.copy()
        damaged[at] ^= 1
        file.write_bytes(damaged)
        with pytest.raises(DamagedFolder):
            Erasures(tmp_path / "x")


# ---- a forget that failed, and what came after it ----------------------------------------------------------


def failed_forget(live, monkeypatch):
    """Forget while somebody reads the journal for long: old bytes stay in it, and the caller is told."""
    monkeypatch.setattr(EventLog, "_truncated", lambda self: False)
    monkeypatch.setattr("dygcn.live.durable.storage.sqlite_file._PATIENCE", 0.0)
    with pytest.raises(StorageError, match="is being read by another program"):
        live.forget(NAME)
    monkeypatch.undo()


@pytest.mark.parametrize("restart", [False, True])
def test_a_new_person_stays_when_a_forget_is_completed_later(tmp_path, monkeypatch, restart):
    live = lived(tmp_path / "x")
    failed_forget(live, monkeypatch)
    assert live._forgetting.summary().ids == 0  # not out of every file yet
    live.update(add=[(NAME, "zoe"), ("zoe", "yan")], stream="clicks", offset=9)
    live.snapshot()
    digest = live.digest()
    if restart:
        live._let_go()
        live = dygcn.open(tmp_path / "x")
    else:
        live.forget(["nobody"])
    assert NAME in live
    assert live.digest() == digest == live.recompute().digest()
    assert live._forgetting.summary().ids == 2 - restart
    live.forget(NAME)
    assert NAME not in live
    live.close()
    assert files_with(tmp_path / "x") == []


def test_what_was_half_written_when_a_process_died_is_removed(tmp_path):
    live = lived(tmp_path / "x")
    live.save(tmp_path / "x" / "..redacted.abc")
    (tmp_path / "x" / f".{ERASURES_FILE}.7").write_bytes(b"half")
    live._let_go()
    with dygcn.open(tmp_path / "x") as again:
        again.forget(NAME)
    assert files_with(tmp_path / "x") == []
    assert [file.name for file in (tmp_path / "x").iterdir() if file.name.startswith(".")] == []


def test_offsets_that_a_new_folder_took_over_survive_a_crash(tmp_path):
    with dygcn.open(tmp_path / "old", fitted()) as live:
        live.update(add=[("ann", "zed")], stream="clicks", offset=3)
        dygcn.open(tmp_path / "new", live.refit().embedding, after=live)._let_go()
    with dygcn.open(tmp_path / "new") as new:
        assert new.streams == {"clicks": 3}
        assert new._ahead.damage == []


def test_forgets_of_folders_that_parted_are_all_applied(tmp_path):
    with dygcn.open(tmp_path / "x", fitted()) as live:
        live.update(add=[("ann", "fay")], stream="clicks", offset=3)
        live.forget("cat")
    shutil.copytree(tmp_path / "x", tmp_path / "y")
    with dygcn.open(tmp_path / "x") as live:
        live.update(add=[(NAME, "fay")], stream="clicks", offset=7)
        live.forget(NAME)
        live.update(add=[("ann", "fay")], stream="clicks", offset=8)
        live.forget("gus")
    with dygcn.open(tmp_path / "y") as live:
        live.update(add=[("bob", "fay")], stream="clicks", offset=5)
        live.forget("eve")
    restore(tmp_path / "y", tmp_path / "z", forgets=tmp_path / "x")
    assert files_with(tmp_path / "z") == []
    with dygcn.open(tmp_path / "z") as live:
        assert live._forgetting.summary().ids == 4
        live._ingest([SourceBatch(event(), "clicks", 7)])
        assert NAME not in live
        live._ingest([SourceBatch(event(), "clicks", 8)])
        assert NAME in live


# ---- dead letters, and times -------------------------------------------------------------------------------


@pytest.mark.parametrize(("position", "t", "stays"), [(3, None, False), (9, 99, False), (9, 101, True)])
def test_old_events_that_are_bad_do_not_become_dead_letters_again(tmp_path, position, t, stays):
    live = lived(tmp_path / "x")
    live.forget(NAME, t=100)
    live._offsets.streams.clear()
    time = b"" if t is None else b', "t": %d' % t
    bad = decode_events(b'[{"src": "%b", "dst": 7%b}]' % (NAME.encode(), time), "json", "string")
    dead = tuple(DeadLetter("clicks", position, one.row, one.reason, one.text) for one in bad.bad)
    live._ingest([SourceBatch(bad.batch, "clicks", position, rows=bad.rows, dead=dead)])
    assert bool(files_with(tmp_path / "x")) is stays
    assert live._forgetting.summary().old_events == (not stays)
    live.close()


@pytest.mark.parametrize("name", ['O\'Hara "x"', "zo\u00eb", "nul\0mid", "a b", "%_", "x" * 256])
def test_dead_letters_that_name_it_in_any_way_are_dropped(tmp_path, name):
    texts = [
        repr(f'{{"src":"{name}", "dst'.encode()),
        json.dumps({"note": f"of {name}, say"}),
        f"{{{json.dumps(name)}",
        f"<{name}>",
    ]
    dead = [DeadLetter("s", 1, row, "bad", text) for row, text in enumerate([*texts, f"{name}-2 or x{name}"])]
    with dygcn.open(tmp_path / "x", fitted()) as live:
        live._ingest([SourceBatch(read_events([("ann", "bob")]), "s", 1, dead=tuple(dead))])
        assert live.forget(name).dead_letters == len(texts)


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 10**18, -7])
def test_dead_letters_that_name_a_number_are_dropped(tmp_path, number):
    texts = [f"src={number};", f'{{"src":{number},"dst', f"the id {number} is bad"]
    dead = tuple(DeadLetter("s", 1, row, text, "") for row, text in enumerate([*texts, f"{number}1"]))
    with dygcn.open(tmp_path / "x", dygcn.fit([(1, 2), (2, 3), (number, 1)], dim=4)) as live:
        live._ingest([SourceBatch(read_events([(1, 2)]), "s", 1, dead=dead)])
        assert live.forget(number).dead_letters == len(texts)


def test_the_work_for_dead_letters_does_not_grow_with_the_ids():
    tried = []

    class Text(str):
        def __getitem__(self, part):
            tried.append(part)
            return super().__getitem__(part)

    text, counts = Text("some words around, and none of them is an id"), []
    for count in (10, 10_000):
        assert not text_finder([f"{i:09d}" for i in range(count)])(text)
        counts.append(len(tried))
        tried.clear()
    assert counts[0] == counts[1] < len(text)


def test_new_events_of_a_forgotten_id_cost_no_hash_each(tmp_path, monkeypatch):
    with dygcn.open(tmp_path / "x", fitted()) as live:
        live.update(add=[("ann", "fay")], stream="s", offset=1)
        live.forget(NAME, t=100)
        monkeypatch.setattr(Erasures, "numbers_of", lambda *_: pytest.fail("it was looked for"))
        dead = tuple(DeadLetter("s", 2, row, "bad", f'{{"src": "{NAME}", "t": 101}}') for row in range(9))
        live._ingest([SourceBatch(event(101), "s", 2, dead=dead)])
        assert live._log.count_dead_letters() == 9
        assert NAME in live


def test_a_second_forget_without_a_time_does_not_undo_the_first(tmp_path):
    with dygcn.open(tmp_path / "x", fitted()) as live:
        live.forget(NAME, t=100)
        live.forget(NAME)
        live._ingest([SourceBatch(event(50), "late", 1)])
        assert NAME not in live


def test_forget_events_of_one_message_have_a_time_each(tmp_path):
    body = b'[{"op": "forget", "id": "dan-miller", "t": 5}, {"op": "forget", "id": "eve", "t": 100}]'
    with dygcn.open(tmp_path / "x", fitted()) as live:
        live._ingest([part_of(body)])
        live._ingest([SourceBatch(event(50), "late", 1), SourceBatch(event(50, "eve"), "late", 2)])
        assert NAME in live
        assert "eve" not in live


def test_an_entry_that_cannot_be_read_is_emptied_and_the_folder_opens(tmp_path):
    live = lived(tmp_path / "x")
    live.snapshot()
    live.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "x" / LOG_FILE)) as db, db:
        db.execute("UPDATE entries SET body = CAST('of dan-miller' AS BLOB) WHERE seq = 3")
    for _ in range(2):
        with dygcn.open(tmp_path / "x") as again:
            again.forget(NAME)
            assert again.digest() == again.recompute().digest()
        assert files_with(tmp_path / "x") == []
    with pytest.raises(DamagedLog):
        dygcn.open(tmp_path / "x", as_of=3)


@pytest.mark.parametrize("change", ["position = 40", "stream = 'x'", "kind = 'flush'", "batch_id = 2"])
def test_a_redacted_entry_is_checked_whole(tmp_path, change):
    with dygcn.open(tmp_path / "x", fitted()) as live:
        live.update(add=[(NAME, "fay"), ("fay", "gus")], stream="clicks", offset=1)
        live.update(add=[("ann", "fay")], stream="clicks", offset=2)
        live.forget(NAME)
    assert "gus" in dygcn.open(tmp_path / "x", as_of=2)
    with contextlib.closing(sqlite3.connect(tmp_path / "x" / LOG_FILE)) as db, db:
        db.execute(f"UPDATE entries SET {change} WHERE seq = 1")
    with pytest.raises(DamagedLog, match="entry 1 is not what was written"):
        dygcn.open(tmp_path / "x", as_of=2)


# ---- seeded bugs -------------------------------------------------------------------------------------------


def _take_over_what_is_longer(self, other):
    self._key = other._key
    self._write([*self.all, *(replace(one, done=False) for one in other.all[len(self.all) :])])


_is_old = Erasures.is_old
BUGS = {  # name: owner, attribute, what it is instead
    "keep_log": (Redaction, "redact_log", lambda self, log: (0, 0)),
    "keep_pages": (sqlite_file, "purge", lambda *_: None),
    "keep_departures": (feed, "without_forgotten", lambda image, floor, _: (image, floor)),
    "keep_rows": (Redaction, "forget_rows", lambda *_: None),
    "keep_base": (Redaction, "_redact_base", lambda *_: None),
    "keep_snapshots": (Redaction, "_redact_snapshot", lambda *_: None),
    "keep_letters": (Redaction, "_names", lambda *_: False),
    "keep_texts": (forgetting.Forgetting, "_drop_letters", lambda *_: 0),
    "keep_old_letters": (forgetting, "_is_old", lambda *_: False),
    "take_new_persons_out": (Erasures, "pending_at", lambda self, _: self.pending),
    "take_over_what_is_longer": (Erasures, "take_over", _take_over_what_is_longer),
    "offsets_do_not_count": (SourceBatch, "offsets_of", lambda self, events: [1 << 40] * len(events)),
    "times_do_not_count": (Erasures, "is_old", lambda self, n, name, at, _: _is_old(self, n, name, at, None)),
    "offsets_are_lost": (forgetting.Forgetting, "take_over", lambda *_: None),
}


def noticing(bug, path):
    """The test that notices a bug."""
    old = test_old_events_are_dropped_and_later_ones_are_a_new_person
    match bug:
        case "keep_letters":
            test_restoring_an_older_backup_applies_later_forgets(path, False)
        case "keep_texts":
            test_dead_letters_that_name_it_in_any_way_are_dropped(path, "a b")
        case "keep_old_letters":
            test_old_events_that_are_bad_do_not_become_dead_letters_again(path, 3, None, False)
        case "take_new_persons_out":
            with pytest.MonkeyPatch.context() as other:
                test_a_new_person_stays_when_a_forget_is_completed_later(path, other, False)
        case "take_over_what_is_longer":
            test_forgets_of_folders_that_parted_are_all_applied(path)
        case "offsets_do_not_count":
            old(path, "clicks", 4, None, False)
        case "times_do_not_count":
            old(path, "late", 9, 100.0, False)
        case "offsets_are_lost":
            test_a_new_folder_goes_on_where_the_old_one_was(path)
        case _:
            test_no_file_names_it_and_everyone_else_is_exact(path)


@pytest.mark.parametrize("bug", BUGS)
def test_a_seeded_bug_is_noticed(tmp_path, monkeypatch, bug):
    monkeypatch.setattr(*BUGS[bug])
    with pytest.raises(AssertionError):
        noticing(bug, tmp_path)


def test_a_forget_that_is_never_completed_would_be_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(forgetting.Forgetting, "complete", lambda *_: None)
    with pytest.raises(AssertionError):
        test_an_interrupted_forget_is_completed_when_the_folder_is_opened(
            tmp_path, pytest.MonkeyPatch(), "before the log"
        )


# ---- any order of events, forgets, snapshots and restarts --------------------------------------------------

NAMES = [f"node-{letter}" for letter in "abcdefgh"]
pairs = st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)).filter(lambda pair: pair[0] != pair[1])
steps = st.one_of(
    st.tuples(st.just("add"), st.lists(pairs, min_size=1, max_size=4)),
    st.tuples(st.just("remove"), st.lists(pairs, min_size=1, max_size=2)),
    st.tuples(st.just("forget"), st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True)),
    st.tuples(st.sampled_from(["snapshot", "restart", "again"]), st.none()),
)


@settings(max_examples=12, deadline=None)
@given(st.lists(steps, min_size=3, max_size=12))
def test_a_folder_is_that_of_its_graph_whatever_was_forgotten(script):
    with many_folders() as new_folder:
        check_forgetting(new_folder(), script)


@functools.cache
def hashed():
    return dygcn.fit([("anna", "bert"), ("bert", "carl")], dim=4, features="hashed")


def check_forgetting(folder, script):
    edges, forgotten, sent = {tuple(sorted(edge)) for edge in [("anna", "bert"), ("bert", "carl")]}, set(), []
    live = dygcn.open(folder, hashed())
    model = live.model
    for what, names in script:
        if what in ("add", "remove"):
            live.update(**{what: names}, stream="s", offset=len(sent))
            sent.append((what, names))
            for pair in names:
                edge = tuple(sorted(pair))
                edges.add(edge) if what == "add" else edges.discard(edge)
                forgotten -= set(pair)  # named by a later event
        elif what == "forget":
            live.forget(names)
            edges = {edge for edge in edges if not set(edge) & set(names)}
            forgotten |= set(names)
        elif what == "snapshot":
            live.snapshot()
        elif what == "restart":
            live._let_go()
            live = dygcn.open(folder)
        else:  # everything is sent again
            live._ingest([SourceBatch(read_events(names), "s", at) for at, (what, names) in enumerate(sent)])
        fresh = dygcn.start(model)
        fresh.update(add=sorted(edges))
        assert live.digest() == fresh.digest()
    for name in forgotten:
        assert files_with(folder, name) == []
    live.close()


def test_an_id_is_found_by_its_keyed_hash_alone(tmp_path):
    erasures = Erasures(tmp_path)
    ids = id_column([f"p{i}" for i in range(2_000)])
    erasures.add(id_column(["p7", "p1999"]), t=None, offsets={})
    assert np.flatnonzero(erasures.find(ids) >= 0).tolist() == [7, 1999]
    assert b"p1999" not in (tmp_path / ERASURES_FILE).read_bytes()
    assert np.flatnonzero(Erasures(tmp_path).find(ids) >= 0).tolist() == [7, 1999]


def test_offsets_are_kept_once(tmp_path):
    erasures = Erasures(tmp_path)
    for number in range(3):
        erasures.add(id_column([f"p{number}"]), t=None, offsets={"a": 5, "b": number})
    assert [len(one.offsets) for one in erasures.all] == [2, 1, 1]
    assert [erasures.is_old(number, "b", 1, None) for number in range(3)] == [False, True, True]
    assert all(erasures.is_old(number, "a", 5, None) for number in range(3))
