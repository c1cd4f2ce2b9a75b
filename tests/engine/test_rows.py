"""Loops over rows: the same bits at every CPU level, and uncompiled."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dygcn.engine._rows import RowBlock, cpu_level
from dygcn.engine.graph.ids import grown
from dygcn.testing.row_loops import read_rows
from tests.engine.rows_digest import rows_digest

LEVELS = ("avx512", "avx2", "baseline")
DIGEST = [sys.executable, "-m", "tests.engine.rows_digest"]
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("level", LEVELS[LEVELS.index(cpu_level()) :] if cpu_level() in LEVELS else ())
def test_every_level_gives_the_same_bits(level):
    environment = {**os.environ, "DYGCN_CPU": level}
    done = subprocess.run(DIGEST, capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.stdout.strip() == rows_digest(), done.stderr


def test_an_unknown_level_is_refused():
    environment = {**os.environ, "DYGCN_CPU": "mmx"}
    done = subprocess.run(DIGEST, capture_output=True, text=True, env=environment, cwd=ROOT)
    assert cpu_level() == "none" or "allowed are baseline, avx2 and avx512" in done.stderr


@pytest.mark.parametrize(
    "array",
    [np.zeros(4, np.int8), np.zeros((2, 4)), np.zeros((4, 4), np.int32).T[1:], np.zeros((4, 4), np.uint8)],
)
def test_a_block_is_contiguous_and_of_integers(array):
    with pytest.raises(ValueError, match="a block of rows is"):
        RowBlock(array)


def test_a_block_outlives_the_growth_of_its_array():
    """It holds the old array, and not just its address."""
    rows, width = np.full((8, 400), 3, np.int64), 400
    block = RowBlock(rows)
    rows = grown(rows, 20)
    total, units, ones = (
        np.zeros((8, width)),
        np.empty((8, width), np.float32),
        np.empty((8, width), np.float32),
    )
    read_rows(block, np.ones(width), 1e-9, total, units, ones)
    np.testing.assert_allclose(units, 1 / np.sqrt(width), rtol=1e-6)
    assert (block.array == rows[:8]).all()
