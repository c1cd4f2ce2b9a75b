"""The PostgreSQL sink on a real server: the contract, what only it has, and seeded bugs."""

import hashlib
import threading
import time

import numpy as np
import psycopg
import pytest

from dygcn.errors import OtherHistory, SinkError
from dygcn.serving.sinks import PostgresSettings
from dygcn.serving.sinks import postgres as sink_module
from dygcn.serving.sinks.postgres import PostgresStore, as_payloads
from dygcn.testing.sink_checks import (
    KINDS,
    SINK_CHECKS,
    check_below,
    check_equal_generation,
    check_interrupted,
    check_left,
    check_random_sequences,
    check_refit,
    check_repeats,
    check_restored_copy,
    check_rows_arrive,
    check_stale_writer,
)
from dygcn.testing.sink_model import made_up_history, make_rows
from dygcn_lab.testbed.postgres import postgres_server
from tests.serving.sinks.places import check_late_positions, fresh_name, postgres_place, read_table, versions

DIM = 4
OURS = "generation bigint, epoch text, version bigint, chain text"


@pytest.fixture(scope="module")
def server():
    with postgres_server() as running:
        yield running


@pytest.fixture
def sink(server):
    opened = PostgresSettings(url=server.url, table=fresh_name(), timeout=20).make()
    opened.open("int64", DIM)
    yield opened
    opened.close()


@pytest.fixture
def database(server):
    """A database of its own, and a way to speak to it."""
    name = fresh_name()
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    url = server.url.replace("/postgres?", f"/{name}?")

    def say(*statements):
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in statements:
                answer = connection.execute(statement)
            return answer.fetchall() if answer.description else None

    return url, say


def held(sink):
    return versions(read_table(sink.store.settings.url, sink.store.settings.table))


def ask(sink, query):
    with psycopg.connect(sink.store.settings.url, autocommit=True) as connection:
        return connection.execute(query.format(table=sink.store.settings.table)).fetchall()


def do(sink, *statements):
    with psycopg.connect(sink.store.settings.url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.format(table=sink.store.settings.table))


def hash_of(node):
    """Return what is remembered of a node that left, which does not name it."""
    return hashlib.sha256(str(node).encode()).digest()


@pytest.mark.parametrize("check", SINK_CHECKS)
def test_contract(server, check):
    SINK_CHECKS[check](lambda: postgres_place(server))


def test_random_sequences(server):
    check_random_sequences(lambda: postgres_place(server), examples=6)


def test_contract_with_an_index(server):
    check_left(lambda: postgres_place(server, index="hnsw"))


def test_rows_are_found_by_kind(server):
    place = postgres_place(server)
    sink = place.make()
    sink.open(KINDS, DIM)
    sink.write(make_rows({"user:7": 1, "item:7": 1, "item:user:8": 1}, dim=DIM))
    found = ask(sink, "SELECT id FROM {table} WHERE kind = 'item' ORDER BY vector <=> '[1,1,1,1]'")
    assert {id_ for (id_,) in found} == {"item:7", "item:user:8"}
    assert ask(sink, "SELECT FROM pg_indexes WHERE tablename = '{table}' AND indexdef LIKE '%btree (kind)'")
    sink.close()


def test_a_column_kind_that_you_write_yourself_is_not_ours(server):
    table = fresh_name()
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute(f"CREATE TABLE {table} (id text PRIMARY KEY, kind text, vector vector(4), {OURS})")
    sink = PostgresSettings(url=server.url, table=table).make()
    with pytest.raises(
        SinkError, match=r"kind text, .* ours are id text PRIMARY KEY, kind text NOT NULL GEN"
    ):
        sink.open(KINDS, DIM)
    sink.open("string", DIM)
    sink.write(make_rows({"a": 1}, dim=DIM))
    assert held(sink) == {"a": 1}
    sink.close()


def test_nearest_neighbours_by_index(sink, server):
    indexed = PostgresSettings(url=server.url, table=sink.store.settings.table, index="hnsw").make()
    rows = make_rows(dict.fromkeys(range(100), 1), dim=DIM)
    rows.vectors[:] = np.random.default_rng(0).standard_normal(rows.vectors.shape)
    sink.write(rows)
    indexed.open("int64", DIM)
    indexed.open("int64", DIM)
    indexed.close()
    [(found,)] = ask(sink, "SELECT indexdef FROM pg_indexes WHERE indexname = '{table}_hnsw'")
    assert "hnsw" in found
    assert "vector_cosine_ops" in found
    [(nearest,)] = ask(
        sink, "SELECT id FROM {table} ORDER BY vector <=> (SELECT vector FROM {table} WHERE id = 7) LIMIT 1"
    )
    assert nearest == 7


def test_vectors_are_sent_as_the_source_of_pgvector_says():
    assert list(as_payloads(np.array([[1.0]], np.float32))) == [b"\0\x01" + b"\0\0" + b"\x3f\x80\0\0"]


def test_a_write_is_all_or_nothing(sink):
    do(
        sink,
        """CREATE FUNCTION {table}_refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN IF old.id = 3 THEN RAISE 'not this one'; END IF; RETURN old; END $$""",
        "CREATE TRIGGER refuse BEFORE DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION {table}_refuse()",
    )
    sink.write(make_rows({1: 1, 3: 1}, dim=DIM))
    with pytest.raises(SinkError, match="not this one"):
        sink.write(make_rows({1: 2, 2: 2}, left={3: 2}, dim=DIM))
    assert held(sink) == {1: 1, 3: 1}
    sink.write(make_rows({1: 2, 2: 2}, dim=DIM))
    assert held(sink) == {1: 2, 2: 2, 3: 1}


def test_a_lost_connection_is_an_error_once(sink):
    sink.write(make_rows({1: 1}, dim=DIM))
    for version in (2, 3):
        ask(sink, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        with pytest.raises(SinkError):
            sink.write(make_rows({1: version}, dim=DIM))
        sink.write(make_rows({1: version}, dim=DIM))
        assert held(sink) == {1: version}
    ask(sink, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    with pytest.raises(SinkError):
        sink.delete_below(4, made_up_history(4))
    sink.delete_below(4, made_up_history(4))
    assert held(sink) == {}


def test_a_table_that_changed_meanwhile_is_noticed(sink):
    sink.write(make_rows({1: 1}, dim=DIM))
    do(sink, "DROP TABLE {table}", "CREATE TABLE {table} (id text PRIMARY KEY)")
    for _ in range(2):
        with pytest.raises(SinkError):
            sink.write(make_rows({1: 2}, dim=DIM))
    do(sink, "DROP TABLE {table}")
    sink.write(make_rows({1: 2}, dim=DIM))
    assert held(sink) == {1: 2}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (f"id int PRIMARY KEY, vector vector(4), {OURS}", "id int4"),
        (f"id bigint PRIMARY KEY, vector vector(5), {OURS}", r"vector vector\(5\)"),
        (f"id bigint PRIMARY KEY, vector vector, {OURS}", "vector vector;"),
        (f"id bigint PRIMARY KEY, vector real[], {OURS}", "vector _float4"),
        (f"id bigint PRIMARY KEY, {OURS}", r"vector \(none\)"),
        ("id bigint PRIMARY KEY, vector vector(4)", "ours are"),
        ("id bigint PRIMARY KEY, vector vector(4), version bigint", "ours are"),
        (f"id bigint PRIMARY KEY, vector vector(4), {OURS.replace('text', 'bytea')}", "epoch bytea"),
        (f"id bigint, vector vector(4), {OURS}", "PRIMARY KEY"),
    ],
)
def test_a_table_of_another_shape_is_refused(server, columns, said):
    table = fresh_name()
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute(f"CREATE TABLE {table} ({columns})")
    sink = PostgresSettings(url=server.url, table=table).make()
    with pytest.raises(SinkError, match=said) as error:
        sink.open("int64", DIM)
    assert f"id bigint PRIMARY KEY, vector vector(4), {OURS}" in str(error.value)


def test_a_table_that_you_made_may_have_more_columns(server):
    table = fresh_name()
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute(
            f'CREATE TABLE {table} (note text, {OURS}, id text COLLATE "C" UNIQUE, vector vector(4))'
        )
    sink = PostgresSettings(url=server.url, table=table).make()
    sink.open("string", DIM)
    sink.write(make_rows({"a": 1, "b": 1}, dim=DIM))
    sink.write(make_rows({"b": 2}, left={"a": 2}, dim=DIM))
    sink.write(make_rows({"a": 1}, dim=DIM))
    assert held(sink) == {"b": 2}
    sink.close()


def test_pgvector_may_live_in_any_schema(database):
    url, say = database
    say('CREATE SCHEMA "Odd schema"', 'CREATE EXTENSION vector SCHEMA "Odd schema"', "CREATE SCHEMA live")
    sink = PostgresSettings(url=url, table="live.nodes", index="hnsw").make()
    sink.open("int64", DIM)
    sink.write(make_rows({1: 1, 2: 1}, dim=DIM))
    sink.write(make_rows({}, left={2: 2}, dim=DIM))
    sink.close()
    assert say("SELECT id, version FROM live.nodes") == [(1, 1)]
    assert say("SELECT id_hash, version FROM live.nodes_left") == [(hash_of(2), 2)]


def test_a_user_who_may_not_switch_pgvector_on_is_told_who_may(database):
    url, say = database
    role = fresh_name()
    say(f"CREATE ROLE {role} LOGIN", f"GRANT CREATE ON SCHEMA public TO {role}")
    sink = PostgresSettings(url=url.replace("//postgres@", f"//{role}@")).make()
    with pytest.raises(SinkError, match="administrator of the database run: CREATE EXTENSION vector"):
        sink.open("int64", DIM)
    say("CREATE EXTENSION vector")
    sink.open("int64", DIM)
    sink.close()


def test_a_server_without_pgvector():
    with postgres_server("-c", "extension_control_path=/nowhere") as server:
        sink = PostgresSettings(url=server.url).make()
        with pytest.raises(SinkError, match="this server has no pgvector; install the extension"):
            sink.open("int64", DIM)
        sink.close()


def test_nobody_there(tmp_path):
    url = f"postgresql://me:s3cret@/postgres?host={tmp_path}"
    sink = PostgresSettings(url=url, timeout=2).make()
    with pytest.raises(SinkError) as error:
        sink.open("int64", DIM)
    assert "s3cret" not in f"{error.value} {error.value.__cause__} {sink.name} {sink.store.settings}"
    assert sink.name == f"postgres://{tmp_path}/postgres/dygcn_vectors"
    sink.close()


def test_names_show_no_secret():
    for url in (
        "postgresql://me:s3cret@db:77/live?sslmode=require",
        "host=db port=77 dbname=live password=s3cret",
    ):
        settings = PostgresSettings(url=url, table="a.b")
        assert settings.make().name == "postgres://db:77/live/a.b"
        assert "s3cret" not in repr(settings)
    assert PostgresSettings(url="").make().name == "postgres://localhost//dygcn_vectors"


def test_words_that_sql_uses_are_names_like_others(server):
    for table in ("select", "Order", "x" * 55):
        sink = PostgresSettings(url=server.url, table=table).make()
        sink.open("int64", DIM)
        sink.write(make_rows({1: 1, 2: 1}, dim=DIM))
        sink.write(make_rows({}, left={2: 2}, dim=DIM))
        assert held(sink) == {1: 1}
        sink.close()


def test_waiting_for_another_writer_ends(server, sink):
    hurried = PostgresSettings(url=server.url, table=sink.store.settings.table, timeout=0.3).make()
    hurried.open("int64", DIM)
    with psycopg.connect(server.url) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [hurried.store._lock])
        with pytest.raises(SinkError, match="statement timeout"):
            hurried.write(make_rows({1: 1}, dim=DIM))
    hurried.write(make_rows({1: 1}, dim=DIM))
    assert held(sink) == {1: 1}
    hurried.close()


def test_ids_that_left_are_forgotten_in_time(server):
    table = fresh_name()
    sink = PostgresSettings(url=server.url, table=table, keep_left=0.2).make()
    sink.open("int64", DIM)
    sink.write(make_rows({1: 1, 2: 1}, dim=DIM))
    sink.write(make_rows({}, left={1: 2}, dim=DIM))
    assert ask(sink, "SELECT id_hash, version FROM {table}_left") == [(hash_of(1), 2)]
    time.sleep(0.25)
    sink.open("int64", DIM)
    assert ask(sink, "SELECT id_hash, version FROM {table}_left") == []
    sink.write(make_rows({}, left={2: 2}, dim=DIM))
    sink._forgot -= 10_000.0
    time.sleep(0.25)
    sink.write(make_rows({3: 3}, dim=DIM))
    assert ask(sink, "SELECT id_hash, version FROM {table}_left") == []
    sink.close()


def test_ids_that_came_back_are_no_longer_remembered(sink):
    sink.write(make_rows({1: 1}, left={2: 1}, dim=DIM))
    sink.write(make_rows({2: 2}, left={1: 2}, dim=DIM))
    assert ask(sink, "SELECT id_hash, version FROM {table}_left") == [(hash_of(1), 2)]


def leave_while_an_older_row_comes(server, monkeypatch):
    """Write version 1 of a node; before that is committed, another writer takes it out at version 2."""
    table = fresh_name()
    slow, other = (PostgresSettings(url=server.url, table=table).make() for _ in range(2))
    for sink in (slow, other):
        sink.open("int64", DIM)
    left = make_rows({}, left={1: 2}, dim=DIM)
    leaving = threading.Thread(target=lambda: other.write(left))
    half, done = threading.Event(), threading.Event()
    run = PostgresStore._run

    def pause(self, statement, values=None):
        run(self, statement, values)
        if self is slow.store and statement == sink_module._UPSERT:
            half.set()
            done.wait(0.5)

    monkeypatch.setattr(PostgresStore, "_run", pause)
    writing = threading.Thread(target=lambda: slow.write(make_rows({1: 1}, dim=DIM)))
    writing.start()
    half.wait(10)
    leaving.start()
    leaving.join(0.4)
    if not leaving.is_alive():
        done.set()
    writing.join()
    leaving.join()
    found = held(slow)
    slow.close()
    other.close()
    return found


def test_an_older_row_that_is_not_committed_yet_does_not_survive_a_leaving(server, monkeypatch):
    assert leave_while_an_older_row_comes(server, monkeypatch) == {}


def test_writers_that_do_not_wait_for_each_other_would_be_noticed(server, monkeypatch):
    monkeypatch.setattr(sink_module, "_LOCK", "SELECT %s")
    monkeypatch.setattr(sink_module, "_ADVANCE", "SELECT %(version)s")  # they would wait there, too
    assert leave_while_an_older_row_comes(server, monkeypatch) == {1: 1}


def write_for_an_older_history_meanwhile(server, monkeypatch):
    """Write rows of a new epoch; before that is committed, a stale writer brings rows of the old one."""
    table = fresh_name()
    fresh, stale = (PostgresSettings(url=server.url, table=table).make() for _ in range(2))
    for sink in (fresh, stale):
        sink.open("int64", DIM)
    stale.write(make_rows({1: 1, 2: 1}, dim=DIM))
    refusals, half, done = [], threading.Event(), threading.Event()

    def write_late():
        try:
            stale.write(make_rows({2: 2, 3: 2}, dim=DIM))
        except OtherHistory as error:
            refusals.append(error)

    run = PostgresStore._run

    def pause(self, statement, values=None):
        run(self, statement, values)
        if self is fresh.store and statement == sink_module._UPSERT:
            half.set()
            done.wait(0.5)

    monkeypatch.setattr(PostgresStore, "_run", pause)
    rows = make_rows({1: 1}, dim=DIM, generation=2)
    writing, late = threading.Thread(target=lambda: fresh.write(rows)), threading.Thread(target=write_late)
    writing.start()
    half.wait(10)
    late.start()
    late.join(0.4)
    done.set()
    writing.join()
    late.join()
    found = read_table(server.url, table)
    fresh.close()
    stale.close()
    return len(refusals), {id_: (at.generation, at.sequence) for id_, (at, _) in found.items()}


def test_a_stale_writer_that_waits_for_a_newer_one_is_refused(server, monkeypatch):
    found = write_for_an_older_history_meanwhile(server, monkeypatch)
    assert found == (1, {1: (2, 1), 2: (1, 1)})


def test_a_stale_writer_that_does_not_wait_would_be_noticed(server, monkeypatch):
    monkeypatch.setattr(sink_module, "_LOCK", "SELECT %s")
    refused, found = write_for_an_older_history_meanwhile(server, monkeypatch)
    assert refused == 0
    assert 3 in found


def test_the_tables_say_which_history_they_are_of(sink):
    assert ask(sink, "SELECT * FROM {table}_history") == []
    rows = make_rows({7: 3}, left={8: 3}, dim=DIM, generation=1_700_000_000_000)
    sink.write(rows)
    at = rows.history
    of = (at.generation, at.epoch, 3, at.chain)
    assert ask(sink, "SELECT generation, epoch, version, chain FROM {table}") == [of]
    assert ask(sink, "SELECT generation, epoch, version, chain FROM {table}_history") == [of]
    assert ask(sink, "SELECT generation, version FROM {table}_left") == [(at.generation, 3)]
    assert ask(sink, "SELECT id_hash FROM {table}_left") == [(hash_of(8),)]


def test_a_dropped_table_begins_anew(sink):
    sink.write(make_rows({1: 9}, left={2: 9}, dim=DIM, generation=9))
    do(sink, "DROP TABLE {table}")
    assert sink.open("int64", DIM) is None
    sink.write(make_rows({2: 1}, dim=DIM))
    assert held(sink) == {2: 1}
    assert ask(sink, "SELECT generation FROM {table}_history") == [(1,)]


def test_an_emptied_table_holds_nothing_but_its_fence_stays(sink):
    sink.write(make_rows({1: 9}, left={2: 9}, dim=DIM, generation=9))
    do(sink, "TRUNCATE {table}")
    assert sink.open("int64", DIM) is None
    with pytest.raises(OtherHistory, match="newer history"):
        sink.write(make_rows({2: 10}, dim=DIM))
    sink.write(make_rows({2: 8}, dim=DIM, generation=9))
    assert held(sink) == {2: 8}


def test_a_lost_position_is_found_again_in_the_rows(sink):
    sink.write(make_rows({1: 9}, dim=DIM))
    sink.write(make_rows({2: 5, 3: 5}, dim=DIM, generation=2))
    sink.write(make_rows({2: 6}, dim=DIM, generation=2))
    do(sink, "DROP TABLE {table}_history")
    assert sink.open("int64", DIM) == made_up_history(6, 2)
    with pytest.raises(OtherHistory):
        sink.write(make_rows({1: 10}, dim=DIM))


def test_other_defaults_of_the_server_do_no_harm():
    options = ("default_transaction_isolation=serializable", "enable_seqscan=off", "lock_timeout=1")
    with postgres_server(*(part for option in options for part in ("-c", option))) as server:
        for check in ("two_writers", "ids", "left"):
            SINK_CHECKS[check](lambda: postgres_place(server))


LAZY = ("-c", "synchronous_commit=off", "-c", "wal_writer_delay=10s", "-c", "wal_writer_flush_after=1GB")


def test_a_write_survives_a_crash_of_a_server_that_is_lazy_by_default():
    with postgres_server(*LAZY) as server:
        check_interrupted(lambda: postgres_place(server))


def test_a_write_that_is_not_on_disk_would_be_noticed(monkeypatch):
    monkeypatch.setattr(sink_module, "_BEGIN", "SELECT set_config('statement_timeout', %s, true)")
    with postgres_server(*LAZY) as server, pytest.raises((AssertionError, psycopg.Error)):
        check_interrupted(lambda: postgres_place(server))


NEWER = "(t.generation, t.version) < (excluded.generation, excluded.version)"
LEFT_NEWER = "(l.generation, l.version) < (excluded.generation, excluded.version)"
MUTANTS = {
    "an older row wins": ("_UPSERT", f"WHERE {NEWER}", "", check_repeats),
    "a late leaving wins": (
        "_DELETE", "AND (t.generation, t.version) < (%(generation)s, %(version)s)", "", check_left,
    ),
    "nobody remembers who left": ("_REMEMBER", "NOT EXISTS", "false AND NOT EXISTS", check_left),
    "rows of nodes that left come back": (
        "_LATE", "(l.generation, l.version) >= (%(generation)s, %(version)s)", "false", check_left,
    ),
    "an older leaving is remembered": ("_REMEMBER", f"WHERE {LEFT_NEWER}", "", check_left),
    "deleting forgets": ("_DELETE_BELOW", "version < %(floor)s", "version < %(floor)s - 4", check_below),
    "deleting takes much": ("_DELETE_BELOW", "version < %(floor)s", "version <= %(floor)s", check_below),
    "nobody remembers the floor": ("_DELETE_BELOW", "FROM gone", "FROM gone WHERE false", check_below),
    "a row of an older generation stays": ("_UPSERT", NEWER, "t.version < excluded.version", check_refit),
    "what left in an older generation hides rows": (
        "_LATE", "(l.generation, l.version) >= (%(generation)s, %(version)s)", "l.version >= %(version)s",
        check_refit,
    ),
    "a leaving ends no row of an older generation": (
        "_DELETE", "(t.generation, t.version) < (%(generation)s, %(version)s)", "t.version < %(version)s",
        check_refit,
    ),
    "deleting looks at versions alone": ("_DELETE_OTHERS", "IS DISTINCT FROM %(epoch)s", "= ''", check_refit),
    "the position is not kept": ("_ADVANCE", "WHERE (h.gen", "WHERE false AND (h.gen", check_stale_writer),
    "an older position is kept": (
        "_ADVANCE", "WHERE (h.generation, h.version) < (excluded.generation, excluded.version)", "",
        check_late_positions,
    ),
    "the chain is not kept": (
        "_ADVANCE", "%(version)s, %(chain)s)", "%(version)s, left(%(chain)s, 0))", check_restored_copy,
    ),
    "rows do not say their chain": ("_UPSERT", "%(chain)s FROM", "%(epoch)s FROM", check_refit),
}  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutant_would_be_noticed(server, monkeypatch, mutant):
    statement, right, wrong, check = MUTANTS[mutant]
    text = getattr(sink_module, statement)
    assert right in text
    monkeypatch.setattr(sink_module, statement, text.replace(right, wrong))
    with pytest.raises(AssertionError):
        check(lambda: postgres_place(server))


@pytest.mark.parametrize("check", [check_stale_writer, check_equal_generation, check_restored_copy])
def test_a_table_without_a_fence_would_be_noticed(server, monkeypatch, check):
    monkeypatch.setattr(sink_module, "admit", lambda held, ours, name: None)
    with pytest.raises(AssertionError, match="was not refused with OtherHistory"):
        check(lambda: postgres_place(server))


def test_a_late_write_does_not_take_the_position_back(server):
    check_late_positions(lambda: postgres_place(server))


def test_rounded_vectors_would_be_noticed(server, monkeypatch):
    monkeypatch.setattr(
        sink_module, "as_payloads", lambda vectors: as_payloads(np.float16(np.clip(vectors, -6e4, 6e4)))
    )
    with pytest.raises(AssertionError, match="bit for bit"):
        check_rows_arrive(lambda: postgres_place(server))
