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


def judged(name, **settings):
    records = run_cell(Cell(name, "ours", 0, settings), quiet)
    return [means(records[record]) for record in ("exact", "do-nothing", "fixed-weights")]


def check_better(exact, still, fixed, by="cosine"):
    figure, new = f"{by}.auc.all.uniform", "auc.new-warm.uniform"
    assert exact[figure] > max(still[figure], fixed[figure]), (by, exact, still, fixed)
    assert exact[f"score.{new}"] > max(exact[f"cosine.{new}"], still[f"cosine.{new}"], fixed[f"cosine.{new}"])


def quiet(done, total, what):
    pass


def test_some_steps_of_the_smallest(data):
    check_better(*judged("college-msg", quick=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOORS)
def test_all(data, name):
    found = judged(name)
    for by in ("cosine", "score"):
        check_better(*found, by)
        assert found[0][f"{by}.auc.all.uniform"] >= FLOORS[name], (by, found[0])
