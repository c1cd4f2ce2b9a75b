"""Hostile requests in counts; seconds are for the long run."""

from dygcn_lab.soak.promises.hostile_cost import CHECK


def test_the_promise_holds_and_the_bug_is_noticed():
    finding = CHECK.run(CHECK.quick, 0)
    assert finding.holds, finding.notes
    assert finding.mutant_caught
