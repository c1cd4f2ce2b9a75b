import json
import os
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import dygcn
from dygcn.cli import main
from dygcn.cli.main import COMMANDS

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


@pytest.mark.parametrize(("span", "expire"), [("2", 2.0), ("2s", 2.0), ("1h", 3600.0)])
def test_fit_lets_edges_leave_by_the_clock(home, tmp_path, span, expire):
    run("fit", home / "events.csv", "--out", tmp_path / "x", "--dim", 4, "--expire", span)
    info = run_json("info", tmp_path / "x")
    twin = dygcn.fit(home / "events.csv", dim=4, expire=expire)
    assert (info["edges"], info["expire"]) == (twin.edge_count, expire)
    assert (info["edges"] < run_json("info", home / "f")["edges"]) == (expire == 2.0)
    done = run_json("update", tmp_path / "x", home / "today.csv", "--now", 900)
    assert done["expired"] == (info["edges"] if expire == 2.0 else 0)
    assert "expire" not in run_json("info", home / "f")
    wrong = run("fit", home / "events.csv", "--out", tmp_path / "y", "--expire", "soon", code=2).stderr
    assert "expire is 'soon'" in wrong


def test_update_moves_and_saves(home, tmp_path):
    dygcn.load(home / "f").save(tmp_path / "g")
    result = run_json("update", tmp_path / "g", home / "today.csv")
    assert (result["events"], result["loops"], result["version"]) == (3, 1, 1)
    assert "zed" in dygcn.load(tmp_path / "g")
    (tmp_path / "n.csv").write_text("src,dst\n100,200\n")  # numbers are ids of the graph's type, text
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


def test_nearest_of_several(home):
    live = dygcn.load(home / "f")
    found = run_json("nearest", home / "f", "p1", "p2", "-k", 3)
    assert [one["of"] for one in found] == ["p1", "p2"]
    for one in found:
        assert [(row["id"], row["score"]) for row in one["nearest"]] == live.nearest(one["of"], k=3)
    people = run("nearest", home / "f", "p1", "p2").stdout
    assert people.split()[:3] == ["of", "id", "score"]


def test_what_if(home, tmp_path):
    live = dygcn.load(home / "f")
    before = live.digest()
    tried = "--add p1,zed --add p1,p9 --remove p0,p1 --ask p1 -k 30"
    result = run_json("what-if", home / "f", *tried.split())
    change = live.update(add=[("p1", "zed"), ("p1", "p9")], remove=[("p0", "p1")])
    assert result["moved"] == len(change)
    assert {one["id"] for one in result["furthest"]} == set(change.ids.tolist())
    assert result["asked"][0]["vector"] == live["p1"].tolist()
    near = [(one["id"], one["score"]) for one in result["asked"][0]["nearest"]]
    assert near == live.nearest("p1", 30)
    before_p1 = dygcn.load(home / "f")["p1"]
    far = {one["id"]: one["distance"] for one in result["furthest"]}
    assert far["p1"] == pytest.approx(np.linalg.norm(live["p1"] - before_p1), abs=1e-6)
    assert far["zed"] is None
    assert dygcn.load(home / "f").digest() == before
    people = run("what-if", home / "f", "--remove-node", "p1", "--ask", "p2").stdout
    assert "gone" in people
    assert "nearest to p2" in people
    by_file = run_json("what-if", home / "f", "--events", home / "today.csv")
    assert "zed" in [one["id"] for one in by_file["furthest"]]
    run("what-if", home / "f", code=2)
    run("what-if", home / "f", "--add", "p1", code=2)
    run("what-if", home / "f", "--events", home / "today.csv", "--add", "p1,p2", code=2)
    run("what-if", home / "f", "--remove-node", "nobody", code=3)
    run("what-if", home / "f", "--add", "p1,p2", "--ask", "nobody", code=3)
    assert dygcn.load(home / "f").digest() == before


def test_recommend_and_explain(home):
    live = dygcn.load(home / "f")
    found = run_json("recommend", home / "f", "p1", "-k", 3)
    assert [(one["id"], one["score"]) for one in found["nodes"]] == live.recommend("p1", 3)
    same = run_json("score", home / "f", "p1", "p2")["score_kind"]
    assert found["score_kind"] == live.model.score_kind() == same
    more = run_json("recommend", home / "f", "p1", "--linked")["nodes"]
    assert {one["id"] for one in more} & set(live.neighbors("p1"))
    shares = run_json("explain", home / "f", "p1", "-k", 2)
    why = live.explain("p1")
    assert [one["share"] for one in shares["neighbors"]] == why.by_neighbor[:2].tolist()
    assert [one["id"] for one in shares["neighbors"]] == why.neighbors[:2].tolist()
    people = run("explain", home / "f", "p1").stdout
    assert "(itself)" in people
    assert "order 2" in people


def test_events_that_would_move_a_node(home):
    live = dygcn.load(home / "f")
    found = run_json("explain", home / "f", "p1", "--events", home / "today.csv")
    expected = live.explain_change("p1", str(home / "today.csv"))
    assert {one["event"]: one["share"] for one in found["events"]} == {
        row: share for row, share in enumerate(expected.projections.tolist()) if expected.by_event[row].any()
    }
    assert sum(one["share"] for one in found["events"]) == pytest.approx(found["distance"] ** 2)
    people = run("explain", home / "f", "p1", "--events", home / "today.csv").stdout
    assert people.split()[:2] == ["event", "distance"]
    assert dygcn.load(home / "f").digest() == live.digest()


@pytest.mark.parametrize("suffix", ["csv", "tsv", "arrow", "parquet"])
def test_vectors_are_written_as_the_suffix_says(home, tmp_path, suffix):
    live, out = dygcn.load(home / "f"), tmp_path / f"v.{suffix}"
    assert run_json("vector", home / "f", "--out", out)["vectors"] == len(live)
    if suffix == "parquet":
        assert pq.read_table(out).equals(live.to_arrow())
    elif suffix == "arrow":
        assert pa.ipc.open_file(out).read_all().equals(live.to_arrow())
    else:
        separator = {"csv": ",", "tsv": "\t"}[suffix]
        lines = out.read_text().splitlines()[1:]
        rows = {name.strip('"'): numbers for name, *numbers in (line.split(separator) for line in lines)}
        assert np.array_equal(np.array([rows[name] for name in live], np.float32), live.vectors())


def test_vectors_go_to_standard_output(home):
    lines = run("vector", home / "f", "p1", "--out", "-").stdout.splitlines()
    assert lines[0].startswith('"id","v0"')
    assert lines[1].startswith('"p1",')
    assert "allowed are .parquet" in run("vector", home / "f", "--out", "v.json", code=2).stderr


@pytest.mark.parametrize("form", ["csv", "tsv", "ndjson", "parquet"])
def test_events_come_from_standard_input(home, tmp_path, form):
    rows = {"user": ["ann", "bob", "007"], "item": ["tea", "tea", "jam"], "t": [1, 2, 3]}
    events = [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]
    lines = {
        "csv": "\n".join([",".join(rows), *(",".join(map(str, row.values())) for row in events)]),
        "ndjson": "\n".join(map(json.dumps, events)),
    }
    lines["tsv"] = lines["csv"].replace(",", "\t")
    pq.write_table(pa.table(rows), tmp_path / "e.parquet")
    given = (tmp_path / "e.parquet").read_bytes() if form == "parquet" else f"{lines[form]}\n".encode()
    names = ["--src", "user", "--dst", "item"]
    for more in ([], ["--format", form]):
        out = tmp_path / f"f{len(more)}"
        done = CliRunner().invoke(main, ["fit", "-", "--out", str(out), "--dim", "4", *names, *more], given)
        assert done.exit_code == 0, done.output
        assert sorted(dygcn.load(out)) == ["007", "ann", "bob", "jam", "tea"]
    plain = dygcn.fit(tmp_path / "e.parquet", dim=4, src="user", dst="item")
    assert dygcn.load(out).digest() == plain.digest()
    again = given if form == "parquet" else given.replace(b"007", b"008")
    done = CliRunner().invoke(main, ["update", str(out), "-", *names], again)
    assert done.exit_code == 0, done.output
    assert ("008" in dygcn.load(out)) == (form != "parquet")


def test_a_format_is_said_of_a_file_whose_name_says_none(home, tmp_path):
    (tmp_path / "edges.dat").write_text("src,dst\na,b\n")
    run("fit", tmp_path / "edges.dat", "--format", "csv", "--out", tmp_path / "f", "--dim", 4)
    assert sorted(dygcn.load(tmp_path / "f")) == ["a", "b"]
    assert "unknown" in run("fit", tmp_path / "edges.dat", "--out", tmp_path / "g", code=1).stderr
    assert run("fit", tmp_path / "no.dat", "--format", "csv", "--out", tmp_path / "g", code=1).stderr
    empty = CliRunner().invoke(main, ["fit", "-", "--out", str(tmp_path / "g")], b"")
    assert (empty.exit_code, empty.stderr[:6]) == (1, "error:")


def test_a_misspelt_command_is_guessed():
    assert "did you mean `dygcn fit`?" in run("ft", code=2).stderr
    assert "lists all commands" in run("xyzzy", code=2).stderr


def test_an_interrupt_has_its_own_code(home, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("dygcn.cli.options.load_as_of", interrupt)
    assert run("info", home / "f", code=130).stderr.strip().endswith("interrupted")


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
    named = [result[name] for name in ("rule", "base", "aggregation", "features")]
    assert named == [rule, "gcn", "mean", "none"]
    assert run_json("update", folder, home / "today.csv")["events"] == 3
    assert "zed" in dygcn.load(folder)
    assert len(run("nearest", folder, "zed", "-k", 2).stdout.splitlines()) >= 2
    wrong = run("fit", home / "events.csv", "--out", folder, "--base", "gcn", code=2).stderr
    assert "--base is for the rules 'rolling' and 'spectral'" in wrong
    wrong = run("fit", home / "events.csv", "--out", folder, "--steady", code=2).stderr
    assert "--steady needs --rule rolling or --rule spectral" in wrong


def test_bench_update_on_a_random_graph():
    result = run_json("bench", "update", "power-law-1k-3k", "--repeats", 2, "--width", 32)
    assert [batch["events"] for batch in result["batches"]] == [1, 1000]
    assert all(batch["rows_per_event"] > 0 for batch in result["batches"])
    assert result["batches"][0]["times_cheaper_than_recompute"] > 0


def test_restore_begins_a_new_epoch(tmp_path):
    live = dygcn.open(tmp_path / "live", dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=4))
    live.update(add=[("cat", "dan")])
    before = live.feed.history
    assert "is open already" in run("restore", tmp_path / "live", tmp_path / "again", code=1).stderr
    live.close()
    result = run_json("restore", tmp_path / "live", tmp_path / "again")
    assert (result["folder"], result["sequence"]) == (str(tmp_path / "again"), 2)
    assert result["generation"] > before.generation
    with dygcn.open(tmp_path / "again") as again:
        assert (again.feed.history.epoch, sorted(again)) == (result["epoch"], ["ann", "bob", "cat", "dan"])
    assert "exists" in run("restore", tmp_path / "live", tmp_path / "again", code=1).stderr


def test_the_past_of_a_durable_folder(home, tmp_path):
    """While it is open elsewhere, too."""
    with dygcn.open(tmp_path / "g", dygcn.load(home / "f")) as live:
        before, vector = live.digest(), live["p1"].tolist()
        near, score = live.nearest("p1", 2), live.score("p1", "p2")
        own, best = live.explain("p1").own, live.recommend("p1", 2)
        live.update(add=[("p1", "zed"), ("p1", "p9")])
        folder, as_of = tmp_path / "g", ("--as-of", 0)
        info = run_json("info", folder, *as_of)
        assert (info["digest"], info["sequence"]) == (before, 0)
        assert info["logged"] == dygcn.open(folder, as_of=0).logged.isoformat().replace("+00:00", "Z")
        assert run_json("info", folder, "--as-of", "now")["digest"] == live.digest()
        assert info["keep_log"] == live._snapshots.keep_log == "256MB"
        assert run_json("vector", folder, "p1", *as_of) == [{"id": "p1", "vector": vector}]
        run("vector", folder, "--out", tmp_path / "v.parquet", "--as-of", info["logged"])
        assert "zed" not in pq.read_table(tmp_path / "v.parquet").column("id").to_pylist()
        found = run_json("nearest", folder, "p1", "-k", 2, *as_of)
        assert [(one["id"], one["score"]) for one in found] == near
        assert run_json("score", folder, "p1", "p2", *as_of)["score"] == score
        found = run_json("recommend", folder, "p1", "-k", 2, *as_of)["nodes"]
        assert [(one["id"], one["score"]) for one in found] == best
        assert run_json("explain", folder, "p1", *as_of)["own"] == own
        assert "error: 'zed' is not in the graph" in run("vector", folder, "zed", *as_of, code=3).stderr
        assert "still to come" in run("info", folder, "--as-of", 9, code=1).stderr
        assert "as_of is 'then'" in run("info", folder, "--as-of", "then", code=2).stderr
    assert "it has no past" in run("info", home / "f", *as_of, code=1).stderr
    assert "does not exist; check the name" in run("info", tmp_path / "x", code=1).stderr
    assert "does not exist; check the name" in run("info", tmp_path / "x", *as_of, code=1).stderr


def test_every_command_is_documented():
    text = DOCS.read_text()
    for name in COMMANDS:
        assert f"`dygcn {name}" in text, name
        assert run(name, "--help").stdout
    assert "Exit codes" in run("--help").stdout


def test_judge_prints_for_people_and_machines(data):
    result = run("judge", "hepth-collab", "--rule", "degree-product", "--quick", "--json")
    found = json.loads(result.output)
    assert 0.5 < found["means"]["score.auc.all.uniform"] < 0.8
    assert len(found["figures"]["score.auc.all.uniform"]) == 2
    result = run("judge", "hepth-collab", "--rule", "degree-product", "--quick")
    assert "score.auc.new-warm.degree" in result.output


def test_judge_says_what_it_does_not_know(data):
    result = run("judge", "hepth-collab", "--rule", "fastrp", "--orders", "3", "--quick", code=2)
    assert "fastrp has no orders" in result.output
    result = run("judge", "moon", "--rule", "fastrp", code=1)
    assert "known are" in result.output


def test_reproduce_says_what_there_is(tmp_path):
    result = run("reproduce", code=2)
    assert "table2" in result.output
    result = run("reproduce", "table3", "--out", str(tmp_path), code=2)
    assert "'table3' is no experiment" in result.output


def test_reproduce_shows_what_is_there(tmp_path, data):
    run("reproduce", "table-orders", "--quick", "--out", str(tmp_path / "out"))
    again = "--quick", "--out", str(tmp_path / "out"), "--minutes", "0", "--json"
    found = json.loads(run("reproduce", "table-orders", *again).output)
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
    named = [result[name] for name in ("gains", "auc_before", "nodes", "unreached")]
    assert named == [False, None, len(new), 0]
    assert "gains" in run("refit", tmp_path / "g", "--out", tmp_path / "new").stdout
    assert "choose another" in run("refit", tmp_path / "g", "--out", tmp_path / "g", code=2).stderr


def test_refit_reads_a_durable_folder_and_writes_nothing_to_it(home, tmp_path):
    with dygcn.open(tmp_path / "d", dygcn.load(home / "f")) as live:
        live.update(add=[("zed", "zoe")], stream="clicks", offset=7)
        expected, history = live.refit().embedding.digest(), live.feed.history
    run("refit", tmp_path / "d", "--out", tmp_path / "new")
    with dygcn.open(tmp_path / "new") as new:
        assert new.digest() == expected
        assert new.streams == {"clicks": 7}
    with dygcn.open(tmp_path / "d") as live:
        assert live.feed.history == history
    run("refit", tmp_path / "d", "--out", tmp_path / "new", code=2)  # begun already


def test_forget(tmp_path):
    folder = tmp_path / "friends"
    dygcn.open(folder, dygcn.fit([("ann", "bob"), ("bob", "dan-miller")], dim=4)).close()
    receipt = run_json("forget", folder, "dan-miller", "nobody")
    assert (receipt["found"], receipt["sequence"]) == (1, 1)
    assert not any(b"dan-miller" in file.read_bytes() for file in folder.rglob("*") if file.is_file())


def test_relations_by_commands(tmp_path):
    events, today = tmp_path / "shop.csv", tmp_path / "today.ndjson"
    events.write_text("user,item,action\nann,tea,view\nann,tea,buy\nbob,tea,view\nbob,mug,buy\n")
    today.write_text('{"src": "ann", "dst": "tea", "relation": "buy", "op": -1}\n')
    names = ("--src", "user", "--dst", "item", "--relation", "action")
    run("fit", events, "--out", tmp_path / "f", "--dim", 4, *names, "--relation-weights", "view=1, buy=4")
    assert run_json("what-if", tmp_path / "f", "--events", today)["moved"] > 0
    assert run_json("update", tmp_path / "f", today)["missing"] == 0
    weights = {
        (edge["src"], edge["dst"]): edge["weight"] for edge in dygcn.load(tmp_path / "f").edges().to_pylist()
    }
    assert weights == {("ann", "tea"): 1.0, ("bob", "tea"): 1.0, ("bob", "mug"): 4.0}
    today.write_text('{"src": "ann", "dst": "tea", "relation": "like"}\n')
    assert "the relations of this model are" in run("update", tmp_path / "f", today, code=1).stderr
    run("fit", events, "--out", tmp_path / "g", *names, "--relation-weights", "view=much", code=2)
