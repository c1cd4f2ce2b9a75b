"""Exceptions at some lines of every changing call; the whole is behind `slow`."""

import pytest

from dygcn_lab.soak.promises.interrupted import CHECK


def test_the_promise_holds_and_the_bugs_are_noticed():
    finding = CHECK.run(CHECK.quick, 0)
    assert finding.holds, finding.notes
    assert finding.mutant_caught
    assert finding.figures["refused, and healed"] > 0
    assert finding.figures["exact afterwards"] > 0


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_every_line():
    finding = CHECK.run(CHECK.full, 0)
    assert finding.holds, finding.notes
