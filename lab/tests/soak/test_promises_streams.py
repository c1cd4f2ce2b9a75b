"""In small: one kill on every way in. In full: `python -m dygcn_lab.soak.run --only streams`."""

from dygcn_lab.soak.promises.streams import CHECK


def test_every_way_in_leads_to_one_digest_and_the_same_rows():
    finding = CHECK.run(CHECK.quick, 0)
    assert finding.holds, finding.figures
    assert finding.bad == 0
    assert finding.mutant_caught
