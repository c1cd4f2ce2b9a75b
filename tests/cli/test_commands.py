import json
import os
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import dygcn
from dygcn.cli import main
from dygcn.cli.listing import COMMANDS

DOCS = Path(__file__).parents[2] / "docs" / "command-line.md"


def skip_if_missing(done, code):
    """Skip a test of a command that lacks an optional package; in CI there is none that is missing."""
    missing = re.search(r"error: (\w+) is not installed", done.stderr)
    if missing and done.exit_code != code and not os.environ.get("DYGCN_COMPLETE"):
        pytest.skip(f"{missing[1]} is not installed")


def run(*arguments, code=0):
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    skip_if_missing(result, code)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def run_json(*arguments):
    return json.loads(run(*arguments, "--json").stdout)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    rows = [f"p{i % 23},p{(i * 5 + 1) % 31},{i // 10}" for i in range(40)]
    (folder / "events.csv").write_text("src,dst,t\n" + "\n".join(rows) + "\n")
    (folder / "today.csv").write_text("src,dst,op\np1,zed,1\np0,p1,-1\np3,p3,1\n")
    run("fit", folder / "events.csv", "--out", folder / "f", "--dim", 8, "--width", 32)
    return folder


def test_fit_and_info(home):
    info = run_json("info", home / "f")
    live = dygcn.load(home / "f")
    assert (info["nodes"], info["edges"], info["dim"]) == (len(live), live.edge_count, 8)
    assert info["digest"] == live.digest()
    people = run("info", home / "f").stdout
    assert "digest" in people
    assert "directed   no" in people


def test_update_moves_and_saves(home, tmp_path):
    dygcn.load(home / "f").save(tmp_path / "g")
    result = run_json("update", tmp_path / "g", home / "today.csv")
    assert (result["events"], result["loops"], result["version"]) == (3, 1, 1)
    assert "zed" in dygcn.load(tmp_path / "g")


def test_numbers_in_a_csv_are_ids_of_the_graphs_type(home, tmp_path):
    dygcn.load(home / "f").save(tmp_path / "g")
    (tmp_path / "n.csv").write_text("src,dst\n100,200\n")
    run("update", tmp_path / "g", tmp_path / "n.csv")
    assert "100" in dygcn.load(tmp_path / "g")


def test_nothing_but_json_on_either_stream(home):
    result = run("info", home / "f", "--json")
    json.loads(result.stdout)
    assert result.stderr == ""


def test_a_bad_row_saves_nothing(home, tmp_path):
    dygcn.load(home / "f").save(tmp_path / "g")
    (tmp_path / "bad.csv").write_text("src,dst,weight\na,b,1\nc,d,-2\n")
    result = run("update", tmp_path / "g", tmp_path / "bad.csv", code=1)
    assert result.stderr.strip().splitlines()[-1].startswith("error: row 1: weight is -2; allowed is")
    assert dygcn.load(tmp_path / "g").digest() == dygcn.load(home / "f").digest()


def test_vector_nearest_score(home, tmp_path):
    live = dygcn.load(home / "f")
    (row,) = run_json("vector", home / "f", "p1")
    np.testing.assert_array_equal(np.array(row["vector"], np.float32), live["p1"])
    assert "p1" in run("vector", home / "f", "p1").stdout
    result = run_json("vector", home / "f", "--out", tmp_path / "v.parquet")
    assert result["vectors"] == len(live)
    assert pq.read_table(tmp_path / "v.parquet").column("id").to_pylist() == live.ids().tolist()
    found = run_json("nearest", home / "f", "p1", "-k", 3)
    assert [(row["id"], row["score"]) for row in found] == live.nearest("p1", k=3)
    assert found[0]["id"] in run("nearest", home / "f", "p1").stdout
    assert run_json("score", home / "f", "p1", "p2")["score"] == live.score("p1", "p2")


def test_errors_are_one_line_with_a_code(home):
    assert "error: 'nobody' is not in the graph now" in run("vector", home / "f", "nobody", code=3).stderr
    assert "error: " in run("info", home / "nowhere", code=1).stderr
    assert "there is no file" in run("fit", home / "no.csv", "--out", home / "x", code=1).stderr
    assert "name at least one id" in run("vector", home / "f", code=2).stderr
    run("fit", home / "events.csv", code=2)
    events, today = home / "events.csv", home / "today.csv"
    for arguments in (
        ("fit", events, "--out", today / "x"),
        ("fit", events, "--out", home),
        ("fit", events, "--out", "/proc/x"),
        ("fit", home, "--out", home / "y"),
        ("update", home / "f", home / "f" / "manifest.json"),
        ("vector", home / "f", "p1", "--out", home / "no" / "where.parquet"),
        ("vector", home / "f", "p1", "--out", home),
        ("info", "x" * 5000),
    ):
        result = run(*arguments, code=1)
        lines = result.stderr.strip().splitlines()
        assert lines[-1].startswith("error: "), (arguments, result.output)
        assert "Traceback" not in result.output
    for arguments in (
        ("fit", events, "--out", home / "y", "--seed", -1),
        ("fit", events, "--out", home / "y", "--dim", 0),
        ("nearest", home / "f", "p1", "-k", 0),
        ("bench", "update", "--nodes", 20, "--edges", 30, "--repeats", 1),
    ):
        result = run(*arguments, code=2)
        assert result.stderr.startswith("error: "), (arguments, result.output)
    run("nothing", code=2)


def test_ids_are_not_markup(tmp_path):
    (tmp_path / "e.csv").write_text("src,dst\na[/b],[red]c\n[red]c,d\n")
    run("fit", tmp_path / "e.csv", "--out", tmp_path / "f", "--dim", 4)
    assert "a[/b]" in run("nearest", tmp_path / "f", "d").stdout


def test_negative_ids_are_ids(tmp_path):
    (tmp_path / "e.csv").write_text("src,dst\n-5,-1234567\n-5,3\n")
    run("fit", tmp_path / "e.csv", "--out", tmp_path / "f", "--dim", 4)
    assert "-1234567" in run("nearest", tmp_path / "f", "-5").stdout
    assert "-1234567" in run("score", tmp_path / "f", "-5", "-1234567").stdout
    assert run_json("vector", tmp_path / "f", "-5")[0]["id"] == -5


def test_integer_ids_on_the_command_line(tmp_path):
    (tmp_path / "e.csv").write_text("src,dst\n1,2\n2,3\n")
    run("fit", tmp_path / "e.csv", "--out", tmp_path / "f", "--dim", 4)
    assert run_json("score", tmp_path / "f", "1", "3")["a"] == 1
    assert "'bob' is not an int64" in run("nearest", tmp_path / "f", "bob", code=2).stderr


@pytest.mark.parametrize("rule", ["rolling", "spectral"])
def test_the_rules_of_the_paper(home, tmp_path, rule):
    folder = tmp_path / "f"
    run("fit", home / "events.csv", "--out", folder, "--dim", 8, "--rule", rule, "--base", "gcn", "--steady")
    result = run_json("info", folder)
    assert (result["rule"], result["base"], result["aggregation"], result["features"]) == (
        rule,
        "gcn",
        "mean",
        "none",
    )
    assert run_json("update", folder, home / "today.csv")["events"] == 3
    assert "zed" in dygcn.load(folder)
    assert len(run("nearest", folder, "zed", "-k", 2).stdout.splitlines()) >= 2
    wrong = run("fit", home / "events.csv", "--out", folder, "--base", "gcn", code=2).stderr
    assert "base= is for the rules 'rolling' and 'spectral'" in wrong
    wrong = run("fit", home / "events.csv", "--out", folder, "--steady", code=2).stderr
    assert "--steady needs --rule rolling or --rule spectral" in wrong


def test_bench_update_on_a_random_graph():
    result = run_json("bench", "update", "--nodes", 300, "--edges", 900, "--repeats", 2, "--width", 32)
    assert [batch["events"] for batch in result["batches"]] == [1, 1000]
    assert all(batch["rows_per_event"] > 0 for batch in result["batches"])
    assert result["batches"][0]["times_cheaper_than_recompute"] > 0


def test_restore_begins_a_new_epoch(tmp_path):
    live = dygcn.open(tmp_path / "live", dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=4))
    live.update(add=[("cat", "dan")])
    before = live.history
    assert "is open already" in run("restore", tmp_path / "live", tmp_path / "again", code=1).stderr
    live.close()
    result = run_json("restore", tmp_path / "live", tmp_path / "again")
    assert (result["folder"], result["sequence"]) == (str(tmp_path / "again"), 2)
    assert result["generation"] > before.generation
    with dygcn.open(tmp_path / "again") as again:
        assert (again.history.epoch, sorted(again)) == (result["epoch"], ["ann", "bob", "cat", "dan"])
    assert "exists" in run("restore", tmp_path / "live", tmp_path / "again", code=1).stderr


def test_every_command_is_documented():
    text = DOCS.read_text()
    for name in COMMANDS:
        assert f"`dygcn {name}" in text, name
        assert run(name, "--help").stdout
    assert "Exit codes" in run("--help").stdout


def test_evaluate_prints_for_people_and_machines(data):
    result = run("evaluate", "hepth-collab", "--rule", "degree-product", "--quick", "--json")
    found = json.loads(result.output)
    assert 0.5 < found["means"]["score.auc.all.uniform"] < 0.8
    assert len(found["figures"]["score.auc.all.uniform"]) == 2
    result = run("evaluate", "hepth-collab", "--rule", "degree-product", "--quick")
    assert "score.auc.new-warm.degree" in result.output


def test_evaluate_says_what_it_does_not_know(data):
    result = run("evaluate", "hepth-collab", "--rule", "fastrp", "--orders", "3", "--quick", code=2)
    assert "fastrp has no orders" in result.output
    result = run("evaluate", "moon", "--rule", "fastrp", code=1)
    assert "known are" in result.output


def test_reproduce_says_what_there_is(tmp_path):
    result = run("reproduce", code=2)
    assert "table2" in result.output
    result = run("reproduce", "table3", "--out", str(tmp_path), code=2)
    assert "'table3' is no experiment" in result.output


def test_reproduce_shows_what_is_there(tmp_path, data):
    run("reproduce", "table-orders", "--quick", "--out", str(tmp_path / "out"))
    result = run(
        "reproduce", "table-orders", "--quick", "--out", str(tmp_path / "out"), "--minutes", "0", "--json"
    )
    found = json.loads(result.output)
    assert found["unfinished"] == 0
    assert found["lines"]["table-orders"][0] == ["dataset", "what", "1st", "2nd", "3rd", "4th"]
    assert (tmp_path / "out" / "table-orders.html").exists()


def test_refit_writes_a_new_folder_and_leaves_the_old_one(home, tmp_path):
    live = dygcn.load(home / "f")
    live.update(add=[("zed", "zoe"), ("zoe", "zack")])
    live.save(tmp_path / "g")
    result = run_json("refit", tmp_path / "g", "--out", tmp_path / "new")
    new = dygcn.load(tmp_path / "new")
    assert dygcn.load(tmp_path / "g").digest() == live.digest()
    assert new.digest() == live.refit().embedding.digest()
    assert (result["gains"], result["auc_before"], result["nodes"], result["unreached"]) == (
        False,
        None,
        len(new),
        0,
    )
    assert "gains" in run("refit", tmp_path / "g", "--out", tmp_path / "new").stdout
    assert "choose another" in run("refit", tmp_path / "g", "--out", tmp_path / "g", code=2).stderr


def test_refit_reads_a_durable_folder_and_writes_nothing_to_it(home, tmp_path):
    with dygcn.open(tmp_path / "d", dygcn.load(home / "f")) as live:
        live.update(add=[("zed", "zoe")])
        expected, history = live.refit().embedding.digest(), live.history
    run("refit", tmp_path / "d", "--out", tmp_path / "new")
    assert dygcn.load(tmp_path / "new").digest() == expected
    with dygcn.open(tmp_path / "d") as live:
        assert live.history == history
