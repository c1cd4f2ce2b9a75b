"""Link prediction on real data, against floors that were set before the rule was written."""

import numpy as np
import pytest

from dygcn_lab.experiments.cells import Cell
from dygcn_lab.experiments.groups import run_cell

FLOORS = {
    "college-msg": 0.955,
    "fb100-amherst41": 0.94,
    "as-733": 0.965,
    "hepth-collab": 0.994,
    "as-caida": 0.987,
}


def means(record):
    return {
        name: np.mean([value for value in series if value is not None])
        for name, series in record.figures.items()
    }


def check(name):
    records = run_cell(Cell(name, "ours", 0), quiet)
    found = {record: means(figures) for record, figures in records.items()}
    exact, still, fixed = (found[record] for record in ("exact", "do-nothing", "fixed-weights"))
    for by in ("cosine", "score"):
        figure = f"{by}.auc.all.uniform"
        assert exact[figure] >= FLOORS[name], (by, exact)
        assert exact[figure] > max(still[figure], fixed[figure]), (by, found)
    new = "auc.new-warm.uniform"
    assert exact[f"score.{new}"] > max(exact[f"cosine.{new}"], still[f"cosine.{new}"], fixed[f"cosine.{new}"])


def quiet(done, total, what):
    pass


def test_the_smallest(data):
    check("college-msg")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(FLOORS) - {"college-msg"}))
def test_the_others(data, name):
    check(name)
