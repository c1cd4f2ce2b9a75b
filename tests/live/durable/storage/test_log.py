"""The log gives back what was written, or says that it cannot; nothing in between."""

import os
import shutil
import sqlite3
import threading
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dygcn.errors import DamagedLog, StorageError, UnsupportedFolder, WriteFailed
from dygcn.live.durable.storage import dead_letters, sqlite_file
from dygcn.live.durable.storage import entries as chaining
from dygcn.live.durable.storage.dead_letters import DeadLetter
from dygcn.live.durable.storage.entries import Epoch, Kind, NewEntry
from dygcn.live.durable.storage.log import Chains, EventLog
from dygcn.live.durable.storage.sqlite_file import Reached, Watermark


def entry(number, stream="clicks"):
    return NewEntry(Kind.EVENTS, stream, number, f"body {number}".encode())


@pytest.fixture
def path(tmp_path):
    """A log of five entries in three batches, closed."""
    log = EventLog(tmp_path / "log.sqlite3")
    log.append([entry(1), entry(2, "http:ann")], 1, [DeadLetter("clicks", 1, 0, "bad", "{}")])
    log.append([entry(3), entry(4)], 2)
    log.append([NewEntry(Kind.BARRIER, "", -1, b"")], 3)
    log.close()
    return log.path


def read(path, after=0):
    """Open a log, read all that is behind an entry, and close it."""
    with closing(EventLog(path)) as log:
        return list(log.entries(after, log.chain_at(after)))


def change(path, *statements):
    """Change the file behind the log's back."""
    with closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            db.execute(*(statement if isinstance(statement, tuple) else (statement,)))


def hot_copy(log, tmp_path, name="crashed"):
    """Copy a log that is in use, as a crash leaves it: with a journal that nobody has put away."""
    folder = tmp_path / name
    folder.mkdir()
    for file in (log.path, log.path.with_name(log.path.name + "-wal"), log.path.with_suffix(".watermark")):
        shutil.copy(file, folder)
    return folder / log.path.name


# ---- what is written is there ------------------------------------------------------------------------


def test_there_and_back(path):
    found = read(path)
    assert [(e.seq, e.batch_id, e.kind, e.stream, e.offset, e.body) for e in found] == [
        (1, 1, Kind.EVENTS, "clicks", 1, b"body 1"),
        (2, 1, Kind.EVENTS, "http:ann", 2, b"body 2"),
        (3, 2, Kind.EVENTS, "clicks", 3, b"body 3"),
        (4, 2, Kind.EVENTS, "clicks", 4, b"body 4"),
        (5, 3, Kind.BARRIER, "", -1, b""),
    ]
    with closing(EventLog(path)) as log:
        assert (log.last, log.last_batch_id, log.chain) == (5, 3, found[-1].chain)
        assert [log.chain_at(e.seq) for e in found] == [e.chain for e in found]
        assert log.chain_at(0) == log.genesis
        assert log.chain_at(6) is None
        assert log.append([NewEntry(Kind.REFUSAL, "", -1, b"3")], 4) == 6
        assert list(log.entries(6, log.chain)) == []
    assert [e.seq for e in read(path, after=4)] == [5, 6]


def test_an_empty_log(tmp_path):
    with closing(EventLog(tmp_path / "log.sqlite3")) as log:
        assert (log.last, log.last_batch_id, log.chain) == (0, 0, log.genesis)
        assert list(log.entries(0, log.genesis)) == []
        assert log.append([], 1) == 0
    assert read(log.path) == []


def test_two_logs_never_have_the_same_chain(tmp_path):
    chains = set()
    for name in "ab":
        with closing(EventLog(tmp_path / f"{name}.sqlite3")) as log:
            log.append([entry(1)], 1)
            chains |= {log.genesis, log.chain}
    assert len(chains) == 4


def test_a_log_begins_with_an_epoch(tmp_path):
    with (
        closing(EventLog(tmp_path / "a.sqlite3")) as first,
        closing(EventLog(tmp_path / "b.sqlite3")) as second,
    ):
        one, other = Epoch.unpack(first.genesis), Epoch.unpack(second.genesis)
    assert one.id != other.id
    assert 1_700_000_000_000 < one.generation <= other.generation  # milliseconds since 1970
    with closing(EventLog(first.path)) as again:
        assert Epoch.unpack(again.genesis) == one


def test_a_crash_loses_nothing(path, tmp_path):
    with closing(EventLog(path)) as log:
        log.append([entry(6)], 4)
        crashed = hot_copy(log, tmp_path)
    assert [e.seq for e in read(crashed)] == [1, 2, 3, 4, 5, 6]


class Transactions:
    """Anything that can be appended."""

    streams = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
    new = st.builds(
        NewEntry,
        st.sampled_from(chaining.Kind.ALL),
        streams,
        st.integers(-1, 2**63 - 1),
        st.binary(max_size=40),
    )
    dead = st.builds(
        DeadLetter,
        streams,
        st.integers(0, 3),
        st.integers(-1, 3),
        st.text(max_size=4),
        st.text(max_size=4),
    )
    some = st.lists(
        st.tuples(st.lists(new, max_size=4), st.lists(dead, max_size=3), st.booleans()), max_size=8
    )


@settings(deadline=None, max_examples=30)
@given(Transactions.some)
def test_any_transactions_come_back(tmp_path_factory, transactions):
    log = EventLog(tmp_path_factory.mktemp("log") / "log.sqlite3")
    wanted, letters = [], {}
    for batch_id, (entries, dead, reopen) in enumerate(transactions, 1):
        assert log.append(entries, batch_id, dead) == len(wanted) + len(entries)
        wanted += [(batch_id, e.kind, e.stream, e.offset, e.body) for e in entries]
        for d in dead:
            letters.setdefault((d.stream, d.offset, d.row), d)
        if reopen:
            log.close()
            log = EventLog(log.path)
    found = list(log.entries(0, log.genesis))
    assert [(e.batch_id, e.kind, e.stream, e.offset, e.body) for e in found] == wanted
    assert [e.seq for e in found] == list(range(1, len(wanted) + 1))
    assert {(d.stream, d.offset, d.row) for _, d in log.dead_letters(limit=1000)} == set(letters)
    assert log.count_dead_letters() == len(letters)
    log.close()


def test_long_logs_are_read_in_pieces(path, monkeypatch):
    with closing(EventLog(path)) as log:
        log.append([NewEntry(Kind.EVENTS, "", -1, bytes(1000))] * 20, 4)
    for pieces in ((3, 1 << 20), (100, 2500), (1, 1)):
        monkeypatch.setattr(sqlite_file, "_READ_AT_ONCE", pieces)
        with closing(EventLog(path)) as log:
            assert len(log._some(0)) < 25
        assert len(read(path)) == 25


def test_an_entry_beyond_the_longest_is_refused_by_name(tmp_path):
    with closing(EventLog(tmp_path / "log.sqlite3")) as log, pytest.raises(WriteFailed):
        log.append([NewEntry(Kind.EVENTS, "", -1, bytes(sqlite_file.LONGEST_BODY + 5000))], 1)
    assert read(log.path) == []


def test_threads_may_read_while_another_writes(path):
    with closing(EventLog(path)) as log:
        begun, failures = threading.Event(), []

        def look():
            try:
                begun.set()
                for _ in range(30):
                    found = list(log.entries(0, log.genesis))
                    assert [e.seq for e in found] == list(range(1, len(found) + 1))
                    log.dead_letters()
            except BaseException as error:
                failures.append(error)

        readers = [threading.Thread(target=look) for _ in range(3)]
        for reader in readers:
            reader.start()
        begun.wait()
        for number in range(30):
            log.append([entry(number)], 4 + number)
        for reader in readers:
            reader.join()
        assert not failures
        assert log.last == 35


# ---- an altered log is noticed -----------------------------------------------------------------------


ALTERED = {
    "body": b"body 8",
    "stream": "clocks",
    "position": 8,
    "kind": Kind.REFUSAL,
    "batch_id": 8,
    "chain": b"0123456789abcdef",
    "logged": 1_700_000_000_000_000,
    "seal": b"01234567",
}


@pytest.mark.parametrize("seq", [1, 3, 5])
@pytest.mark.parametrize("column", sorted(ALTERED))
def test_an_altered_entry_breaks_the_chain(path, column, seq):
    change(path, (f"UPDATE entries SET {column} = ? WHERE seq = ?", (ALTERED[column], seq)))
    with pytest.raises(DamagedLog):
        read(path)


@pytest.mark.parametrize("value", [7, 1.5, "text", b"", "0123456789abcdef"])
@pytest.mark.parametrize("column", sorted(ALTERED))
@pytest.mark.parametrize("seq", [2, 4])
def test_a_value_of_another_type_breaks_the_chain(path, column, seq, value):
    change(path, (f"UPDATE entries SET {column} = ? WHERE seq = ?", (value, seq)))
    with pytest.raises(DamagedLog):
        read(path)


MOVED = {
    "first removed": ["DELETE FROM entries WHERE seq = 1"],
    "one removed": ["DELETE FROM entries WHERE seq = 3"],
    "last removed": ["DELETE FROM entries WHERE seq = 5"],
    "all removed": ["DELETE FROM entries"],
    "one removed, the others closed up": [
        "DELETE FROM entries WHERE seq = 3",
        "UPDATE entries SET seq = 3 WHERE seq = 4",
        "UPDATE entries SET seq = 4 WHERE seq = 5",
    ],
    "two swapped": [
        "UPDATE entries SET seq = 99 WHERE seq = 1",
        "UPDATE entries SET seq = 1 WHERE seq = 2",
        "UPDATE entries SET seq = 2 WHERE seq = 99",
    ],
    "one twice": [
        "INSERT INTO entries SELECT 6, batch_id, kind, stream, position, body, chain, logged, seal "
        "FROM entries WHERE seq = 5"
    ],
    "one more": [
        "INSERT INTO entries VALUES (6, 4, 'events', '', -1, x'00', x'00112233445566778899aabbccddeeff', 7, "
        "x'00')"
    ],
    "a gap": ["UPDATE entries SET seq = 9 WHERE seq = 5"],
    "a negative one": ["UPDATE entries SET seq = -1 WHERE seq = 1"],
    "another genesis": [
        "UPDATE about SET value = x'00112233445566778899aabbccddeeff' WHERE name = 'genesis'"
    ],
    "no genesis": ["DELETE FROM about WHERE name = 'genesis'"],
    "genesis of another type": ["UPDATE about SET value = 'text' WHERE name = 'genesis'"],
}


@pytest.mark.parametrize("what", sorted(MOVED))
def test_entries_that_were_moved_are_noticed(path, what):
    change(path, *MOVED[what])
    with pytest.raises(DamagedLog):
        read(path)


def test_a_log_of_another_format_is_refused_by_its_number(path):
    change(path, "UPDATE about SET value = 1 WHERE name = 'format'")
    with pytest.raises(UnsupportedFolder, match=f"has format 1; this dygcn reads {sqlite_file.FORMAT}"):
        read(path)


def test_a_chain_that_is_not_checked_would_be_noticed(path, monkeypatch):
    """The mutant: what the row says of its checksum is believed."""
    monkeypatch.setattr(chaining, "check_entry", lambda path, entry, expected, chain: entry.chain)
    change(path, "UPDATE entries SET body = x'00' WHERE seq = 3")
    assert len(read(path)) == 5
    with pytest.raises(pytest.fail.Exception):
        test_an_altered_entry_breaks_the_chain(path, "body", 3)


def test_a_chain_without_the_ones_before_it_would_be_noticed(path, monkeypatch):
    """The mutant: checksums of single entries; then one can be taken out and the others closed up."""
    whole = chaining.chained
    monkeypatch.setattr(
        chaining, "chained", lambda chain, seq, batch_id, entry: whole(b"", 0, batch_id, entry)
    )
    fresh = path.with_name("fresh.sqlite3")
    with closing(EventLog(fresh)) as log:
        for number in range(1, 6):
            log.append([entry(number)], number)
    change(fresh, *MOVED["one removed, the others closed up"])
    fresh.with_suffix(".watermark").unlink()
    assert len(read(fresh)) == 4


# ---- an end that is lost is noticed ------------------------------------------------------------------


def test_a_lost_journal_is_noticed(path, tmp_path):
    with closing(EventLog(path)) as log:
        log.append([entry(6)], 4)
        crashed = hot_copy(log, tmp_path)
    crashed.with_name("log.sqlite3-wal").unlink()
    with pytest.raises(DamagedLog, match="ends with entry 5 and reached 6"):
        EventLog(crashed)
    crashed.with_suffix(".watermark").unlink()  # as the message says, for who wants to go on without it
    assert len(read(crashed)) == 5


def test_every_flipped_bit_of_a_journal_is_noticed_or_harmless(path, tmp_path):
    """SQLite takes a damaged end for a transaction that never was; the watermark knows better."""
    with closing(EventLog(path)) as log:
        log.append([entry(6)], 4)
        log.append([entry(7)], 5)
        crashed = hot_copy(log, tmp_path)
    journal = crashed.with_name("log.sqlite3-wal")
    whole = {file: file.read_bytes() for file in crashed.parent.iterdir()}
    noticed = 0
    for at in range(0, len(whole[journal]), 61):
        for file, content in whole.items():
            file.write_bytes(content)
        spoilt = bytearray(whole[journal])
        spoilt[at] ^= 1 << at % 8
        journal.write_bytes(spoilt if at % 3 else spoilt[:at])
        journal.with_name("log.sqlite3-shm").unlink(missing_ok=True)
        try:
            assert [e.seq for e in read(crashed)] == [1, 2, 3, 4, 5, 6, 7]
        except DamagedLog:
            noticed += 1
    assert noticed > 50


def test_a_log_without_its_mark_would_be_noticed(path, tmp_path, monkeypatch):
    """The mutant: nobody looks at the watermark, and entries that were acknowledged vanish without a word."""
    monkeypatch.setattr(Watermark, "read", lambda self: None)
    with pytest.raises(AssertionError):
        test_every_flipped_bit_of_a_journal_is_noticed_or_harmless(path, tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"garbage", bytes(64), bytes(99)], ids=["empty", "short", "zeros", "long"]
)
def test_a_mark_that_cannot_be_read_says_nothing(path, content):
    path.with_suffix(".watermark").write_bytes(content)
    assert len(read(path)) == 5
    with closing(EventLog(path)) as log:
        assert log._watermark.read() == Reached(log.genesis, 5, log.chain, 0)


def test_an_old_mark_is_no_news(path):
    """After a loss of power the watermark may be older than the log, never newer."""
    old = path.with_suffix(".watermark").read_bytes()
    with closing(EventLog(path)) as log:
        log.append([entry(6)], 4)
        log.note_snapshot(6)
    path.with_suffix(".watermark").write_bytes(old)
    with closing(EventLog(path)) as log:
        assert (log.last, log.saved) == (6, 0)


def test_snapshots_are_remembered(path):
    with closing(EventLog(path)) as log:
        log.note_snapshot(4)
        log.note_snapshot(3)
        log.append([entry(6)], 4)
    with closing(EventLog(path)) as log:
        assert log.saved == 4


def test_the_mark_of_another_log_is_noticed(path, tmp_path):
    with closing(EventLog(tmp_path / "other.sqlite3")) as other:
        other.append([entry(number) for number in range(9)], 1)
    shutil.copy(path, other.path)
    with pytest.raises(DamagedLog, match="is not the log that"):
        EventLog(other.path)


@pytest.mark.parametrize("how", ["emptied", "removed"])
def test_a_log_that_is_gone_is_not_begun_anew(path, how):
    if how == "emptied":
        path.write_bytes(b"")
    else:
        path.unlink()
    for _ in range(2):
        with pytest.raises(DamagedLog, match="is empty, and reached entry 5"):
            EventLog(path)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
@pytest.mark.parametrize("name", ["log.sqlite3", "log.watermark"])
def test_neither_log_nor_mark_is_anything_but_a_file(path, name, kind):
    place = path.with_name(name)
    place.rename(path.with_name("elsewhere"))
    if kind == "link":
        place.symlink_to(path.with_name("elsewhere"))
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()
    with pytest.raises(StorageError):
        EventLog(path)


def test_a_mark_keeps_one_record(tmp_path):
    watermark = Watermark(tmp_path / "log.watermark")
    assert watermark.read() is None
    for sequence in (1, 2**62, 0):
        reached = Reached(b"g" * 16, sequence, b"c" * 16, sequence)
        watermark.reach(reached)
        assert watermark.read() == reached
    watermark.close()
    watermark.close()
    content = bytearray((tmp_path / "log.watermark").read_bytes())
    for at in range(len(content)):
        content[at] ^= 4
        (tmp_path / "log.watermark").write_bytes(content)
        watermark = Watermark(tmp_path / "log.watermark")
        assert watermark.read() is None
        watermark.close()
        content[at] ^= 4


# ---- what is not a log -------------------------------------------------------------------------------


STRANGE = {
    "another table": ["CREATE TABLE more (x)"],
    "a view": ["CREATE VIEW more AS SELECT * FROM entries"],
    "a trigger": ["CREATE TRIGGER more AFTER INSERT ON entries BEGIN DELETE FROM entries; END"],
    "a trigger with the name of a table": [
        "CREATE TRIGGER entries AFTER INSERT ON dead_letters BEGIN DELETE FROM entries; END"
    ],
    "an index": ["CREATE INDEX more ON entries (stream)"],
    "an index on an expression": ["CREATE INDEX more ON entries (abs(position))"],
    "no entries": ["DROP TABLE entries"],
    "other columns": ["ALTER TABLE entries ADD COLUMN more"],
    "another name": ["ALTER TABLE dead_letters RENAME TO letters"],
    "a virtual table": ["CREATE VIRTUAL TABLE more USING fts5(x)"],
    "entries that are a view": [
        "DROP TABLE entries",
        "CREATE VIEW entries AS SELECT 1 seq, 1 batch_id, 'events' kind, '' stream, 0 position, "
        "x'' body, x''",
    ],
}


@pytest.mark.parametrize("what", sorted(STRANGE))
def test_other_tables_are_refused(path, what):
    change(path, *STRANGE[what])
    with pytest.raises(DamagedLog, match="other tables"):
        EventLog(path)


def test_a_trigger_that_hides_behind_a_name_would_be_noticed(path, monkeypatch):
    """The mutant: tables by name, in which a trigger of the same name is not seen."""
    change(path, *STRANGE["a trigger with the name of a table"])
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute(
            "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type DESC"
        ).fetchall()
    assert dict(rows) == sqlite_file.TABLES


@pytest.mark.parametrize(
    "content", [b"not a database" * 100, b"SQLite format 3\0" + bytes(4080), b"\x80\x04K\x01."]
)
def test_what_is_not_a_database_is_refused(tmp_path, content):
    (tmp_path / "log.sqlite3").write_bytes(content)
    with pytest.raises(DamagedLog):
        EventLog(tmp_path / "log.sqlite3")


def test_any_letter_of_the_tables_may_be_damaged(path):
    """SQLite then speaks of them, in letters that are none."""
    whole = path.read_bytes()
    begin = whole.index(b"CREATE TABLE dead_letters")
    for at in range(begin - 40, begin + 200):
        spoilt = bytearray(whole)
        spoilt[at] ^= 128
        path.write_bytes(spoilt)
        with pytest.raises(DamagedLog):
            EventLog(path)
    path.write_bytes(whole)
    assert len(read(path)) == 5


def test_damage_that_no_query_meets_is_noticed_before_anything_is_written(path):
    """Free pages are looked at only when they are used again: what they say would destroy others."""
    with closing(EventLog(path)) as log:
        log.append([NewEntry(Kind.EVENTS, "", -1, bytes(200_000))], 4)
        log.append([entry(7)], 5)
        log.prune(7)
    content = bytearray(path.read_bytes())
    first_free = int.from_bytes(content[32:36], "big")
    assert first_free
    trunk = (first_free - 1) * 4096
    content[trunk + 8 : trunk + 12] = (2).to_bytes(4, "big")  # page 2 is in use
    path.write_bytes(content)
    with pytest.raises(DamagedLog, match="is damaged"):
        EventLog(path)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(StorageError):
        EventLog(tmp_path / "nowhere" / "log.sqlite3")


# ---- writes that fail --------------------------------------------------------------------------------


def test_after_a_failed_write_nothing_is_accepted(path):
    with closing(EventLog(path)) as log:
        pages = log._db.execute("PRAGMA page_count").fetchone()[0]
        log._db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(WriteFailed, match="full"):
            log.append([NewEntry(Kind.EVENTS, "", -1, bytes(1 << 20))], 4)
        log._db.execute("PRAGMA max_page_count = 1000000")
        for again in (lambda: log.append([entry(6)], 4), lambda: log.prune(3), log.check):
            with pytest.raises(WriteFailed, match="full"):
                again()
        assert [e.seq for e in log.entries(0, log.genesis)] == [1, 2, 3, 4, 5]
    assert len(read(path)) == 5


def test_a_mark_that_cannot_be_written_is_a_failed_write(path, monkeypatch):
    def full(self, reached):
        raise OSError(28, "No space left on device")

    with closing(EventLog(path)) as log:
        monkeypatch.setattr(Watermark, "reach", full)
        with pytest.raises(WriteFailed, match="No space left"):
            log.append([entry(6)], 4)
        with pytest.raises(WriteFailed):
            log.append([entry(6)], 4)


def test_a_closed_log_says_so(path):
    log = EventLog(path)
    log.close()
    log.close()
    for use in (
        lambda: log.append([entry(6)], 4),
        lambda: log.prune(1),
        lambda: list(log.entries(0, log.genesis)),
        lambda: log.chain_at(3),
        log.dead_letters,
        log.count_dead_letters,
    ):
        with pytest.raises(StorageError, match="was closed"):
            use()


# ---- forgetting --------------------------------------------------------------------------------------


def test_pruning_keeps_what_is_behind(path):
    with closing(EventLog(path)) as log:
        third = log.chain_at(3)
        log.prune(3)
        assert log.chain_at(2) is None
        assert [e.seq for e in log.entries(3, third)] == [4, 5]
        with pytest.raises(DamagedLog):
            list(log.entries(0, log.genesis))
        log.prune(1000)
        assert (log.last, log.chain_at(5)) == (5, log.chain)
    with closing(EventLog(path)) as log:
        assert (log.last, log.last_batch_id) == (5, 3)
        assert log.append([entry(6)], 4) == 6


def test_what_is_pruned_is_remembered(path, monkeypatch):
    """For as long as the process lives, up to a bound; a place in the log has no other identity."""
    monkeypatch.setattr("dygcn.live.durable.storage.log.MOST_CHAINS", 5)
    with closing(EventLog(path)) as log:
        known = {e.seq: e.chain for e in log.entries(2, log.chain_at(2))}
        log.append([entry(6), entry(7), NewEntry(Kind.FLUSH, "", -1, b"")], 4)
        known |= {seq: log.chain_at(seq) for seq in (6, 7, 8)}
        log.prune(8)
        assert {seq: log.chain_at(seq) for seq in known} == {**known, 3: None}
        assert [log.chain_at(seq) for seq in (1, 2, 9, 10**30, -1)] == [None] * 5
    with closing(EventLog(path)) as log:
        assert (log.chain_at(7), log.chain_at(8)) == (None, known[8])


def test_remembered_chain_values_need_no_disk(path):
    """A reader must not wait for a commit, which holds the lock of the log while the disk syncs."""
    with closing(EventLog(path)) as log:
        list(log.entries(0, log.genesis))
        with log._lock:
            found = []
            reader = threading.Thread(target=lambda: found.append(log.chain_at(5)), daemon=True)
            reader.start()
            reader.join(30)
        assert found == [log.chain]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.binary(min_size=16, max_size=16)), max_size=60))
def test_chain_values_are_never_mixed_up(noted):
    """In any order: what is remembered of a sequence is what was noted of it, first."""
    chains, first = Chains(), {}
    for sequence, chain in noted:
        first.setdefault(sequence, chain)
        chains.note(sequence, first[sequence])
        assert chains.at(sequence) in (None, first[sequence])
    for sequence in range(-2, 33):
        assert chains.at(sequence) in (None, first.get(sequence))


# ---- dead letters ------------------------------------------------------------------------------------


def test_dead_letters_are_told_newest_first_and_by_pages(tmp_path):
    with closing(EventLog(tmp_path / "log.sqlite3")) as log:
        for number in range(7):
            log.append([], number, [DeadLetter("clicks", number, 0, f"reason {number}", "{}")])
        first = log.dead_letters(limit=3)
        assert [letter.offset for _, letter in first] == [6, 5, 4]
        rest = log.dead_letters(limit=100, before=first[-1][0])
        assert [letter.offset for _, letter in rest] == [3, 2, 1, 0]
        assert rest[0][1].received > 1e9
        assert log.count_dead_letters() == 7


def test_a_dead_letter_is_kept_once(path):
    with closing(EventLog(path)) as log:
        again = DeadLetter("clicks", 1, 0, "another reason", "{}")
        log.append([entry(6)], 4, [again, again, DeadLetter("clicks", 1, 1, "bad", "{}")])
        assert [letter.reason for _, letter in log.dead_letters()] == ["bad", "bad"]
        assert log.last == 6


def test_only_the_newest_dead_letters_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(dead_letters, "MOST_DEAD_LETTERS", 10)
    with closing(EventLog(tmp_path / "log.sqlite3")) as log:
        for number in range(25):
            log.append([], number, [DeadLetter("clicks", number, row, "bad", "{}") for row in range(2)])
        assert log.count_dead_letters() == 10
        assert {letter.offset for _, letter in log.dead_letters()} == {20, 21, 22, 23, 24}


def test_a_dead_letter_may_hold_any_text(tmp_path):
    """Half a surrogate pair is not text that a database takes."""
    with closing(EventLog(tmp_path / "log.sqlite3")) as log:
        log.append([], 1, [DeadLetter("s", 0, 0, "\ud800 bad", '{"a": "\ud800\x00é"}')])
        [(_, letter)] = log.dead_letters()
        assert letter.reason == "? bad"
        assert letter.event == '{"a": "?\x00é"}'
        assert log.append([entry(1)], 2) == 1


@pytest.mark.parametrize(
    ("column", "value"),
    [("reason", "fine"), ("event", b"{}"), ("position", 2), ("row", 7), ("stream", "x"), ("received", 1.0)],
)
def test_an_altered_dead_letter_is_noticed(path, column, value):
    change(path, (f"UPDATE dead_letters SET {column} = ?", (value,)))
    with closing(EventLog(path)) as log:
        with pytest.raises(DamagedLog, match="dead letter"):
            log.dead_letters()
        assert len(list(log.entries(0, log.genesis))) == 5
