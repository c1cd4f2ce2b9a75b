"""What a crash costs, in counts."""

import dygcn
from dygcn_lab.costs.restart import measure_restart


def test_a_crash_is_measured(tmp_path):
    dygcn.fit([(i, (7 * i + 1) % 300) for i in range(300)], dim=8, features="hashed").save(tmp_path / "x")
    found = measure_restart(tmp_path / "x", batches=12, events=3, behind=2)
    assert found["rows"] == found["moved"] > 0
    assert not found["reset"]
