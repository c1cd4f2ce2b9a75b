"""A range of simulated clusters: counted, and whatever is wrong is named."""

import msgspec

from dygcn_lab.soak import simulate
from dygcn_lab.testbed.simulated_cluster import SimulatedCluster


def test_seeds_are_run_and_counted(tmp_path, capsys):
    out = tmp_path / "seeds.jsonl"
    assert simulate.main(["3", "6", "--out", str(out), "--every", "2"]) == 0
    line = msgspec.json.decode(out.read_text())
    assert (line["first"], line["end"], line["runs"], line["wrong"]) == (3, 6, 3, {})
    assert line["reads"] > 0
    assert capsys.readouterr().out.count("seed ") == 1


def test_a_run_that_ends_wrong_is_named(monkeypatch, capsys):
    def broken(self):
        raise ArithmeticError("seeded")

    monkeypatch.setattr(SimulatedCluster, "run", broken)
    assert simulate.main(["0", "2"]) == 1
    assert "ArithmeticError: seeded" in capsys.readouterr().out
