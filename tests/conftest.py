"""Data sets for the tests: next to the repository, or wherever DYGCN_DATA says."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("patient", settings.default, deadline=None)  # no test fails on wall-clock time
settings.load_profile("patient")
DATA = Path(os.environ.get("DYGCN_DATA", Path(__file__).parents[2] / "shared" / "data"))
if DATA.is_dir():
    os.environ["DYGCN_DATA"] = str(DATA)


@pytest.fixture(scope="session")
def data() -> Path:
    if not DATA.is_dir():
        pytest.skip("no data sets here; set DYGCN_DATA to their folder")
    return DATA
