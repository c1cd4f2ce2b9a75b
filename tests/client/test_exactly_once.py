"""Whatever the network does, events under a name are applied once, and nameless ones never twice."""

import asyncio
import os
import shutil
from contextlib import suppress
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

import dygcn
from dygcn.client import AsyncClient, Client, sending
from dygcn.client.retry import Retry
from dygcn.client.sending import Sender
from dygcn.errors import OptionError, SequenceGap, ServiceError, UnknownOutcome, Unreachable
from dygcn_lab.testbed.seeding import seeded
from tests.client.flaky import FATES, FlakyNetwork, flaky

URL = "http://localhost"
events = st.lists(
    st.tuples(st.integers(1, 6), st.integers(1, 6), st.sampled_from([1, -1])), min_size=1, max_size=5
)
batches = st.lists(events, min_size=1, max_size=5)
fates = st.lists(st.sampled_from(FATES), max_size=14)
often = settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
COLUMNS = ("src", "dst", "op")


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch):
    monkeypatch.setattr("dygcn.client.retry._FIRST_PAUSE", 1e-3)
    monkeypatch.setattr("dygcn.client.retry._LONGEST_PAUSE", 1e-3)
    monkeypatch.setattr("dygcn.client.sending.PART", 3)


@pytest.fixture
def fresh(folder, tmp_path):
    """Return a function that copies a folder with a graph."""
    first, made = folder(), []

    def copy():
        made.append(tmp_path / f"copy-{len(made)}")
        return shutil.copytree(first, made[-1])

    return copy


def perfect(path, wanted):
    live = dygcn.load(path)
    for batch in wanted:
        live.update(batch, columns=COLUMNS)
    return live


def check(network, path, wanted):
    """Check that a service holds what a perfect run would."""
    live, expected = network.service.live, perfect(path, wanted)
    assert live.streams == {"http:shop": sum(map(len, wanted)) - 1}
    assert live.sequence == sum(-(-len(batch) // 3) for batch in wanted)  # each part is logged once
    assert live.digest() == expected.digest()


def run_named(path, wanted, ahead):
    with flaky(shutil.copytree(path, f"{path}-served"), ahead) as (network, transport):
        with Client(URL, name="shop", transport=transport) as client:
            for batch in wanted:
                sent = client.update(batch, columns=COLUMNS)
                assert sent.applied + sent.repeated == len(batch)
            assert client.position() == sum(map(len, wanted))
        check(network, path, wanted)


@often
@given(wanted=batches, ahead=fates)
def test_named_events_are_applied_once(fresh, wanted, ahead):
    run_named(fresh(), wanted, ahead)


@often
@given(wanted=batches, ahead=fates)
def test_named_events_of_an_async_client_are_applied_once(fresh, wanted, ahead):
    path = fresh()

    async def run():
        network = FlakyNetwork(shutil.copytree(path, f"{path}-served"), ahead)
        await network.begin()
        async with AsyncClient(URL, name="shop", transport=network) as client:
            for batch in wanted:
                await client.update(batch, columns=COLUMNS)
        check(network, path, wanted)
        await network.end()

    asyncio.run(run())


def run_impatient(path, wanted, ahead):
    """Send each batch until it arrived, with a client that gives up at once."""
    with flaky(shutil.copytree(path, f"{path}-served"), ahead) as (network, transport):
        with Client(URL, name="shop", transport=transport, timeout=1e-4) as client:
            for batch in wanted:
                for _ in range(len(ahead) + 2):
                    with suppress(Unreachable):
                        client.update(batch, columns=COLUMNS)
                        break
        check(network, path, wanted)


lossy = st.lists(st.sampled_from(FATES[:5]), max_size=10)


@often
@given(wanted=batches, ahead=lossy)
def test_a_call_that_failed_may_be_made_again(fresh, wanted, ahead):
    run_impatient(fresh(), wanted, ahead)


def run_nameless(path, wanted, ahead):
    with flaky(path, ahead) as (network, transport):
        with Client(URL, transport=transport) as client:
            unknown = 0
            for batch in wanted:
                try:
                    client.update(batch, columns=COLUMNS)
                except ServiceError:  # also where a proxy said 503, and no more
                    unknown += 1
        parts = sum(-(-len(batch) // 3) for batch in wanted)
        assert network.service.live.sequence <= parts
        assert unknown or network.service.live.sequence == parts


@often
@given(wanted=batches, ahead=fates)
def test_nameless_events_are_never_applied_twice(fresh, wanted, ahead):
    run_nameless(fresh(), wanted, ahead)


# ---- bugs that these would notice --------------------------------------------------------------------------

WANTED = [[(1, 7, 1), (7, 8, 1)], [(1, 7, -1)]]


def test_a_retry_with_a_new_number_would_be_noticed(fresh):
    right = Retry.request

    def wrong(self, request, **options):
        """Ask where the service is after a break, and send what may have arrived under the next number."""
        while True:
            try:
                return (yield from right(self, request, **{**options, "idempotent": False}))
            except UnknownOutcome:
                number = yield from Sender(self, "shop").position()
                query = dict(request.query) | {"sequence": str(number)}
                request = replace(request, query=tuple(query.items()))

    ahead = ["arrives", "answer lost"]
    run_named(fresh(), WANTED, ahead)
    with seeded(Retry, "request", wrong), pytest.raises(OptionError, match="another sender"):
        run_named(fresh(), WANTED, ahead)


def test_a_retry_without_a_name_would_be_noticed(fresh):
    right = Retry.request
    ahead = ["answer lost"]
    run_nameless(fresh(), WANTED, ahead)
    with (
        seeded(Retry, "request", lambda self, request, **_: right(self, request)),
        pytest.raises(AssertionError),
    ):
        run_nameless(fresh(), WANTED, ahead)


def test_a_client_that_forgets_what_failed_would_be_noticed(fresh):
    ahead = ["arrives", "answer lost"]
    run_impatient(fresh(), WANTED, ahead)
    with seeded(sending, "fingerprint", lambda batch: os.urandom(8)), pytest.raises(AssertionError):
        run_impatient(fresh(), WANTED, ahead)


# ---- others under the same name, and services that forgot --------------------------------------------------


def test_two_senders_of_one_name_are_noticed(fresh):
    with flaky(fresh(), []) as (_, transport):
        one, other = (Client(URL, name="shop", transport=transport) for _ in range(2))
        one.update(add=[(1, 2)])
        other.update(add=[(1, 3)])
        with pytest.raises(OptionError, match="another sender"):
            one.update(add=[(1, 4)])
        one.update(add=[(1, 5)])  # one is told where the service is, the other is not
        with pytest.raises(OptionError, match="another sender"):
            other.update(add=[(2, 7), (2, 8), (2, 9)])  # the first of which is taken for a repeat


def test_nameless_events_that_may_have_arrived_are_not_sent_again(fresh):
    with flaky(fresh(), ["no connection", "answer lost"]) as (network, transport):
        client = Client(URL, transport=transport)
        with pytest.raises(UnknownOutcome, match=r"not known whether .*name="):
            client.update(add=[(1, 9)])
        assert network.service.live.sequence == 1


def test_a_forgotten_client_goes_on(fresh):
    with flaky(fresh(), []) as (network, transport):
        client = Client(URL, name="shop", transport=transport)
        client.update(add=[(1, 2), (2, 3)])
        network.service.live._forget_stream("http:shop")
        assert client.update(add=[(1, 9)]).applied == 1
        network.service.live._forget_stream("http:shop")
        assert Client(URL, name="shop", transport=transport).position() == 3
        assert client.update(add=[(1, 10)]).applied == 1
        assert network.service.live.streams == {"http:shop": 3}


def test_a_client_that_was_forgotten_while_its_answer_was_lost(fresh):
    with flaky(fresh(), ["arrives", "answer lost"]) as (network, transport):
        client = Client(URL, name="shop", transport=transport, timeout=1e-4)
        with pytest.raises(Unreachable):
            client.update(add=[(1, 9)])
        network.service.live._forget_stream("http:shop")
        sent = client.update(add=[(1, 9)])
        assert (sent.repeated, sent.sequence) == (1, network.service.live.sequence)
        assert client.update(add=[(1, 10)]).applied == 1


def test_a_service_that_lost_events_is_noticed(fresh):
    with flaky(fresh(), []) as (_, transport):
        client = Client(URL, name="shop", transport=transport)
        client.update(add=[(1, 2), (2, 3)])
        with flaky(fresh(), []) as (network, restored):
            client._http._transport = restored
            with pytest.raises(SequenceGap) as caught:
                client.update(add=[(1, 9)])
            assert caught.value.expected == 0
            assert client.update(add=[(1, 2), (2, 3), (1, 9)]).applied == 3  # from there on
            assert network.service.live.streams == {"http:shop": 2}


def test_other_events_after_a_failed_call_have_numbers_of_their_own(fresh):
    with flaky(fresh(), ["arrives", "answer lost", "arrives", "request lost"]) as (network, transport):
        client = Client(URL, name="shop", transport=transport, timeout=1e-4)
        with pytest.raises(Unreachable):
            client.update(add=[(1, 9)])
        with pytest.raises(Unreachable):
            client.update(add=[(1, 10)])
        assert client.update(add=[(1, 11)]).applied == 1
        live = network.service.live
        assert (9 in live, 10 in live, 11 in live) == (True, False, True)


def test_a_call_that_was_cancelled_may_be_made_again(fresh):
    class Hanging(FlakyNetwork):
        async def handle_async_request(self, request):
            hangs = next(self.fates, "arrives") == "hangs"
            response = await self._deliver(request)
            if hangs:
                await asyncio.Event().wait()
            return response

    async def run():
        network = Hanging(fresh(), ["arrives", "hangs"])
        await network.begin()
        async with AsyncClient(URL, name="shop", transport=network) as client:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.update(add=[(1, 9)]), 1.0)
            sent = await client.update(add=[(1, 9)])
            assert (sent.repeated, sent.applied) == (1, 0)
            both = await asyncio.gather(*(client.update(add=[(2, i)]) for i in (10, 11)))
            assert [one.applied for one in both] == [1, 1]
        assert network.service.live.streams == {"http:shop": 2}
        await network.end()

    asyncio.run(run())


def test_changes_go_on_after_breaks(fresh):
    ahead = ["arrives", "answer lost", "request lost", "arrives", "answer lost", "restart", "busy"]
    with flaky(fresh(), ahead) as (network, transport), Client(URL, transport=transport) as client:
        copy = {}
        for page in client.changes(wait=None, limit=2):
            if page.reset:
                copy.clear()
            copy |= {one.id: one.vector for one in page.moved}
        live = network.service.live
        assert sorted(copy) == [1, 2, 3, 4, 5]
        assert all((copy[one] == live.vector(one)).all() for one in copy)
