"""`dygcn dead-letters` of a service."""

import json

import pytest
from click.testing import CliRunner

from dygcn.cli import main
from dygcn.engine.events import read_events
from dygcn.live.durable.source_batch import SourceBatch
from dygcn.live.durable.storage.dead_letters import DeadLetter
from tests.serving.service.conftest import folder, models, serve

__all__ = ["folder", "models", "serve"]
COUNT = 2_500  # more than one request takes


def bury(live):
    events = [json.dumps({"src": 1, "dst": 100 + i}) for i in range(COUNT)]
    dead = [DeadLetter("http:a", i, 0, "t is 9; allowed is up to 8", one) for i, one in enumerate(events)]
    dead.append(DeadLetter("http:b", 0, 0, "weight is -1", json.dumps({"src": 1, "dst": 2, "weight": -1})))
    live._ingest([SourceBatch(read_events([]), dead=tuple(dead))])


@pytest.fixture
def place(serve):
    served = serve()
    bury(served.service.live)
    return served.address


def run(*args, code=0):
    done = CliRunner().invoke(main, ["dead-letters", *map(str, args)])
    assert done.exit_code == code, done.output
    return done.output


def as_json(*args):
    return json.loads(run(*args, "--json"))


def test_letters_are_listed(place):
    found = as_json(place, "list")
    assert (found["total"], len(found["dead_letters"])) == (COUNT + 1, 100)
    assert [one["stream"] for one in as_json(place, "list", "--reason", "weight")["dead_letters"]] == [
        "http:b"
    ]
    assert len(as_json(place, "list", "--stream", "http:a", "--limit", 2000)["dead_letters"]) == 2000
    assert "weight is -1" in run(place, "list", "--limit", 1)
    assert [one["number"] for one in as_json(place, "list", "--number", 7)["dead_letters"]] == [7]


def test_all_of_a_filter_are_replayed(place):
    assert as_json(place, "replay", "--reason", "up to") == {"applied": COUNT, "dead": 0, "missing": []}
    assert as_json(place, "replay", "--all") == {"applied": 0, "dead": 1, "missing": []}  # it ends, too
    assert as_json(place, "list")["total"] == 1


def test_letters_are_corrected(place, tmp_path):
    [letter] = as_json(place, "list", "--stream", "http:b")["dead_letters"]
    file = tmp_path / "corrected.ndjson"
    lines = [{"number": letter["number"], "event": {"src": 1, "dst": 2}}, {"number": 10**6, "event": {}}]
    file.write_text("\n".join(map(json.dumps, lines)))
    done = as_json(place, "replay", "--corrected", file)
    assert done == {"applied": 1, "dead": 0, "missing": [10**6]}
    file.write_text("[1]")
    assert "line 1 is no corrected event" in run(place, "replay", "--corrected", file, code=2)


def test_letters_are_discarded(place):
    number = as_json(place, "list", "--limit", 1)["dead_letters"][0]["number"]
    assert as_json(place, "discard", "--number", number, "--number", 10**6) == {
        "discarded": 1,
        "missing": [10**6],
    }
    assert as_json(place, "discard", "--stream", "http:a", "--limit", 10)["discarded"] == 10
    assert as_json(place, "discard", "--all")["discarded"] == COUNT - 10
    assert as_json(place, "list") == {"total": 0, "dead_letters": []}


def test_what_is_not_named_is_not_touched(place):
    for wrong in (
        ["replay"],
        ["discard"],
        ["replay", "--all", "--stream", "a"],
        ["discard", "--corrected", __file__],
    ):
        run(place, *wrong, code=2)
    assert as_json(place, "list")["total"] == COUNT + 1


def test_a_folder_is_no_address(tmp_path):
    assert "http://" in run(tmp_path, "list", code=2)
