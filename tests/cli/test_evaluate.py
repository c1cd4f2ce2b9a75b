"""`dygcn evaluate` on a small file."""

import json

import pytest
from click.testing import CliRunner

from dygcn.cli import main


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    path = tmp_path_factory.mktemp("evaluate") / "events.csv"
    rows = [f"u{i * 5 % 11},i{i * 5 % 11 + i % 2},{i}" for i in range(300)]
    path.write_text("user,item,when\n" + "\n".join(rows) + "\n")
    return path


def run(path, *options, code=0):
    named = ["--src", "user", "--dst", "item", "--t", "when", "--dim", "8"]
    done = CliRunner().invoke(main, ["evaluate", str(path), *named, *map(str, options)])
    assert done.exit_code == code, (done.output, done.exception)
    return done


def test_people_read_a_sentence_and_a_table(events):
    shown = run(events, "--kinds", "user,item", "--questions", 40).stdout
    assert shown.startswith(("Use ", "Tied"))
    assert "all events: 40 questions of " in shown
    assert "recent popularity" in shown


def test_machines_read_json(events):
    found = json.loads(run(events, "--json", "--seed", 3).stdout)
    assert (found["fitted"], found["followed"]) == (210, 90)
    rows = found["tables"]["all events"]["rows"]
    assert {"dygcn", "recency", "popularity", "EASE"} <= set(rows)
    assert set(rows["dygcn"]["MRR"]) == {"mean", "low", "high"}


def test_a_picture_is_written(events, tmp_path):
    pytest.importorskip("matplotlib").use("agg")
    run(events, "--plot", tmp_path / "out.png")
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    done = run(events, "--plot", tmp_path / "out.moon", code=2)
    assert "--plot" in done.stderr
    assert "all events" in done.stdout


def test_too_few_events_are_refused(tmp_path):
    path = tmp_path / "few.csv"
    path.write_text("user,item,when\n" + "".join(f"u{i},i{i},{i}\n" for i in range(20)))
    assert "6 events come after the first 70 % of 20" in run(path, code=1).stderr
