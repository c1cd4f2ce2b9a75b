"""The sinks for vector databases: the contract, what only they have, and seeded bugs in what they share."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress

import lancedb
import pytest
from pymilvus import MilvusClient
from qdrant_client.models import FieldCondition, Filter, MatchValue

from dygcn.errors import SinkError
from dygcn.serving.sinks import (
    LanceSettings,
    MilvusSettings,
    QdrantSettings,
    qdrant,
    vector_store,
)
from dygcn.serving.sinks.vector_store import VectorStore
from dygcn.testing.sink_checks import (
    KINDS,
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
)
from dygcn.testing.sink_model import made_up_history, make_rows
from tests.serving.sinks.places import (
    LocalQdrant,
    check_late_positions,
    lance_place,
    milvus_place,
    qdrant_place,
    read_lance,
    versions,
)

DIM = 4
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # of Milvus Lite


@pytest.fixture
def lite(tmp_path):
    """A file of Milvus Lite that is open until the test is over: to start it takes longer than to use it."""
    with closing(milvus_place(tmp_path / "lite.db").make()) as sink:
        sink.open("int64", DIM)
        yield tmp_path / "lite.db"


@pytest.fixture(params=["qdrant", "milvus", "lancedb"])
def fresh(request, tmp_path, monkeypatch):
    if request.param == "lancedb":
        return lambda **options: lance_place(tmp_path, **options)
    if request.param == "milvus":
        file = request.getfixturevalue("lite")
        return lambda **options: milvus_place(file, **options)
    return fresh_qdrant(monkeypatch)


def fresh_qdrant(monkeypatch):
    local = LocalQdrant()
    monkeypatch.setattr(qdrant, "connect", lambda make, settings: local)
    return lambda **options: qdrant_place(local, **options)


@pytest.mark.parametrize("check", SINK_CHECKS)
def test_contract(fresh, check):
    SINK_CHECKS[check](fresh)


def test_random_sequences(fresh):
    check_random_sequences(fresh, examples=5)


def test_a_late_write_does_not_take_the_position_back(fresh):
    check_late_positions(fresh)


def test_rows_are_found_by_kind(tmp_path, monkeypatch, lite):
    """As the page of vector databases says."""
    rows = make_rows({"user:7": 1, "item:7": 1, "item:user:8": 1}, dim=DIM)
    ours, vector = {"item:7", "item:user:8"}, [1.0, 0.0, 0.0, 0.0]
    local = LocalQdrant()
    monkeypatch.setattr(qdrant, "connect", lambda make, settings: local)
    for place in (lance_place(tmp_path), qdrant_place(local), milvus_place(lite)):
        sink = place.make()
        sink.open(KINDS, DIM)
        sink.write(rows)
        name = sink.name.rpartition("/")[2]
        sink.close()
    table = lancedb.connect(next(tmp_path.glob("t*"))).open_table("rows")
    found = table.search(vector).where("kind = 'item'").limit(9).to_list()
    assert {row["id"] for row in found} == ours
    [collection] = [one.name for one in local.get_collections().collections if "marks" not in one.name]
    item = FieldCondition(key="kind", match=MatchValue(value="item"))
    points = local.query_points(collection, query=vector, query_filter=Filter(must=[item])).points
    assert {point.payload["id"] for point in points} == ours
    with closing(MilvusClient(str(lite))) as client:
        client.load_collection(name)
        [hits] = client.search(name, [vector], filter='kind == "item"', output_fields=["id"])
    assert {hit["entity"]["id"] for hit in hits} == ours


STEPS = (("put_marks",), ("put_rows",), ("delete", "rows"), ("delete", "marks"))  # and of what


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", STEPS, ids=" ".join)
def test_a_write_that_fails_at_any_step_is_completed_by_its_repeat(fresh, step, after):
    fail_and_repeat(fresh(), step, after)


def fail_and_repeat(place, step, after):
    """Fail before or after each call of one step, once, in a write and in delete_below."""
    sink = place.make()
    sink.open("int64", DIM)
    sink.write(make_rows({1: 1, 2: 1, 3: 1, 4: 1}, left={9: 1}, dim=DIM))
    for act in (
        lambda: sink.write(make_rows({1: 2, 5: 2, 9: 2}, left={2: 2}, dim=DIM)),
        lambda: sink.delete_below(2, made_up_history(2)),
    ):
        for at in range(3):
            fail_once(sink, step, at, after, act)
        act()
    assert versions(place.read_all()) == {1: 2, 5: 2, 9: 2}
    sink.write(make_rows({2: 1, 3: 1, 4: 1, 9: 1}, dim=DIM))  # late
    assert versions(place.read_all()) == {1: 2, 5: 2, 9: 2}
    sink.close()


def fail_once(sink, step, at, after, act):
    (name, *of), calls = step, []
    right = getattr(sink.store.collections, name)

    def fail(*arguments):
        if of and arguments[0] != of[0]:
            return right(*arguments)
        calls.append(step)
        if len(calls) - 1 != at:
            return right(*arguments)
        if after:
            right(*arguments)
        raise OSError("the line is dead")

    setattr(sink.store.collections, name, fail)
    with suppress(SinkError):
        act()
    setattr(sink.store.collections, name, right)


def test_a_collection_of_somebody_else_is_refused(fresh):
    place = fresh()
    sink = place.make()
    sink.open("int64", DIM)
    sink.store.collections.create("marks")  # without the position, which is not a shape of ours
    sink.close()
    with pytest.raises(SinkError, match="holds rows of the shape"):
        sink.open("int64", DIM)


def test_ids_that_left_are_forgotten_in_time(fresh):
    sink = fresh(keep_left=1.0).make()
    sink.open("int64", DIM)
    sink.write(make_rows({1: 2}, left={2: 2}, dim=DIM))
    key = vector_store.key_of(2)
    assert key in sink.store.marks([key])
    until = time.monotonic() + 10
    while time.monotonic() < until:
        time.sleep(0.3)
        assert sink.open("int64", DIM) == made_up_history(2)
        if not sink.store.marks([key]):
            break
    assert not sink.store.marks([key])
    sink.close()


def older_rows_win(monkeypatch):
    monkeypatch.setattr(vector_store, "_older", lambda *arguments: True)


def nobody_is_refused(monkeypatch):
    monkeypatch.setattr(vector_store, "admit", lambda held, ours, name: None)


def nobody_remembers_who_left(monkeypatch):
    monkeypatch.setattr(VectorStore, "_mark", lambda self, ids, history: None)


def versions_alone_are_compared(monkeypatch):
    monkeypatch.setattr(
        vector_store,
        "_older",
        lambda id_, rank, *known: all(ranks[id_][1] < rank[1] for ranks in known if id_ in ranks),
    )


def the_position_is_not_kept(monkeypatch):
    """But for the first one, which says the shape."""
    keep = VectorStore._keep
    monkeypatch.setattr(
        VectorStore, "_keep", lambda self, history: keep(self, history) if history.generation < 0 else None
    )


def an_older_position_is_kept(monkeypatch):
    monkeypatch.setattr(vector_store, "newest", lambda positions: list(positions)[-1])


@pytest.mark.parametrize(
    ("mutant", "check"),
    [
        (nobody_is_refused, check_stale_writer),
        (nobody_is_refused, check_equal_generation),
        (nobody_is_refused, check_restored_copy),
        (nobody_remembers_who_left, check_left),
        (nobody_remembers_who_left, check_below),
        (versions_alone_are_compared, check_refit),
        (the_position_is_not_kept, check_rows_say_their_history),
        (an_older_position_is_kept, check_late_positions),
    ],
)
def test_mutant_would_be_noticed(monkeypatch, mutant, check):
    fresh = fresh_qdrant(monkeypatch)
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        check(fresh)


def test_older_rows_that_win_would_be_noticed(lite, monkeypatch):
    """In Milvus, which compares nothing by itself."""
    older_rows_win(monkeypatch)
    with pytest.raises(AssertionError):
        check_repeats(lambda: milvus_place(lite))


def test_rows_that_end_without_a_mark_would_be_noticed(monkeypatch):
    def leave(self, ids, history, rank):
        self.delete_rows(ids, rank)
        if self.ranks(ids):
            self._mark(ids, history)

    place = fresh_qdrant(monkeypatch)()
    monkeypatch.setattr(VectorStore, "_leave", leave)
    with pytest.raises(AssertionError):
        fail_and_repeat(place, ("delete", "rows"), True)


def test_qdrant_itself_refuses_an_older_row(monkeypatch):
    place = fresh_qdrant(monkeypatch)()
    refuse_in_qdrant(place)


def refuse_in_qdrant(place):
    sink = place.make()
    sink.open("int64", DIM)
    for generation, version in ((2**53, 2**53 + 1), (2**53 + 1, 7), (2**53 + 1, 2**32)):
        sink.write(make_rows({1: version}, dim=DIM, generation=generation))
    late = make_rows({1: 2**32 - 1}, dim=DIM, generation=2**53 + 1)
    sink.store.collections.put_rows([1], late.vectors, late.history)
    older = make_rows({1: 2**62}, dim=DIM, generation=2**53)
    sink.store.collections.put_rows([1], older.vectors, older.history)
    sink.store.delete_rows([1], (2**53 + 1, 2**32))
    assert versions(place.read_all()) == {1: 2**32}


def test_ranks_without_generations_would_be_noticed(monkeypatch):
    place = fresh_qdrant(monkeypatch)()
    words = qdrant._as_payload
    monkeypatch.setattr(qdrant, "_as_payload", lambda rank: words((0, rank[1])))
    with pytest.raises(AssertionError):
        refuse_in_qdrant(place)


def test_nobody_there_and_keys_are_not_shown(monkeypatch):
    monkeypatch.setenv("QDRANT_API_KEY", "other-k3y")
    for sink in (
        QdrantSettings(url="https://s0me-k3y@127.0.0.1:1", timeout=2).make(),
        MilvusSettings(url="http://root:s0me-k3y@127.0.0.1:1", timeout=2).make(),
    ):
        with pytest.raises(SinkError, match=r"://127.0.0.1:1/dygcn_vectors: ") as error:
            sink.open("int64", DIM)
        assert "k3y" not in f"{error.value} {error.value.__cause__} {sink.name}"
        sink.close()


def test_ids_that_milvus_cannot_keep(lite):
    place = milvus_place(lite)
    sink = place.make()
    sink.open("string", DIM)
    with pytest.raises(SinkError, match="longer than the 65535 bytes"):
        sink.write(make_rows({"a" * 65_536: 1, "b": 1}, dim=DIM))
    sink.write(make_rows({"é" * 32_767: 1}, dim=DIM))
    assert len(place.read_all()) == 1
    sink.close()
    with pytest.raises(SinkError, match="up to 32768 numbers"):
        sink.open("string", 32_769)


def test_a_table_of_lancedb_does_not_grow_without_bound(tmp_path):
    settings = LanceSettings(folder=str(tmp_path), table="rows", keep_versions=0.001, optimize_after=10)
    sink = settings.make()
    sink.open("int64", DIM)
    for version in range(1, 61):
        sink.write(make_rows(dict.fromkeys(range(5), version), dim=DIM))
    assert len(lancedb.connect(tmp_path).open_table("rows").list_versions()) < 20
    assert sum(len(files) for _, _, files in os.walk(tmp_path)) < 150
    assert versions(read_lance(tmp_path)) == dict.fromkeys(range(5), 60)
    sink.close()


WRITER = """
import sys
from dygcn.serving.sinks import LanceSettings, MilvusSettings
from dygcn.testing.sink_model import make_rows
kind, where, first = sys.argv[1:]
if kind == "lancedb":
    sink = LanceSettings(folder=where, table="rows").make()
else:
    sink = MilvusSettings(url=f"file://{where}.db", collection="rows").make()
sink.open("int64", 4)
for version in range(int(first), 10**6):
    sink.write(make_rows({version: version, 0: version}, left={version - 1: version}, dim=4))
    print(version, flush=True)
"""


@pytest.mark.parametrize("kind", ["lancedb", "milvus"])
def test_a_writer_that_is_killed_loses_nothing_that_it_finished(tmp_path, kind):
    reached = 0
    for round_ in range(2):
        command = [sys.executable, "-c", WRITER, kind, str(tmp_path / "there"), str(reached + 1)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            begun = reached
            for line in writer.stdout:
                reached = int(line)
                if reached >= begun + 4:
                    break
            time.sleep(0.01 * round_)
            writer.send_signal(signal.SIGKILL)
            for line in writer.stdout:
                reached = int(line)
        if kind == "lancedb":
            sink = LanceSettings(folder=str(tmp_path / "there"), table="rows").make()
        else:
            sink = MilvusSettings(url=f"file://{tmp_path}/there.db", collection="rows").make()
        held = sink.open("int64", 4)
        assert held.sequence in (reached, reached + 1)  # the last one may have begun
        again = held.sequence
        sink.write(make_rows({again: again, 0: again}, left={again - 1: again}, dim=4))
        assert sink.store.ranks([0, again, again - 1]) == {0: (1, again), again: (1, again)}
        sink.close()
        reached = again
