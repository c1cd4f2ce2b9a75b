"""The committed results of `dygcn bench`: what a measurement has to have, and what the page shows."""

import copy
from pathlib import Path

from dygcn_lab.costs.results import read_results

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "results" / "costs").glob("*.json"))
PUBLISHED = read_results(FILES)


def published():
    """Return results that a test may change."""
    return copy.deepcopy(PUBLISHED)
