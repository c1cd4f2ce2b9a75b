"""Loss of power: the quick size of the check, and what an image must show."""

import tempfile
from pathlib import Path
from random import Random

import pytest

from dygcn.live.opening import open as open_folder
from dygcn.testing.promises.disk import files_of
from dygcn.testing.promises.disk_trace import compile_trace
from dygcn.testing.promises.images import Examiner, ImageTally, Told, memory_folder
from dygcn.testing.promises.power_loss import CHECK, Recording, images
from dygcn.testing.promises.script import STREAM, History, Script
from dygcn.testing.promises.writer import writer


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    with writer(compile_trace(tmp_path_factory.mktemp("library").resolve())) as started:
        yield started


@pytest.fixture
def room():
    with tempfile.TemporaryDirectory(dir=memory_folder()) as name:
        yield Path(name)


def test_acknowledged_outlives_a_loss_of_power_and_the_seeded_bugs_would_be_noticed():
    finding = CHECK.run(CHECK.quick, 0)
    assert finding.holds, finding
    assert finding.mutant_caught, finding
    assert finding.bad == 0
    assert finding.size == CHECK.quick


@pytest.mark.slow
def test_acknowledged_outlives_a_loss_of_power_at_full_size():
    finding = CHECK.run(CHECK.full, 1)
    assert finding.holds, finding
    assert finding.mutant_caught, finding


def test_a_record_is_whole_and_has_lives_of_every_end(process, room):
    ends = set()
    for seed in range(2):
        recording = Recording(process, room, Script(seed, others=11), seed)
        for _ in images(recording, 0, Random(0)):
            pass
        assert recording.is_whole()
        ends |= {name for name, count in recording.ends.items() if count}
        kinds = {call.kind for call in recording.calls}
        assert {"write", "sync", "rename", "mkdir", "note", "process", "truncate"} <= kinds
    assert {"closed", "killed"} <= ends


def test_a_call_that_was_not_recorded_would_be_noticed(process, room):
    recording = Recording(process, room, Script(2, others=11), 2)
    writes = [i for i, call in enumerate(recording.calls) if call.kind == "write"]
    del recording.calls[writes[-1]]
    for _ in images(recording, 0, Random(0)):
        pass
    assert not recording.is_whole()


def test_images_come_in_the_order_of_their_moments(process, room):
    recording = Recording(process, room, Script(3, others=11), 3)
    moments, before = [], -1
    for moment, told, files in images(recording, 60, Random(3)):
        assert told.acknowledged >= before
        assert told.begun >= told.acknowledged
        assert "manifest.json" in files
        before = told.acknowledged
        moments.append(moment)
    assert len(moments) == 60
    assert moments == sorted(moments)


# ---- the one who looks at images ---------------------------------------------------------------------------


@pytest.fixture
def written(room):
    """A folder with ten steps, as files; and its history."""
    script = Script(9, others=0)
    script.begin().save(room / "written")
    number = 0
    with open_folder(room / "written") as live:
        while number < 10:
            script.send(live, script.group(number))
            number = live.streams[STREAM] + 1
    return files_of(room / "written"), History(script), number - 1


def examined(room, files, history, told):
    tally = ImageTally()
    examiner = Examiner(history, room, tally)
    for _ in range(5):
        examiner.examine("here", told, files)
    return tally


def test_a_whole_image_is_good(written, room):
    files, history, last = written
    tally = examined(room, files, history, Told(last, last))
    assert (tally.images, tally.bad) == (5, 0)


def test_an_image_that_lost_something_would_be_noticed(written, room):
    files, history, last = written
    tally = examined(room, files, history, Told(last + 1, last + 1))
    assert tally.lost == 5
    assert f"{last + 1} was acknowledged, {last} is there" in tally.notes[0]


def test_an_image_that_knows_too_much_would_be_noticed(written, room):
    files, history, last = written
    assert examined(room, files, history, Told(last - 1, last - 1)).wrong == 5


def test_an_image_that_does_not_open_would_be_noticed(written, room):
    files, history, last = written
    tally = examined(room, files | {"log.sqlite3": b"no log"}, history, Told(last, last))
    assert tally.refused == 5
    assert str(room) not in tally.notes[0]


def test_images_lie_in_memory_where_there_is_one(monkeypatch):
    assert memory_folder() in ("/dev/shm", None)
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert memory_folder() is None


def test_what_writers_say_is_heard_from_the_record(process, room):
    recording, told = Recording(process, room, Script(5, others=11), 5), Told()
    for call in recording.calls:
        told.hear(call)
    assert told.begun >= told.acknowledged > 10
