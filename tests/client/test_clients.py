"""Both clients against a service that answers over a socket."""

import asyncio
import inspect

import msgspec
import numpy as np
import pytest

from dygcn.client import AsyncClient, Client
from dygcn.client.clients import TOKEN
from dygcn.errors import EventError, OptionError, ServiceError, UnknownNode
from dygcn.serving.service.auth import new_token
from dygcn_lab.testbed.served import served_process

CALLS = {
    "vector": ("ann",),
    "vectors": (["ann", "nobody", "bob"],),
    "nearest": ("ann", 3),
    "nearest vector": ([1.0] * 8, 2),
    "nearest ids": (["ann", "nobody"], 2),
    "recommend": ("ann", 2),
    "score": ("ann", ["cat", "nobody"]),
    "neighbors": ("ann",),
    "explain": ("ann",),
    "status": (),
    "ready": (),
    "page": (),
    "dead_letters": (),
}


def plain(answer):
    """Return an answer in a form that can be compared."""
    found = msgspec.to_builtins(answer, enc_hook=lambda value: value.tolist())
    if isinstance(found, dict):
        found = {name: value for name, value in found.items() if name not in ("uptime", "traffic", "queue")}
    return repr(found)


@pytest.fixture
def client(serve):
    with Client(serve("string").address) as client:
        yield client


def test_a_client_and_an_async_client_give_the_same_answers(serve):
    address = serve("string").address

    async def ask():
        async with AsyncClient(address) as client:
            first = {name: await getattr(client, name.split()[0])(*args) for name, args in CALLS.items()}
            return first, [page async for page in client.changes(wait=None, limit=2)]

    with Client(address) as client:
        expected = {name: getattr(client, name.split()[0])(*args) for name, args in CALLS.items()}
        pages = list(client.changes(wait=None, limit=2))
    found, found_pages = asyncio.run(ask())
    assert {name: plain(one) for name, one in found.items()} == {
        name: plain(one) for name, one in expected.items()
    }
    assert len(pages) > 1
    assert list(map(plain, found_pages)) == list(map(plain, pages))


def test_both_clients_have_the_same_methods():
    def methods(kind):
        return {
            name: str(inspect.signature(method))
            for name, method in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_") and name != "changes"
        }

    assert methods(Client) == methods(AsyncClient)
    assert "-> 'answers.Sent'" in methods(Client)["update"]


def test_answers_are_those_of_the_embedding(client, serve):
    served = serve("string")
    live = served.service.live
    with Client(served.address) as client:
        many = client.vectors(np.array(["ann", "nobody", "eve"], object))
        assert (many.ids, many.missing, many.sequence) == (["ann", "eve"], ["nobody"], live.sequence)
        np.testing.assert_array_equal(many.vectors, live.vectors(["ann", "eve"]))
        one = client.vector("ann")
        np.testing.assert_array_equal(one.vector, live.vector("ann"))
        assert (one.vector.dtype, many.vectors.dtype) == (np.float32, np.float32)
        near = [(node.id, pytest.approx(node.score)) for node in client.nearest("ann", 2).nodes]
        assert near == live.nearest("ann", 2)
        found = client.score("ann", ["cat", "nobody"])
        assert found.scores[0] == pytest.approx(live.score("ann", "cat"))
        assert np.isnan(found.scores[1])
        assert client.neighbors("ann").neighbors == ["bob", "eve"]
        trial = client.what_if(add=[("ann", "zoe")], vectors=["zoe", "nobody"], nearest=["ann"])
        assert trial.vectors[0].dtype == np.float32
        assert trial.vectors[1] is None
        assert client.explain_change("ann", add=[("ann", "zoe")]).distance > 0
        assert "zoe" not in live
        assert client.vector("ann", as_of=0).digest


def test_events_are_sent_in_parts(client, monkeypatch):
    monkeypatch.setattr("dygcn.client.sending.PART", 3)
    sent = client.update(add=[(f"n{i}", f"n{i + 1}") for i in range(10)])
    assert (sent.applied, sent.dead, sent.repeated) == (10, 0, 0)
    assert client.neighbors("n5").degree == 2
    assert client.update(remove=[("n4", "n5")]).applied == 1
    assert client.neighbors("n5").degree == 1
    assert client.update([]).applied == 0


def test_rows_of_dead_letters_are_those_of_the_call(serve, monkeypatch):
    monkeypatch.setattr("dygcn.client.sending.PART", 2)
    with Client(serve(time_unit="s").address, name="shop") as client:
        sent = client.update({"src": [1, 1, 1], "dst": [2, 3, 4], "t": [1, 2, 10**12]})
        assert ([one.row for one in sent.bad], sent.dead, sent.applied) == ([2], 1, 2)
        assert client.position() == 3
        with pytest.raises(EventError, match="row 1"):
            client.update({"src": [1, 2], "dst": [2, 3], "weight": [1.0, -1.0]})
        with pytest.raises(ServiceError, match="int64"):
            client.update(add=[("a", "b")])
        assert client.update(add=[(1, 2)]).applied == 1


def test_a_node_that_is_unknown_is_the_error_of_the_embedding(client):
    for id in ("nobody", "..", "a/b", "?"):
        with pytest.raises(UnknownNode) as caught:
            client.vector(id)
        assert caught.value.node == id
    client.update(add=[("..", "a/b")])
    assert client.neighbors("..").neighbors == ["a/b"]


def test_other_problems_say_what_was_wrong_and_which_request(client):
    with pytest.raises(ServiceError, match="allowed is a whole number") as caught:
        client.nearest("ann", 0)
    assert (caught.value.type, caught.value.status) == ("bad-option", 400)
    assert caught.value.request_id


def test_a_token_is_sent_and_never_shown(serve, monkeypatch):
    token, kept = new_token("a", ["read", "write"])
    address = serve(tokens=[kept]).address
    with Client(address) as client, pytest.raises(ServiceError, match="a token is needed"):
        client.status()
    with Client(address, token=token) as client:
        assert client.status().nodes == 5
        with pytest.raises(ServiceError) as caught:
            client.dead_letters()
        assert caught.value.type == "forbidden"
        shown = repr(client) + str(caught.value) + repr(caught.value)
    monkeypatch.setenv(TOKEN, token)
    with Client(address) as client:
        assert client.status().nodes == 5
    assert token not in shown
    for wrong in (
        {"url": f"http://u:{token}@h"},
        {"url": "ftp://h"},
        {"token": token + "\n"},
        {"timeout": 0},
    ):
        with pytest.raises(OptionError) as refused:
            Client(**{"url": address, **wrong})
        assert token not in str(refused.value)


def test_a_service_that_is_not_there_is_not_ready():
    with Client("http://127.0.0.1:9", timeout=0.2) as client:
        assert client.ready(wait=0.3) is False
        with pytest.raises(ServiceError, match="no answer"):
            client.status()
        with pytest.raises(ServiceError, match="no answer"):
            client.update(add=[(1, 2)])


def test_dead_letters_are_replayed_mended_and_discarded(serve, monkeypatch):
    monkeypatch.setattr("dygcn.client.operations._PAGE", 2)
    monkeypatch.setattr("dygcn.client.operations._IN_ADDRESS", 2)
    served = serve()
    bad = [{"src": 1.5, "dst": 2}] * 3 + [{"src": 7, "dst": 8, "weight": -1}] * 2
    served.post(bad, client="a", sequence=0)
    with Client(served.address) as client:
        assert len(client.dead_letters(limit=None).dead_letters) == 5
        assert len(client.dead_letters(limit=3).dead_letters) == 3
        weights = client.dead_letters(reason="weight").dead_letters
        done = client.replay(corrected={weights[0].number: {"src": 7, "dst": 8}})
        assert (done.applied, done.dead, done.missing) == (1, 0, [])
        still = client.replay(stream="http:a")
        assert (still.applied, still.dead) == (0, 4)
        numbers = [one.number for one in client.dead_letters().dead_letters]
        assert client.discard(numbers[:1]).discarded == 1
        assert client.discard(reason="").discarded == 3
        assert client.dead_letters().total == 0
        with pytest.raises(OptionError, match="either numbers"):
            client.replay()


def test_changes_begin_with_a_reset_and_go_on(client):
    copy, last = {}, ""
    for page in client.changes(wait=None, limit=2):
        if page.reset:
            copy.clear()
        copy |= {one.id: one.vector for one in page.moved}
        last = page.next
    assert sorted(copy) == ["ann", "bob", "cat", "dan", "eve"]
    client.update(add=[("eve", "zoe")], remove=[("ann", "bob")])
    follow = client.changes(last, wait=5.0)
    assert "zoe" in [one.id for one in next(follow).moved]
    follow.close()


def test_a_real_process_with_a_reader(folder):
    path = folder()
    with served_process(path, readers=1) as process, Client(process.address, name="shop") as client:
        assert client.ready(wait=60)
        sent = client.update(add=[(1, 100 + i) for i in range(25_000)])
        assert (sent.applied, sent.repeated) == (25_000, 0)
        assert client.position() == 25_000
        found = client.vectors(range(100, 200))
        assert found.vectors.shape == (100, 8)
        assert found.sequence >= sent.sequence
        assert next(client.changes(limit=10)).reset
