"""That the load is measured; how fast it is, is for quiet machines (`python -m dygcn_lab.soak.run`)."""

from dygcn_lab.soak.promises.load import CHECK


def test_a_small_load_is_taken_and_read():
    finding = CHECK.run(CHECK.quick, 0)
    assert finding.bad == 0
    assert finding.figures["reads_a_second"] > 0
    assert finding.figures["bare_a_second"] > 0
    assert finding.figures["sequence"] > 0
