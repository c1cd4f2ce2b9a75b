"""Real servers, one of each for all tests of a process; what a test kills it starts for itself."""

import pytest

from dygcn.errors import MissingExtra
from dygcn_lab.testbed.servers import kafka_mock, nats_server, redis_server


def running(server):
    try:
        with server() as started:
            yield started
    except MissingExtra as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def nats():
    yield from running(nats_server)


@pytest.fixture(scope="session")
def redis():
    yield from running(redis_server)


@pytest.fixture(scope="session")
def kafka():
    yield from running(kafka_mock)
