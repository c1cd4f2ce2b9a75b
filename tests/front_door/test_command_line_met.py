"""What new users met on the command line, one test for each: it was so once, and is not any more."""

import json
import os
import subprocess

import pytest
from click.testing import CliRunner

import dygcn
from dygcn import _progress
from dygcn.cli import main
from tests.cli.processes import DYGCN

FRIENDS = [("ann", "bob"), ("bob", "cat"), ("cat", "dan")]


@pytest.fixture
def saved(tmp_path):
    dygcn.fit(FRIENDS, dim=8).save(tmp_path / "friends")
    return tmp_path / "friends"


def run(*arguments, code=0, given=None):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments], given)
    assert done.exit_code == code, (done.output, done.exception)
    return done


# ---- durable folders -------------------------------------------------------------------------------------


def test_reading_a_durable_folder_needs_no_option(saved):
    reads = (
        ("info",),
        ("vector", "ann"),
        ("nearest", "ann"),
        ("score", "ann", "eve"),
        ("recommend", "ann"),
        ("explain", "ann"),
        ("what-if", "--add", "ann,eve", "--ask", "eve"),
    )
    with dygcn.open(saved) as live:
        live.update(add=[("dan", "eve")])
        while_open = [run(name, saved, *more, "--json").stdout for name, *more in reads]
        assert json.loads(while_open[0])["digest"] == live.digest()
    files = sorted((path, path.stat().st_mtime_ns) for path in saved.rglob("*"))
    assert [run(name, saved, *more, "--json").stdout for name, *more in reads] == while_open
    assert sorted((path, path.stat().st_mtime_ns) for path in saved.rglob("*")) == files
    assert "eve" in run("vector", saved, "eve").stdout


def test_what_if_asks_the_past_too(saved):
    with dygcn.open(saved) as live:
        live.update(add=[("dan", "eve")])
    result = json.loads(run("what-if", saved, "--add", "ann,eve", "--as-of", 0, "--json").stdout)
    assert {"id": "eve", "distance": None} in result["furthest"]  # it was not there yet


def test_now_is_all_of_the_log_though_the_clock_was_set_back(saved, monkeypatch):
    with dygcn.open(saved) as live:
        live.update(add=[("dan", "eve")])
    monkeypatch.setattr("dygcn.live.durable.storage.times.clock", lambda: 1)
    assert json.loads(run("info", saved, "--json").stdout)["sequence"] == 1


def test_update_of_a_durable_folder_is_durable(saved, tmp_path):
    (tmp_path / "more.csv").write_text("src,dst\ndan,eve\n")
    with dygcn.open(saved) as live:
        refused = run("update", saved, tmp_path / "more.csv", code=1).stderr
        assert "POST /v1/events" in refused
        assert "eve" not in live
    result = json.loads(run("update", saved, tmp_path / "more.csv", "--json").stdout)
    assert (result["events"], result["nodes"], result["edges"]) == (1, 5, 4)
    with dygcn.open(saved) as live:
        assert (live.sequence, "eve" in live) == (1, True)
        before = live.digest()
    rows = "".join(f"x{i},y{i},1\n" for i in range(10_001))
    (tmp_path / "bad.csv").write_text(f"src,dst,weight\n{rows}a,b,1e300\n")
    run("update", saved, tmp_path / "bad.csv", code=1)
    with dygcn.open(saved) as live:
        assert (live.sequence, live.digest()) == (1, before)


# ---- errors in the words of the command line -------------------------------------------------------------


def test_errors_name_options_and_not_arguments_of_python(tmp_path):
    events, out = tmp_path / "e.csv", tmp_path / "x"
    events.write_text("user,item,time\nu1,i1,1\nu2,i1,2\n")
    assert "--src user --dst item --t time\n" in run("fit", events, "--out", out, code=1).stderr
    wrong = run("fit", events, "--out", out, "--src", "usr", "--dst", "item", code=1).stderr
    assert wrong == (
        "error: there is no column 'usr', as --src says; did you mean 'user'? (columns: user, item, time)\n"
    )
    wrong = run("fit", events, "--out", out, "--src", "user", "--dst", "item", "--memory", 3, code=1).stderr
    assert "--memory needs the column t" in wrong


def test_a_folder_that_is_not_there_is_made_by_fit(tmp_path):
    pytest.importorskip("uvicorn")
    wrong = run("serve", tmp_path / "no", "--port", 0, code=1).stderr
    assert f"does not exist; check the name, or make it: `dygcn fit EVENTS --out {tmp_path / 'no'}`" in wrong


def test_a_day_is_a_moment_if_its_zone_is_named(saved):
    dygcn.open(saved).close()
    wrong = run("info", saved, "--as-of", "2020-11-17", code=2).stderr
    assert "'2020-11-17T00:00:00Z' for UTC, or '2020-11-17T00:00:00+" in wrong
    assert "moment" not in wrong
    for zone in ("Z", "+01:00"):
        assert (
            "further back than is kept" in run("info", saved, "--as-of", f"2020-11-17{zone}", code=1).stderr
        )


def test_a_file_that_is_not_there_is_not_of_an_unknown_format(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wrong = run("fit", "nosuch", "--out", "x", code=1).stderr
    assert wrong.startswith("error: there is no file 'nosuch' and no data set of this name")
    with pytest.raises(dygcn.DygcnError, match="there is no file 'nosuch' and no data set of this name"):
        dygcn.fit("nosuch")


def test_bad_standard_input_is_called_so(tmp_path):
    for given in (b"", b"src,dst\n1,2,3\n"):
        wrong = run("fit", "-", "--out", tmp_path / "x", code=1, given=given).stderr
        assert wrong.startswith("error: cannot read standard input: "), wrong
    (tmp_path / "e.dat").write_text("")
    wrong = run("fit", tmp_path / "e.dat", "--format", "csv", "--out", tmp_path / "x", code=1).stderr
    assert wrong.startswith(f"error: cannot read '{tmp_path / 'e.dat'}': ")


def test_wrong_usage_is_one_line(saved):
    for arguments, words in (
        (("fit", "e.csv"), "missing option '--out'; see `dygcn fit --help`"),
        (("--nosuch",), "--nosuch"),
        (("nearest", saved), "missing argument 'ID...'"),
        (("nearest", saved, "ann", "-k", "x"), "'x' is not a valid integer"),
        (("what-if", saved), "name a change"),
    ):
        wrong = run(*arguments, code=2).stderr
        assert wrong.startswith("error: "), wrong
        assert len(wrong.splitlines()) == 1
        assert words in wrong
    assert "Commands:" in CliRunner().invoke(main, []).output


def test_a_misspelt_option_is_no_id(saved):
    wrong = run("recommend", saved, "ann", "--kindd", 3, code=2).stderr
    assert "no such option" in wrong
    assert "--kind" in wrong
    assert "no such option" in run("vector", saved, "--kk=3", code=2).stderr
    assert "kind is '--x'" in run("recommend", saved, "ann", "--kind", "--x", code=2).stderr  # a value
    assert "'--kk' is not in the graph" in run("vector", saved, "--", "--kk", code=3).stderr
    run("vector", saved, "--help")


# ---- what is printed -------------------------------------------------------------------------------------


def test_an_interrupted_fit_is_not_done(tmp_path, monkeypatch):
    monkeypatch.setattr(_progress, "QUIET", 0.0)
    (tmp_path / "e.csv").write_text("src,dst\na,b\nb,c\n")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(dygcn.LiveEmbedding, "save", interrupted)
    *lines, last = run("fit", tmp_path / "e.csv", "--out", tmp_path / "x", code=130).stderr.splitlines()
    assert last == "error: interrupted"
    assert lines[-1].startswith("dygcn: ended after")
    assert not [line for line in lines if "done" in line]


@pytest.mark.skipif(os.name == "nt", reason="pipes end in another way there")
def test_a_reader_that_has_seen_enough_is_no_error(tmp_path):
    live = dygcn.fit([(n, n + 1) for n in range(30)], dim=8, features="hashed", progress=False)
    live.update([(n, n + 1) for n in range(30, 3000)])
    live.save(tmp_path / "f")
    command = [*DYGCN, "vector", str(tmp_path / "f"), "--out", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline().startswith(b'"id"')
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_answers_that_are_empty_say_so(saved):
    nothing = run("what-if", saved, "--remove", "ann,dan", "--add", "ann,bob").stdout
    assert "nobody would move" in nothing
    assert "not there to be removed: 1" in nothing
    assert "there already: 1" in nothing
    result = json.loads(run("what-if", saved, "--remove", "ann,dan", "--json").stdout)
    assert (result["moved"], result["missing"], result["unchanged"]) == (0, 1, 0)
    live = dygcn.load(saved)
    assert repr(live.update(remove=[("ann", "dan")])) == "Change(version=1, moved=0, left=0, missing=1)"
    assert repr(live.update(add=[("ann", "bob"), ("ann", "ann")])).endswith("unchanged=1, loops=1)")
    assert repr(live.update(add=[("ann", "dan")])) == "Change(version=3, moved=4, left=0)"


def test_a_node_that_would_be_gone_may_be_asked_about(saved):
    asked = ("what-if", saved, "--remove-node", "ann", "--ask", "ann", "--ask", "bob")
    gone, there = json.loads(run(*asked, "--json").stdout)["asked"]
    assert gone == {"id": "ann", "vector": None, "nearest": None}
    assert len(there["vector"]) == 8
    assert "ann would be gone" in run(*asked).stdout
    run("what-if", saved, "--remove-node", "ann", "--ask", "nobody", code=3)
