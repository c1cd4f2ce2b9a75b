"""Every answer is of one sequence: the check at its small size, and that it can fail."""

import pytest

from dygcn.engine.models.state import State
from dygcn.live.shared import can_share
from dygcn_lab.soak.promises.reads import CHECK
from dygcn_lab.testbed.seeding import small_model

pytestmark = pytest.mark.skipif(not can_share(State(small_model())), reason="needs Linux and compiled loops")


def test_the_promise_holds_and_the_bug_is_noticed():
    finding = CHECK.run(CHECK.quick, 0)
    assert finding.holds, finding.notes
    assert finding.mutant_caught
    assert set(finding.figures) == {
        "batches written",
        *(f"reads, {one}" for one in ("one", "many", "nearest", "scores", "changes")),
    }


@pytest.mark.slow
def test_the_promise_holds_at_full_size():
    finding = CHECK.run(CHECK.full, 1)
    assert finding.holds, finding.notes
