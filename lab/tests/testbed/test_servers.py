"""Servers of tests: on loopback only, killed and started at will, gone at the end."""

import os
import socket
import sys

import pytest

from dygcn.errors import MissingExtra
from dygcn_lab.testbed.servers import (
    LOOPBACK,
    ServerFailed,
    find_program,
    free_port,
    kafka_mock,
    nats_server,
    redis_server,
    running,
)


def listens(port, host=LOOPBACK):
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def ask_redis(server, line):
    with socket.create_connection((server.host, server.port), timeout=5) as connection:
        connection.sendall(line + b"\r\n")
        return connection.recv(1000)


def listening_sockets(pid):
    """Addresses on which a process listens, as the kernel says."""
    inodes = set()
    for entry in os.listdir(f"/proc/{pid}/fd"):
        try:
            inodes.add(os.readlink(f"/proc/{pid}/fd/{entry}"))
        except OSError:
            continue
    found = []
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}") as lines:
            for line in list(lines)[1:]:
                fields = line.split()
                if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                    found.append(fields[1].partition(":")[0])
    return found


@pytest.mark.parametrize("run", [nats_server, redis_server])
def test_a_server_lives_on_loopback_and_only_as_long_as_it_is_needed(run):
    with run() as server:
        assert listens(server.port)
        assert server.url.endswith(f"://127.0.0.1:{server.port}")
        if os.path.isdir("/proc/self/fd"):
            assert set(listening_sockets(server.pid)) == {"0100007F"}
        folder, pid = server.folder, server.pid
    assert not listens(server.port)
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_what_redis_acknowledged_is_there_after_a_restart(how):
    with redis_server() as server:
        assert ask_redis(server, b"SET a 1") == b"+OK\r\n"
        port, pid = server.port, server.pid
        getattr(server, how)()
        assert server.pid is None
        assert not listens(port)
        server.start()
        assert (server.port, server.pid != pid) == (port, True)
        assert ask_redis(server, b"GET a") == b"$1\r\n1\r\n"
        server.restart()
        assert ask_redis(server, b"GET a") == b"$1\r\n1\r\n"


def test_starting_and_ending_twice():
    with redis_server() as server:
        pid = server.pid
        server.start()
        assert server.pid == pid
        server.kill()
        server.kill()
        server.stop()


def test_a_server_ends_with_an_error_in_the_test():
    server = None
    try:
        with nats_server() as server:
            pid = server.pid
            raise ZeroDivisionError
    except ZeroDivisionError:
        assert server.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_options_reach_the_server():
    with redis_server("--requirepass", "x") as server:
        assert ask_redis(server, b"PING").startswith(b"-NOAUTH")
        assert ask_redis(server, b"AUTH x") == b"+OK\r\n"


def test_a_server_that_does_not_start_says_why():
    with (
        pytest.raises(ServerFailed, match=r"(?s)did not start.*no-such-option"),
        nats_server("--no-such-option"),
    ):
        pass


def test_a_port_that_is_taken_is_given_up_for_another(monkeypatch):
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        taken.listen()
        ports = iter([taken.getsockname()[1], free_port()])
        monkeypatch.setattr("dygcn_lab.testbed.servers.free_port", lambda: next(ports))
        with redis_server() as server:
            assert ask_redis(server, b"PING") == b"+PONG\r\n"


def test_a_program_that_is_missing():
    with pytest.raises(MissingExtra, match="no-such-server is not installed"):
        find_program("no-such-server")


def test_any_command_can_be_run():
    code = """
import socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    while True:
        server.accept()[0].send(b"hi")
"""

    def command(port, folder):
        return [sys.executable, "-c", code, str(port)]

    with running(command, (b"", b"hi"), "hello") as server:
        assert server.url == f"hello://127.0.0.1:{server.port}"


def test_the_cluster_of_kafka_ends_when_it_is_told():
    with kafka_mock(brokers=2) as cluster:
        addresses = [address.rpartition(":") for address in cluster.servers.split(",")]
        assert {host for host, _, _ in addresses} == {LOOPBACK}
        ports = [int(port) for _, _, port in addresses]
        assert len(ports) == 2
        assert all(map(listens, ports))
        cluster.kill()
        assert not any(map(listens, ports))
