"""Who has no certificate of a cluster is refused by its processes, and costs them nothing."""

import os
import socket
import stat
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from pyarrow import flight

from dygcn import cluster
from dygcn.cluster.certificates import NAME, Certificates, given, made_in
from dygcn.cluster.flight import Post
from dygcn.errors import OptionError
from tests.cluster.authority import Authority
from tests.seeded import assert_noticed

_SERVE = """
import sys
from dygcn.cluster.certificates import Certificates
from dygcn.cluster.flight import Post
post = Post(1, Certificates(*sys.argv[1:]).read(), lambda message: None, lambda question: None)
print(post.location, flush=True)
sys.stdin.read()
"""
_SENT = 24 << 20  # bytes of one body
_SPARE = 8 << 20  # that a process may grow by while all strangers come
on_linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")


@contextmanager
def serving(files):
    """Run a process of a cluster; yield its address, and how to ask for the most memory that it ever had."""
    path = os.pathsep.join(one for one in sys.path if one)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-W", "ignore", "-c", _SERVE, *files]
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path}, **pipes) as process:
        try:
            yield process.stdout.readline().strip(), lambda: _peak(process.pid)
        finally:
            process.stdin.close()


def _peak(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def call(location, body=b"", **how):
    """Call a process as Flight lets anyone."""
    client = flight.FlightClient(location, override_hostname=NAME, **how)
    options = flight.FlightCallOptions(timeout=60)
    return list(client.do_action(flight.Action("query", pa.py_buffer(body)), options))


def shown(files):
    """Return how a client shows a certificate."""
    mine = files.read()
    return {"tls_root_certs": mine.ca, "cert_chain": mine.certificate, "private_key": mine.key}


def strangers_cost_nothing():
    """Let strangers of every kind send large bodies, and look at the memory of the process they call."""
    with TemporaryDirectory() as here, TemporaryDirectory() as elsewhere:
        ours, theirs = made_in(Path(here)), made_in(Path(elsewhere))
        trusted = {"tls_root_certs": ours.read().ca}
        with serving(ours) as (location, peak):
            call(location, **shown(ours))
            before, body = peak(), b"\0" * _SENT
            for where, how in (
                (location.replace("grpc+tls", "grpc+tcp"), {}),
                (location, trusted),
                (location, shown(theirs) | trusted),
                (location, {"disable_server_verification": True}),
            ):
                with pytest.raises(flight.FlightError):
                    call(where, body, **how)
            with (
                socket.create_connection(location.rpartition("/")[2].rsplit(":", 1)) as raw,
                suppress(OSError),
            ):
                raw.sendall(body)
            assert peak() - before < _SPARE
            call(location, **shown(ours))


@on_linux
def test_strangers_cost_nothing():
    strangers_cost_nothing()


@on_linux
def test_a_check_behind_the_body_would_be_noticed(tmp_path):
    """A server that asks for no certificate can refuse strangers, too, but has their bodies by then."""
    lines = [
        "super().__init__(location, tls_certificates=shown, verify_client=True, root_certificates=mine.ca)",
        "if (peer := context.peer_identity()) != NAME.encode():",
    ]
    wrong = [lines[0].replace("True", "False"), "if (peer := action.body.size):"]
    assert_noticed(tmp_path, "dygcn.cluster.flight", lines, wrong, strangers_cost_nothing)


def test_a_certificate_of_the_ca_for_something_else_is_refused(tmp_path):
    authority = Authority(tmp_path)
    post = Post(1, authority.files().read(), lambda message: None, lambda question: None)
    try:
        assert call(post.location, **shown(authority.files()))
        with pytest.raises(flight.FlightUnauthenticatedError, match=r"first name .*other"):
            call(post.location, **shown(authority.files("other")))
    finally:
        post.close()


def _mixed(authority, tmp_path):
    return Certificates(authority.files().certificate, authority.files("other").key, authority.files().ca)


def _nonsense(authority, tmp_path):
    (tmp_path / "nonsense").write_text("nonsense")
    return Certificates(*[str(tmp_path / "nonsense")] * 3)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda authority, tmp_path: authority.files("other"),
        lambda authority, tmp_path: authority.files(days=-1),
        lambda authority, tmp_path: authority.files()._replace(ca=made_in(tmp_path).ca),
        lambda authority, tmp_path: authority.files()._replace(key=str(tmp_path / "none")),
        _mixed,
        _nonsense,
    ],
    ids=["name", "expired", "ca", "missing", "mixed", "nonsense"],
)
def test_certificates_that_cannot_work_are_refused_at_the_start(tmp_path, wrong):
    with pytest.raises(OptionError, match="certificate") as refused:
        Post(1, wrong(Authority(tmp_path), tmp_path).read(), lambda message: None, lambda question: None)
    assert "PRIVATE" not in str(refused.value)


def test_a_key_is_of_its_owner_alone_and_is_never_shown(tmp_path):
    files = made_in(tmp_path)
    assert made_in(tmp_path) == files
    assert stat.S_IMODE(os.stat(files.key).st_mode) == 0o600
    assert "PRIVATE KEY" in Path(files.key).read_text()
    only = files.read().key.split(b"-----BEGIN CERTIFICATE")[0].split(b"\n")[1]
    assert only not in repr(files.read()).encode()


def test_certificate_key_and_ca_belong_together(tmp_path):
    assert given((None, None, None)) is None
    assert given(("a", "b", "c")) == tuple(os.path.abspath(name) for name in "abc")
    with pytest.raises(OptionError, match="all three"):
        cluster.launch(tmp_path, on="here", certificate="a", key="b")
