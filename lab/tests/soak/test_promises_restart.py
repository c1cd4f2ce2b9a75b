"""That a restart is whole; how soon it answers is for quiet machines (`python -m dygcn_lab.soak.run`)."""

from dygcn_lab.soak.promises.restart import CHECK


def test_a_restart_is_whole():
    finding = CHECK.run(CHECK.quick, 0)
    assert finding.bad == 0, finding.figures
    assert len(finding.figures["seconds"]) == 3
