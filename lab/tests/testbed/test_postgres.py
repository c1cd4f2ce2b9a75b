"""PostgreSQL for tests: reachable, alone, gone at the end."""

import os
from pathlib import Path

import psycopg
import pytest

from dygcn.errors import MissingExtra
from dygcn_lab.testbed import postgres
from dygcn_lab.testbed.postgres import PostgresFailed, PostgresServer, postgres_server


@pytest.fixture(scope="module")
def server():
    with postgres_server("-c", "work_mem=5MB") as running:
        yield running


def ask(server, query):
    with psycopg.connect(server.url, autocommit=True) as connection:
        answer = connection.execute(query)
        return answer.fetchall() if answer.description else None


def test_it_listens_on_no_port(server):
    assert ask(server, "SHOW listen_addresses") == [("",)]
    assert ask(server, "SHOW unix_socket_directories") == [(str(server.folder),)]


def test_it_does_not_run_as_root(server):
    [(pid,)] = ask(server, "SELECT pg_backend_pid()")
    assert pid > 0
    assert server.data.stat().st_uid != 0


def test_options_reach_it(server):
    assert ask(server, "SHOW work_mem") == [("5MB",)]


def test_pgvector_is_at_hand(server):
    ask(server, "CREATE EXTENSION IF NOT EXISTS vector")
    assert ask(server, "SELECT '[1,2]'::vector <-> '[1,4]'") == [(2.0,)]


@pytest.mark.parametrize("end", ["restart", "stop", "kill"])
def test_data_survives(server, end):
    ask(server, f"CREATE TABLE kept_{end} AS SELECT 7 AS number")
    getattr(server, end)()
    server.start()
    server.start()
    assert ask(server, f"SELECT number FROM kept_{end}") == [(7,)]


def test_what_is_only_in_memory_is_lost():
    lazy = ("-c", "synchronous_commit=off", "-c", "wal_writer_delay=10s", "-c", "wal_writer_flush_after=1GB")
    with postgres_server(*lazy) as server:
        ask(server, "CREATE TABLE numbers (number int)")
        ask(server, "CHECKPOINT")
        ask(server, "INSERT INTO numbers VALUES (1)")
        server.restart()
        assert ask(server, "SELECT * FROM numbers") == []


def test_nothing_stays_behind():
    with postgres_server() as server:
        folder, pid = server.folder, server._process.pid
        assert folder.is_dir()
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_failed_start_says_why():
    with (
        pytest.raises(PostgresFailed, match="unrecognized configuration parameter"),
        postgres_server("-c", "odd=1"),
    ):
        pass


def test_a_folder_that_holds_something_else(tmp_path):
    (tmp_path / "data").mkdir()
    with pytest.raises(PostgresFailed):
        PostgresServer(tmp_path).start()


def test_a_missing_package_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(postgres, "_PACKAGE", "no_such_package")
    with pytest.raises(MissingExtra, match=r'pip install "dygcn\[dev\]"'):
        PostgresServer(tmp_path)
    (tmp_path / "a_hollow_package").mkdir()
    (tmp_path / "a_hollow_package" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(postgres, "_PACKAGE", "a_hollow_package")
    with pytest.raises(MissingExtra, match="carries no PostgreSQL"):
        postgres.postgres_programs()


def test_programs_are_found():
    assert {"postgres", "initdb"} <= {path.name for path in Path(postgres.postgres_programs()).iterdir()}
