"""Several histories in one table of pgvector."""

from dygcn_lab.soak.promises.refit import CHECK


def test_the_promise_holds_and_the_bug_is_noticed():
    finding = CHECK.run(CHECK.quick, 0)
    assert finding.holds, finding.figures
    assert finding.mutant_caught
    assert [one["status"] for one in finding.figures.values()] == ["new", "rewritten", "same", "rewritten"]
