"""The commands, on graphs that take a moment."""

import doctest
import json
import re
import sys
from pathlib import Path

from tests.cli.test_commands import run, run_json

from costs.published import PUBLISHED
from dygcn.live.changed import Announcer
from dygcn_lab.cli.bench import show_result
from dygcn_lab.costs.results import KINDS
from dygcn_lab.costs.start import LINES, NOTHING, README, commands
from dygcn_lab.costs.tables import tables_of
from dygcn_lab.costs.tolerance import TOLERANCES, measure_tolerance


def shown(result, capsys):
    """Return what people see of a result."""
    show_result(result, False)
    return capsys.readouterr().out


TINY = ("--width", 16, "--repeats", 1)


def test_update_measures_every_graph_and_every_size():
    result = run_json(
        "bench", "update", "power-law-300-1k", "rmat-300-1k", *TINY, "--batch", 1, "--batch", 64
    )
    assert result["kind"] == "update"
    found = [(row["graph"], row["events"]) for row in result["batches"]]
    assert found == [(graph, size) for graph in ("power-law-300-1k", "rmat-300-1k") for size in (1, 64)]
    assert [graph["graph"] for graph in result["graphs"]] == ["power-law-300-1k", "rmat-300-1k"]
    for row in result["batches"]:
        assert row["additions_per_event"] >= row["rows_per_event"] >= row["vectors_per_event"] > 0
        assert row["times_bare"] > 0
        assert row["vectors_of_a_rerun"] <= 300
    assert set(result["batches"][0]) == set(PUBLISHED["update"]["batches"][0])
    assert tables_of(result)


def test_update_takes_files_and_prints_for_people(tmp_path):
    rows = "".join(f"p{i % 40},p{(i * 7 + 1) % 61}\n" for i in range(300))
    (tmp_path / "e.csv").write_text("src,dst\n" + rows)
    said = run("bench", "update", tmp_path / "e.csv", *TINY, "--batch", 1, "--batch", 8).stdout
    assert "additions" in said
    assert "load average" in said
    assert "…" not in said
    assert "there is no file" in run("bench", "update", tmp_path / "none.csv", *TINY, code=1).stderr


def test_crossover_is_found_for_each_rival(capsys):
    arguments = ("crossover", "power-law-300-1k", *TINY, "--dim", 8, "--batch", 10)
    result = run_json("bench", *arguments)
    assert set(result) == set(PUBLISHED["crossover"])
    assert set(result["graphs"][0]["rivals"][0]) == set(PUBLISHED["crossover"]["graphs"][0]["rivals"][0])
    assert "recompute in place" in shown(result, capsys)


def test_scale_goes_from_small_to_large(capsys):
    result = run_json("bench", "scale", "--nodes", "2k", "--nodes", 500, *TINY, "--batch", 20)
    assert [row["graph"] for row in result["rows"]] == ["steady-500-5000", "steady-2000-20000"]
    assert result["rows"][0]["peak_bytes"] <= result["rows"][1]["peak_bytes"]
    assert set(result["rows"][0]) == set(PUBLISHED["scale"]["rows"][0])
    assert "peak" in shown(result, capsys)
    assert "'many' is no number" in run("bench", "scale", "--nodes", "many", *TINY, code=2).stderr


def test_memory_is_predicted_and_churn_is_measured():
    result = run_json("bench", "memory", "power-law-2k-10k", "--width", 16, "--churn", "40k")
    assert set(result) == set(PUBLISHED["memory"])
    assert set(result["rows"][0]) == set(PUBLISHED["memory"]["rows"][0])
    assert set(result["churn"]) == set(PUBLISHED["memory"]["churn"])
    assert result["churn"]["events"] == 40_000
    assert result["rows"][0]["predicted_bytes"] == sum(result["rows"][0]["parts"].values())


def test_tolerance_counts_rows_and_keeps_its_bound(capsys):
    result = run_json("bench", "tolerance", "power-law-1k-8k", "--events", 200)
    assert set(result) == set(PUBLISHED["tolerance"])
    assert set(result["rows"][0]) == set(PUBLISHED["tolerance"]["rows"][0])
    assert [row["tolerance"] for row in result["rows"]] == list(TOLERANCES)
    assert all(row["within_bound"] and row["same_bits"] for row in result["rows"])
    exact, *_, most = result["rows"]
    assert exact["times_fewer_rows"] == exact["recall"] == 1
    assert exact["error"] == exact["worst"] == exact["bound"] == 0
    assert most["times_fewer_rows"] > 1
    assert 0 < most["error"] < most["worst"] <= most["bound"]
    assert "200 single events" in shown(result, capsys)


def test_a_sink_that_is_told_too_little_would_be_noticed(monkeypatch):
    monkeypatch.setattr(Announcer, "_exceeding", lambda announcer, nodes: nodes[:0])
    row = measure_tolerance(["power-law-1k-8k"], tolerances=(1e-6,), events=100)["rows"][0]
    assert not row["within_bound"]
    assert not row["same_bits"]


def test_random_rows_stand_in_for_a_fit_of_a_large_graph(monkeypatch):
    monkeypatch.setattr("dygcn_lab.costs.tolerance._MOST_FITTED", 100)
    found = measure_tolerance(["power-law-300-2k"], tolerances=(0.0,), events=20)["rows"][0]
    assert (found["model"], found["within_bound"], found["same_bits"]) == ("random rows", True, True)


def test_threads_leave_the_same_bits():
    result = run_json("bench", "threads", "power-law-2k-20k", *TINY, "--batch", 500)
    assert set(result) == set(PUBLISHED["threads"])
    assert [(row["graph"], row["batch"], row["same_bits"]) for row in result["rows"]] == [
        ("power-law-2k-20k", 500, True)
    ]


def test_base_takes_graphs_and_a_window(capsys):
    result = run_json("bench", "base", "power-law-300-2k", "rmat-300-2k", "--rank", 8, "--window", 2)
    assert set(result) == set(PUBLISHED["base"])
    assert set(result["rows"][0]) == set(PUBLISHED["base"]["rows"][0])
    found = [
        (row["graph"], row["window"], row["rank"], row["core"] == row["nodes"]) for row in result["rows"]
    ]
    assert found == [("power-law-300-2k", 2, 8, True), ("rmat-300-2k", 2, 8, True)]
    assert "factorised" in shown(result, capsys)


def test_kinds_of_features_side_by_side():
    result = run_json("bench", "kinds", "power-law-300-2k")
    assert [row["features"] for row in result["rows"]] == ["hashed", "walks"]
    assert result["rows"][1]["sums_bytes"] < result["rows"][0]["sums_bytes"]
    assert result["fits"] == []


def test_score_beside_the_cosine_and_updates_with_times_and_without(capsys):
    result = run_json("bench", "score", "power-law-1k-8k", "--quick")
    made = PUBLISHED["score"]
    assert set(result) == set(made)
    assert all(set(result[part][0]) == set(made[part][0]) for part in ("rows", "updates", "bytes"))
    assert [row["pairs"] for row in result["rows"]] == [1, 100, 10_000]
    assert [row["batch"] for row in result["updates"]] == [1, 1000]
    assert "An update" in shown(result, capsys)


def test_recommendations_beside_the_best_of_everyone(monkeypatch, capsys):
    monkeypatch.setattr("dygcn.live.recommending.EVERYONE", 100)
    monkeypatch.setattr("dygcn.live.recommending._BY_DOT", (100, 100))
    asked = "bench", "recommend", "power-law-300-2k", "--nodes", 10
    result = run_json(*asked)
    made = PUBLISHED["recommend"]
    assert set(result) == set(made)
    assert set(result["rows"][0]) == set(made["rows"][0])
    assert [row["links"] for row in result["rows"]] == ["new", "next"]
    good = result["rows"][0]["recall"]
    assert good > 0.8
    assert "Recall at 10" in shown(result, capsys)
    monkeypatch.setattr("dygcn.live.recommending._BY_PATH", 0)
    monkeypatch.setattr("dygcn.live.recommending._BY_DOT", (1, 1))
    assert run_json(*asked)["rows"][0]["recall"] < 0.5  # fewer candidates are noticed


def test_start_takes_pythons_by_turns(capsys):
    options = ("--repeats", 1, "--graph", "power-law-300-1k", "--starts", 1)
    result = run_json("bench", "start", "--python", f"a={sys.executable}", *options)
    made = PUBLISHED["start"]
    assert set(result) == set(made)
    assert set(result["rows"][0]) == set(made["rows"][0])
    assert [row["name"] for row in result["rows"]] == list(commands(Path("x")))
    assert {row["environment"] for row in result["rows"]} == {"a"}
    assert set(result["services"][0]) == set(made["services"][0])
    cpu = {row["name"]: row["cpu_seconds"] for row in result["rows"]}
    assert 0 < cpu[NOTHING] < cpu[README]
    assert "the README's example" in shown(result, capsys)


def test_the_example_is_the_readme_s():
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    shown = doctest.DocTestParser().get_examples(readme.split("## Six lines")[1].split("\n```")[1])
    assert "".join(re.sub(r"\s*# .*", "", one.source) for one in shown) == LINES


def test_a_stream_changes_as_it_came():
    result = run_json("bench", "update", "stream:power-law-500-5k", *TINY, "--batch", 1, "--batch", 20)
    assert [row["graph"] for row in result["batches"]] == ["stream:power-law-500-5k"] * 2
    assert (
        "at its end"
        in run("bench", "update", "stream:power-law-300-1k", *TINY, "--batch", 500, code=2).stderr
    )


def test_page_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr("dygcn_lab.costs.page.draw", lambda result, file: file.write_text("drawn"))
    (tmp_path / "scale.json").write_text(json.dumps(PUBLISHED["scale"]))
    page = tmp_path / "docs" / "costs.md"
    result = run_json("bench", "page", tmp_path / "scale.json", "--markdown", page)
    assert result["missing"] == [kind for kind in KINDS if kind != "scale"]
    assert result["pictures"] == {"scale": str(tmp_path / "docs" / "images" / "costs" / "scale.png")}
    assert "](images/costs/scale.png)" in page.read_text()
    said = run("bench", "page", tmp_path / "scale.json", "--markdown", page, "--out", tmp_path / "x").stdout
    assert "not there: memory. dygcn bench memory --json writes it" in said
    assert (tmp_path / "x" / "scale.png").exists()
