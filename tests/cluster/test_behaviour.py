"""Some of the behaviour suite on shards; ``python -m tests.sharded 4`` runs all of it."""

import pytest

from tests.sharded import main


@pytest.mark.parametrize("shards", [pytest.param("1", marks=pytest.mark.slow), "3"])
def test_an_embedding_on_shards_behaves_as_one_in_one_process(shards, capfd):
    files = [f"tests/live/test_{name}.py" for name in ("digests", "departures", "event_rules")]
    assert main(shards, *files, few=3) == 0, capfd.readouterr().out[-5_000:]


def test_a_shard_that_lies_would_be_noticed(capfd):
    """Every vector asked for is the negative of what it is."""
    assert main("2", "tests/live/test_exact.py", "-x", few=1, bug=True) == 1
