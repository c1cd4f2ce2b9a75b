"""Folders that somebody spoilt: refused by name, as they were, or sound; never a crash, and little memory."""

import json
import subprocess
import sys

import pytest

from dygcn.engine.models import folder as folders
from tests.attacks.spoilt_folders import Spoiler
from tests.live.crashing import many_folders
from tests.seeded import ROOT


def spoil(seed, count):
    """Spoil so many folders in a process of its own; return how that ended, by the way."""
    command = [sys.executable, "-m", "tests.attacks.spoilt_folders", str(seed), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=900)
    assert done.returncode == 0, done.stderr[-2_000:]
    return json.loads(done.stdout)


def test_a_spoilt_folder_is_refused_or_does_no_harm():
    """Else: a folder of a stranger ends the process, takes its memory, or gives wrong vectors unnoticed."""
    rows = spoil(seed=1, count=250)
    ways = {way for way, _, _ in rows}
    assert {way for way, end, _ in rows if end == "refused"} == ways
    assert len(ways) == 7


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_thousands_of_spoilt_folders_are_refused_or_do_no_harm(seed):
    spoil(100 + seed, 2_000)


def test_checksums_that_nobody_compares_would_be_noticed(monkeypatch):
    monkeypatch.setattr(folders, "_checksum", lambda manifest: manifest.checksum)
    monkeypatch.setattr(folders.FileEntry, "__eq__", lambda self, other: True)
    with many_folders() as new_folder:
        spoiler = Spoiler(new_folder(), 1)
        spoiler.ways = (spoiler.flip,)
        with pytest.raises(AssertionError, match="nobody noticed"):
            spoiler.run(200)
