"""A durable embedding, a twin with other batches, and a mirror fed by the feed alone."""

from dygcn_lab.soak.promises.mirror import CHECK


def test_the_promise_holds_and_the_bugs_are_noticed():
    finding = CHECK.run(CHECK.quick, 0)
    assert finding.holds, finding.notes
    assert finding.mutant_caught
    assert finding.figures["restarts"] > 0
