"""A refusal is of the same class wherever it is raised: here, in a durable folder, or by a shard."""

import inspect
import logging
from concurrent.futures import Future

import pytest

import dygcn
from dygcn import cluster, errors
from dygcn.cluster import shard_process, wire
from dygcn.cluster.flight import Post
from dygcn.cluster.queries import OutcomeQuery
from dygcn.cluster.wire import pack_error, unpack_error
from dygcn.errors import CapacityError, ClusterError, DygcnError
from tests.cluster.test_flight import of_cluster

_ARGUMENTS = {
    "EventError": ("a bad row", 7),
    "CapacityError": ("x" * 1_000, 3),
    "UnknownNode": ("ann", "; did you mean anna?"),
    "SequenceGap": ("http:me", 4, 9),
}
TREE = {name: one for name, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, DygcnError)}


def example(name):
    """Return an error with all that it can hold."""
    error = TREE[name](*_ARGUMENTS.get(name, (f"a reason for {name}",)))
    if isinstance(error, errors.ServiceError):
        return TREE[name]("a reason", type="bad-option", status=400, request_id="r1", expected=3)
    return error


def same(one, other):
    return (type(one), str(one), one.args, vars(one)) == (type(other), str(other), other.args, vars(other))


@pytest.fixture
def raised_there():
    """Return a function that has another process raise an error, and returns what comes of it here."""
    there = {}

    def reply(query):
        raise there["error"]

    posts = [Post(number, of_cluster("ours"), lambda message: None, reply) for number in (0, 1)]

    def ask(error):
        there["error"] = error
        with pytest.raises(DygcnError) as got:
            posts[0].query(posts[1].location, OutcomeQuery(1))
        return got.value

    yield ask
    for post in posts:
        post.close()


def test_every_class_comes_over_the_wire(raised_there):
    for name in TREE:
        assert same(raised_there(example(name)), example(name)), name


def test_a_class_that_is_left_out_would_be_noticed(raised_there, monkeypatch):
    monkeypatch.delitem(wire.CLASSES, "CapacityError")
    with pytest.raises(AssertionError, match="CapacityError"):
        test_every_class_comes_over_the_wire(raised_there)


def test_any_id_and_number_comes_over_the_wire():
    for node in (2**63, -(2**70), "\ud800", ("a", "b"), True, 1.5, None):
        assert isinstance(unpack_error(pack_error(errors.UnknownNode(node))), errors.UnknownNode)


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x93\x01\x90\x80", pack_error(ClusterError("x"))[:-1]])
def test_bytes_that_are_no_refusal_are_one_of_the_cluster(body):
    assert "cannot be read" in str(unpack_error(body))


def test_a_class_of_nobody_is_an_error_of_the_cluster():
    class Other(DygcnError):
        pass

    again = unpack_error(pack_error(Other("of a later version")))
    assert (type(again), str(again)) == (ClusterError, "Other: of a later version")


@pytest.mark.parametrize(
    ("raised", "kind"), [(CapacityError("too heavy"), CapacityError), (ZeroDivisionError("0"), ClusterError)]
)
def test_a_shard_hands_on_what_a_handler_raised(raised, kind, caplog):
    class Handlers:
        def reply(self, query):
            raise raised

    class Worker:
        number, ready, position = 0, True, 1

    waiting = Future()
    with caplog.at_level(logging.CRITICAL, "dygcn.cluster"):
        assert shard_process._try(OutcomeQuery(1), waiting, Handlers(), Worker())
    assert type(waiting.exception()) is kind


_OFF_GRID = {"src": ["a"], "dst": ["b"], "weight": [1e300]}
_BATCHES = {
    "off the grid, without a time": _OFF_GRID,
    "off the grid": _OFF_GRID | {"t": [1.0]},
    "off the grid, at no time": _OFF_GRID | {"t": [float("nan")]},
    "off the grid, of another kind": _OFF_GRID | {"src": [1], "dst": [2], "t": [1.0]},
    "of another kind, without a time": {"src": [1], "dst": [2]},
    "without a time": {"src": ["a"], "dst": ["b"]},
    "a loop off the grid": _OFF_GRID | {"dst": ["a"]},
}


def test_a_batch_is_refused_alike_by_all(tmp_path):
    """A batch with several faults is refused for the same one, too."""
    one = dygcn.fit({"src": ["a", "b"], "dst": ["b", "c"], "t": [0.0, 1.0]}, dim=4, memory=5.0)
    one.save(tmp_path / "shards")
    one.save(tmp_path / "durable")
    with (
        cluster.launch(tmp_path / "shards", 2, on="here") as shards,
        dygcn.open(tmp_path / "durable") as durable,
    ):
        for fault, batch in _BATCHES.items():
            refused = []
            for each in (one, durable, shards):
                with pytest.raises(DygcnError) as error:
                    each.update(batch)
                refused.append(error.value)
            assert same(refused[0], refused[1]), fault
            assert same(refused[0], refused[2]), fault
