"""Link prediction on the two smallest data sets of the table in benchmarks/link_prediction.py."""

import sys
from pathlib import Path

import pytest

from dygcn.experiments.link_prediction import judge_links

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from link_prediction import ROWS, read_steps


def check(data, name):
    folder, cut, options, asked = ROWS[name]
    result = judge_links(read_steps(data / folder, cut), seed=0, dim=100, **options)
    assert result["learned"] >= asked, result
    assert result["learned"] > result["fixed"], result
    return result


@pytest.mark.parametrize("name", ["college-msg", "fb100-amherst41"])
def test_the_two_smallest(data, name):
    result = check(data, name)
    assert result["learned"] > result["stale"]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(ROWS) - {"college-msg", "fb100-amherst41"}))
def test_the_others(data, name):
    check(data, name)
