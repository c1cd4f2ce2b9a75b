"""The Parquet sink: the contract, what only it has, and seeded bugs."""

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dygcn.errors import SinkError
from dygcn.serving.sinks import ParquetSettings, parquet, read_rows
from dygcn.testing.sink_checks import (
    SINK_CHECKS,
    check_below,
    check_equal_generation,
    check_left,
    check_random_sequences,
    check_refit,
    check_repeats,
    check_restored_copy,
    check_rows_say_their_history,
    check_stale_writer,
    check_two_writers,
)
from dygcn.testing.sink_model import made_up_history, make_rows
from tests.serving.sinks.places import check_late_positions, parquet_place, read_files, versions

DIM = 4


@pytest.fixture
def sink(tmp_path):
    opened = ParquetSettings(folder=str(tmp_path / "rows")).make()
    opened.open("int64", DIM)
    yield opened
    opened.close()


def folder(sink):
    return Path(sink.name.removeprefix("parquet://"))


def files(sink):
    return sorted(path.name for path in folder(sink).iterdir() if path.name != "about.json")


def held(sink):
    return versions(read_files(folder(sink)))


@pytest.mark.parametrize("check", SINK_CHECKS)
def test_contract(tmp_path, check):
    SINK_CHECKS[check](lambda: parquet_place(tmp_path))


def test_random_sequences(tmp_path):
    check_random_sequences(lambda: parquet_place(tmp_path), examples=6)


def test_one_file_for_each_write(sink):
    rows = make_rows({1: 12, 2: 12}, left={3: 12}, dim=DIM, generation=7)
    sink.write(rows)
    [name] = files(sink)
    assert name.startswith(f"rows-{7:019d}-{rows.history.epoch}-{12:019d}-{rows.history.chain}-")
    sink.write(rows)
    assert files(sink) == [name]
    sink.write(make_rows({1: 12, 2: 12}, dim=DIM, generation=7))
    assert len(files(sink)) == 2
    sink.write(make_rows({}, dim=DIM))
    assert len(files(sink)) == 2


def test_any_reader_can_read_a_file(sink):
    rows = make_rows({1: 7, 2: 7}, left={3: 7}, dim=DIM, generation=5)
    sink.write(rows)
    [name] = files(sink)
    table = pq.read_table(folder(sink) / name)
    assert table.schema.names == ["id", "generation", "epoch", "version", "chain", "vector", "left"]
    assert table["generation"].to_pylist() == [5, 5, 5]
    assert table["epoch"].to_pylist() == [rows.history.epoch] * 3
    assert table["chain"].to_pylist() == [rows.history.chain] * 3
    assert table.schema.field("vector").type == pa.list_(pa.float32(), DIM)
    assert table["id"].to_pylist() == [1, 2, 3]
    assert table["version"].to_pylist() == [7, 7, 7]
    assert table["left"].to_pylist() == [False, False, True]
    assert table["vector"].to_pylist() == [*rows.vectors.tolist(), None]


def test_numbers_that_are_not_finite_are_kept(sink):
    rows = make_rows({1: 7}, dim=DIM)
    rows.vectors[0] = [np.nan, np.inf, -np.inf, -0.0]
    sink.write(rows)
    [(_, vector)] = read_files(folder(sink)).values()
    assert vector.tobytes() == rows.vectors.tobytes()


def test_settling_leaves_one_file(sink):
    for version in range(1, 6):
        sink.write(make_rows({version: version, 100: version}, left={200 + version: version}, dim=DIM))
    sink.delete_below(3, made_up_history(5))
    [name] = files(sink)
    at = made_up_history(5)
    assert name.startswith(f"deleted_below-{1:019d}-{at.epoch}-{5:019d}-{at.chain}-{3:019d}-")
    assert held(sink) == {3: 3, 4: 4, 5: 5, 100: 5}
    table = pq.read_table(folder(sink) / name)
    assert sorted(table["id"].to_pylist()) == [3, 4, 5, 100, 203, 204, 205]
    sink.delete_below(0, made_up_history(4))
    assert files(sink) == [name]
    assert held(sink) == {3: 3, 4: 4, 5: 5, 100: 5}


def test_versions_below_what_was_settled_are_never_read(sink):
    sink.write(make_rows({1: 9}, dim=DIM))
    sink.delete_below(9, made_up_history(9))
    sink.write(make_rows({1: 8, 2: 8}, dim=DIM))
    sink.write(make_rows({3: 9}, dim=DIM))
    assert held(sink) == {1: 9, 3: 9}
    sink.delete_below(9, made_up_history(9))
    assert held(sink) == {1: 9, 3: 9}
    assert len(files(sink)) == 1


def test_folders_that_are_not_ours(tmp_path, sink):
    with pytest.raises(SinkError, match="is no folder of a Parquet sink"):
        read_rows(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError):
        ParquetSettings(folder=str(tmp_path / "file")).make().open("int64", DIM)
    assert read_rows(folder(sink)).num_rows == 0
    for text in ("", "{}", '"int64"', '"int64:x"', '"int64:0"', '"float:4"', "\xff"):
        (folder(sink) / "about.json").write_bytes(text.encode("latin1"))
        with pytest.raises(SinkError):
            sink.open("int64", DIM)


def test_files_with_other_names_are_not_ours(sink):
    sink.write(make_rows({1: 7}, dim=DIM))
    [name] = files(sink)
    for wrong in ("rows-7.parquet", name.replace("rows", "deleted_below"), name.replace("0000007", "7")):
        (folder(sink) / wrong).write_bytes((folder(sink) / name).read_bytes())
        for act in (lambda: read_rows(folder(sink)), lambda: sink.open("int64", DIM)):
            with pytest.raises(SinkError, match="its name is none that we give"):
                act()
        (folder(sink) / wrong).unlink()
    other = name.replace(made_up_history(7).epoch, made_up_history(7, 2).epoch)
    (folder(sink) / name).rename(folder(sink) / other)
    with pytest.raises(SinkError, match="not what its name says"):
        read_rows(folder(sink))


def test_folders_called_like_a_partition_add_no_column(tmp_path):
    odd = ParquetSettings(folder=str(tmp_path / "id=7" / "left=1")).make()
    odd.open("int64", DIM)
    odd.write(make_rows({1: 1}, dim=DIM))
    assert held(odd) == {1: 1}


def test_what_nobody_finished_is_not_read_and_is_removed_in_time(sink):
    young, old = folder(sink) / ".rows-1.abc.part", folder(sink) / ".rows-2.abc.part"
    for path in (young, old):
        path.write_bytes(b"half a fi")
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    sink.write(make_rows({1: 1}, dim=DIM))
    assert held(sink) == {1: 1}
    sink.open("int64", DIM)
    assert young.exists()
    assert not old.exists()


def test_damage_is_noticed(sink):
    sink.write(make_rows({1: 7}, left={3: 7}, dim=DIM))
    sink.write(make_rows({2: 12}, dim=DIM))
    sink.delete_below(4, made_up_history(12))
    sink.write(make_rows({1: 20, 4: 20}, dim=DIM, generation=2))
    before, random = read_files(folder(sink)), np.random.default_rng(7)
    noticed = 0
    for name in files(sink):
        whole = (folder(sink) / name).read_bytes()
        for _ in range(150):
            broken = bytearray(whole)
            broken[random.integers(len(whole))] ^= 1 << random.integers(8)
            if random.random() < 0.1:
                broken = broken[: random.integers(len(whole))]
            (folder(sink) / name).write_bytes(broken)
            try:
                after = read_files(folder(sink))
            except SinkError:
                noticed += 1
            else:
                assert repr(after) == repr(before)
        (folder(sink) / name).write_bytes(whole)
    assert noticed > 150


def test_damage_that_checks_out_by_itself_would_be_noticed(sink):
    sink.write(make_rows({1: 7}, dim=DIM))
    sink.write(make_rows({1: 8}, dim=DIM))
    one, other = files(sink)
    (folder(sink) / one).write_bytes((folder(sink) / other).read_bytes())
    with pytest.raises(SinkError, match="not what its name says"):
        read_rows(folder(sink))


def test_a_file_is_on_disk_before_it_has_its_name(sink, monkeypatch):
    assert steps_of_a_write(sink, monkeypatch) == ["sync file", "name", "sync folder"]


def steps_of_a_write(sink, monkeypatch):
    steps = []
    fsync, replace = os.fsync, os.replace

    def watch_sync(handle):
        steps.append("sync folder" if Path(f"/proc/self/fd/{handle}").resolve().is_dir() else "sync file")
        fsync(handle)

    def watch_name(source, target):
        assert pq.read_metadata(source).num_rows == 1
        steps.append("name")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", watch_sync)
    monkeypatch.setattr(os, "replace", watch_name)
    sink.write(make_rows({1: 1}, dim=DIM))
    return steps


def test_a_write_that_is_not_on_disk_would_be_noticed(sink, monkeypatch):
    monkeypatch.setattr(parquet, "write_synced", lambda path, content: path.write_bytes(content))
    assert steps_of_a_write(sink, monkeypatch) != ["sync file", "name", "sync folder"]


def test_a_name_that_is_not_on_disk_would_be_noticed(sink, monkeypatch):
    monkeypatch.setattr(parquet, "sync_names", lambda folder: None)
    assert steps_of_a_write(sink, monkeypatch) != ["sync file", "name", "sync folder"]


def fail_at(monkeypatch, at):
    """Have one step of the file system fail, the one with this number."""
    steps = iter(range(100))

    def failing(function):
        def call(*arguments, **options):
            if next(steps) == at:
                raise OSError(28, "No space left on device")
            return function(*arguments, **options)

        return call

    for name in ("fsync", "replace", "open"):
        monkeypatch.setattr(os, name, failing(getattr(os, name)))
    monkeypatch.setattr(Path, "unlink", failing(Path.unlink))


def fail_while(sink, monkeypatch, at, act, before, after):
    """Fail once, then act again. What is there is what was before or what should come after, nothing else."""
    with monkeypatch.context() as meanwhile:
        fail_at(meanwhile, at)
        try:
            act()
            failed = None
        except SinkError as error:
            failed = str(error)
    assert held(sink) == after or (failed is not None and held(sink) == before)
    assert failed is None or "No space left" in failed
    act()
    assert held(sink) == after


@pytest.mark.parametrize("at", range(8))
def test_a_disk_that_fails_at_any_step_of_a_write_loses_nothing(sink, monkeypatch, at):
    sink.write(make_rows({1: 1, 9: 1}, dim=DIM))
    rows = make_rows({3: 3}, left={9: 3}, dim=DIM)
    fail_while(sink, monkeypatch, at, lambda: sink.write(rows), {1: 1, 9: 1}, {1: 1, 3: 3})


@pytest.mark.parametrize("at", range(8))
def test_a_disk_that_fails_at_any_step_of_settling_loses_nothing(sink, monkeypatch, at):
    fail_while_settling(sink, monkeypatch, at)


def fail_while_settling(sink, monkeypatch, at):
    for version in (1, 2):
        sink.write(make_rows({version: version, 9: version}, dim=DIM))
    fail_while(
        sink,
        monkeypatch,
        at,
        lambda: sink.delete_below(2, made_up_history(2)),
        {1: 1, 2: 2, 9: 2},
        {2: 2, 9: 2},
    )


WRITER = """
import sys
import numpy as np
from dygcn.serving.sinks import ParquetSettings
from dygcn.testing.sink_model import made_up_history, make_rows
sink = ParquetSettings(folder=sys.argv[1]).make()
sink.open("int64", 4)
for version in range(int(sys.argv[2]), 10**6):
    sink.write(make_rows({version: version, 0: version}, left={version - 1: version}, dim=4))
    print(version, flush=True)
    if version % 7 == 0:
        sink.delete_below(version - 3, made_up_history(version))
"""


def test_a_writer_that_is_killed_loses_nothing_that_it_finished(tmp_path):
    place, reached = tmp_path / "rows", 0
    for round_ in range(3):
        command = [sys.executable, "-c", WRITER, str(place), str(reached + 1)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            for line in writer.stdout:
                reached = int(line)
                if reached % 20 >= 10 + round_:
                    break
            time.sleep(0.003 * round_)
            writer.send_signal(signal.SIGKILL)
            for line in writer.stdout:
                reached = int(line)
        found = versions(read_files(place))
        newest = found[0]
        assert newest in (reached, reached + 1)  # the last one may be there without having been said
        assert found == {0: newest, newest: newest}
        reached = newest - 1  # it comes again


def test_readers_see_every_row_while_files_are_merged(sink):
    for version in range(1, 30):
        sink.write(make_rows({version: version}, dim=DIM))
    stop, seen = threading.Event(), []

    def read():
        while not stop.is_set():
            seen.append(len(read_rows(folder(sink))))

    reader = threading.Thread(target=read)
    reader.start()
    for version in range(30, 60):
        sink.write(make_rows({1: version}, dim=DIM))
        sink.delete_below(0, made_up_history(version))
    stop.set()
    reader.join()
    assert set(seen) == {29}


def first_instead_of_newest(monkeypatch):
    def first(table, deleted_below):
        rows = {id_: row for row, id_ in reversed([*enumerate(table["id"].to_pylist())])}
        return table.take(list(rows.values()))

    monkeypatch.setattr(parquet, "newest_rows", first)


def lowest_instead_of_highest(monkeypatch):
    lexsort = np.lexsort
    monkeypatch.setattr(np, "lexsort", lambda keys: lexsort((-keys[0], *keys[1:])))


def generations_are_not_compared(monkeypatch):
    lexsort = np.lexsort
    monkeypatch.setattr(np, "lexsort", lambda keys: lexsort((keys[0], keys[-1])))


def settled_version_is_not_kept(monkeypatch):
    put = parquet.put

    def put_zero(folder, table, about):
        return put(folder, table, dataclasses.replace(about, floor=min(about.floor, 0)))

    monkeypatch.setattr(parquet, "put", put_zero)


def settling_drops_nothing(monkeypatch):
    newest = parquet.newest_rows
    monkeypatch.setattr(parquet, "newest_rows", lambda table, deleted_below: newest(table, None))


def settling_looks_at_versions_alone(monkeypatch):
    monkeypatch.setattr(
        parquet, "_gone", lambda table, deleted_below: table["version"].to_numpy() < deleted_below.floor
    )


def settling_forgets_who_left(monkeypatch):
    put = parquet.put

    def without_left(folder, table, about):
        if about.floor >= 0:
            table = table.filter(pa.compute.invert(table["left"]))
        return put(folder, table, about)

    monkeypatch.setattr(parquet, "put", without_left)


def one_name_for_all(monkeypatch):
    monkeypatch.setattr(parquet, "checksum", lambda content, about: "0" * 32)


def nobody_is_refused(monkeypatch):
    monkeypatch.setattr(parquet, "admit", lambda held, ours, name: None)


def merged_files_say_the_position_of_the_settling(monkeypatch):
    monkeypatch.setattr(parquet, "newest", lambda positions: [None, *positions][-1])


def rows_files_alone_say_a_position(monkeypatch):
    files = parquet.files_of
    monkeypatch.setattr(
        parquet, "held", lambda folder: parquet.newest(
            parquet.read_name(file).history for file in files(folder) if file.name.startswith("rows")
        )
    )  # fmt: skip


def check_left_across_settling(fresh):
    place = fresh()
    sink = place.make()
    sink.open("int64", DIM)
    sink.write(make_rows({1: 5}, dim=DIM))
    sink.write(make_rows({}, left={1: 6}, dim=DIM))
    sink.delete_below(2, made_up_history(6))
    sink.write(make_rows({1: 5}, dim=DIM))
    assert place.read_all() == {}


def check_different_rows_of_the_same_versions(fresh):
    place = fresh()
    sink = place.make()
    sink.open("int64", DIM)
    for id_ in range(5):
        sink.write(make_rows({id_: 1}, dim=DIM))
    assert len(place.read_all()) == 5


def check_a_stale_file_is_not_read(fresh):
    """A stale writer looked before the newer history came, and writes after it."""
    place = fresh()
    sink, stale = place.make(), place.make()
    for one in (sink, stale):
        one.open("int64", DIM)
    stale.write(make_rows({1: 5, 2: 5}, dim=DIM))
    sink.write(make_rows({1: 3}, dim=DIM, generation=2))
    sink.delete_below(0, made_up_history(3, 2))
    with pytest.MonkeyPatch.context() as meanwhile:
        nobody_is_refused(meanwhile)
        stale.write(make_rows({1: 6, 2: 6}, dim=DIM))
    assert versions(place.read_all()) == {1: 3}
    sink.write(make_rows({4: 4}, dim=DIM, generation=2))
    sink.delete_below(0, made_up_history(4, 2))
    assert versions(place.read_all()) == {1: 3, 4: 4}


@pytest.mark.parametrize(
    "check",
    [
        check_left_across_settling,
        check_different_rows_of_the_same_versions,
        check_a_stale_file_is_not_read,
        check_late_positions,
    ],
)
def test_further_checks(tmp_path, check):
    check(lambda: parquet_place(tmp_path))


@pytest.mark.parametrize(
    ("mutant", "check"),
    [
        (first_instead_of_newest, check_repeats),
        (lowest_instead_of_highest, check_repeats),
        (lowest_instead_of_highest, check_two_writers),
        (lowest_instead_of_highest, check_left),
        (settled_version_is_not_kept, check_below),
        (settling_drops_nothing, check_below),
        (settling_forgets_who_left, check_left_across_settling),
        (one_name_for_all, check_different_rows_of_the_same_versions),
        (generations_are_not_compared, check_refit),
        (settling_drops_nothing, check_refit),
        (settling_looks_at_versions_alone, check_refit),
        (settling_looks_at_versions_alone, check_a_stale_file_is_not_read),
        (nobody_is_refused, check_stale_writer),
        (nobody_is_refused, check_equal_generation),
        (nobody_is_refused, check_restored_copy),
        (merged_files_say_the_position_of_the_settling, check_late_positions),
        (rows_files_alone_say_a_position, check_rows_say_their_history),
    ],
)
def test_mutant_would_be_noticed(tmp_path, monkeypatch, mutant, check):
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        check(lambda: parquet_place(tmp_path))


def test_merging_before_the_new_file_is_there_would_be_noticed(sink, monkeypatch):
    put = parquet.put

    def late(folder, table, about):
        if about.floor >= 0:
            for path in folder.glob("*.parquet"):
                path.unlink()
        return put(folder, table, about)

    monkeypatch.setattr(parquet, "put", late)
    with pytest.raises(AssertionError):
        fail_while_settling(sink, monkeypatch, 3)


def test_rows_are_read_in_the_order_of_ids(sink):
    sink.write(make_rows({5: 1, -7: 1, 2: 1}, dim=DIM))
    table = read_rows(folder(sink))
    assert table["id"].to_pylist() == [-7, 2, 5]
