"""Counts of shards: what the model predicts, and the digest of one process."""

import msgspec

from dygcn.engine.events import read_events
from dygcn_lab.costs import shards, shards_large


def test_rows_are_those_of_one_process_and_of_mirrors(monkeypatch):
    """As long as all messages are pushed; those of hubs are not, and then there are fewer rows."""
    monkeypatch.setenv("DYGCN_HEAVY_FROM", "inf")
    (line,) = shards.measure_flat([2_000], shards=3)["rows"]
    assert line["digest_of_one_process"]
    assert line["events"] == 20_000
    assert line["rows_a_shard"] == line["predicted_rows_a_shard"]
    assert line["mirrors_a_node"] > 1
    monkeypatch.setenv("DYGCN_HEAVY_FROM", "8")
    (pulled,) = shards.measure_flat([2_000], shards=3)["rows"]
    assert pulled["digest_of_one_process"]
    assert pulled["rows_a_shard"] < line["rows_a_shard"]


def test_the_last_events_of_a_case_are_counted():
    case = shards.Case("steady-500-2k", batch=200, counted=0.5, compared=2)
    result = shards.measure_case(case, [1, 2])
    assert [line["digest_of_one_process"] for line in result["rows"]] == [True, True]
    assert (result["batches"], result["digests_compared"], result["rows"][0]["events"]) == (5, 3, 1_000)
    assert result["rows"][0]["messages_an_event"] == 0 < result["rows"][1]["bytes_an_event"]


def test_time_steps_are_batches():
    events = read_events([(1, 2, 0.0, 1), (1, 3, 0.0, 1), (1, 2, 1.0, -1)])
    assert [len(batch) for batch in shards.batches_of(events, None)] == [2, 1]


def test_processes_hold_every_arc_at_both_owners(tmp_path):
    out = tmp_path / "large.json"
    size = ["--nodes", "2000", "--edges", "10000", "--shards", "2", "--width", "8", "--batches", "2"]
    shards_large.main([*size, "--folder", str(tmp_path), "--out", str(out)], standalone_mode=False)
    found = msgspec.json.decode(out.read_bytes())
    counts = found["counts"]
    assert found["nodes"] == counts["own"]
    assert counts["arcs of own"] == 2 * (counts["edges"] - counts["arcs of mirrors"] // 2)
    assert len(found["processes"]) == 2
    assert found["held"] == sum(found["parts"]["bytes"].values()) > 0
