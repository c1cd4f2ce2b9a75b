"""Loss of power: the quick size of the check, and what an image must show."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

import pytest

from dygcn.errors import DygcnError
from dygcn.live.durable.opening import open as open_folder
from dygcn.live.embedding import load
from dygcn_lab.soak.promises.disk import Disk, files_of, write_image
from dygcn_lab.soak.promises.disk_trace import ONCE, compile_trace, read_trace
from dygcn_lab.soak.promises.images import Examiner, ImageTally, WriterReport, memory_folder
from dygcn_lab.soak.promises.life import Order
from dygcn_lab.soak.promises.power_loss import Recording, images
from dygcn_lab.soak.promises.script import STREAM, History, Script
from dygcn_lab.soak.promises.writer import begin_folder, writer


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    with writer(compile_trace(tmp_path_factory.mktemp("library").resolve())) as started:
        yield started


@pytest.fixture
def workdir():
    with tempfile.TemporaryDirectory(dir=memory_folder()) as name:
        yield Path(name)


def test_a_record_is_whole_and_has_lives_of_every_end(process, workdir):
    ends = set()
    for seed in range(2):
        recording = Recording(process, workdir, Script(seed, others=11), seed)
        for _ in images(recording, 0, Random(0)):
            pass
        assert recording.is_whole()
        ends |= {name for name, count in recording.ends.items() if count}
        kinds = {call.kind for call in recording.calls}
        assert {"write", "sync", "rename", "mkdir", "note", "process", "truncate"} <= kinds
    assert {"closed", "killed"} <= ends


def test_a_call_that_was_not_recorded_would_be_noticed(process, workdir):
    recording = Recording(process, workdir, Script(2, others=11), 2)
    writes = [i for i, call in enumerate(recording.calls) if call.kind == "write"]
    del recording.calls[writes[-1]]
    for _ in images(recording, 0, Random(0)):
        pass
    assert not recording.is_whole()


def test_images_come_in_the_order_of_their_moments(process, workdir):
    recording = Recording(process, workdir, Script(3, others=11), 3)
    moments, before = [], -1
    for moment, report, files in images(recording, 60, Random(3)):
        assert report.acknowledged >= before
        assert report.begun >= report.acknowledged
        assert "manifest.json" in files
        before = report.acknowledged
        moments.append(moment)
    assert len(moments) == 60
    assert moments == sorted(moments)


def after_a_failed_sync(process, workdir, bug):
    """Let a sync of the journal fail, open the folder again, and lose power: what is found in the images."""
    script, tally = Script(7, others=0), ImageTally()
    for nth in range(100, 200):
        begin_folder(script, workdir / "folder")
        (workdir / "trace").unlink(missing_ok=True)
        disk = Disk(workdir / "folder")
        order = Order(str(workdir / "folder"), 7, others=0, until=25, trace=str(workdir / "trace"), bug=bug)
        order.fault, order.nth, order.leave = ONCE, nth, True
        said = process.live(order)
        if any(one.on == "fdatasync log.sqlite3-wal" and one.what == "failed" for one in said):
            break
    report, random = WriterReport(), Random(7)
    order.fault, order.until = "", 30
    process.live(order)
    examiner, lives, said = Examiner(History(script), workdir, tally), 0, 0
    for call in read_trace(workdir / "trace"):
        disk.apply(call)
        report.hear(call)
        lives += call.kind == "process"
        said += lives == 2 and call.kind == "note"
        for _ in range(25 if said and call.kind == "note" else 0):
            examiner.examine("seed 7", report, disk.after_loss(random))
        if said == 9:
            break
    assert tally.images == 225
    return tally


def test_what_a_failed_sync_left_is_written_again(process, workdir):
    tally = after_a_failed_sync(process, workdir, "")
    assert tally.bad == 0, tally.notes


def test_trust_in_the_next_sync_would_be_noticed(process, workdir):
    assert after_a_failed_sync(process, workdir, "trust the next sync").bad


# ---- the one who looks at images ---------------------------------------------------------------------------


@pytest.fixture
def written(workdir):
    """A folder with ten steps, as files; and its history."""
    script = Script(9, others=0)
    script.begin().save(workdir / "written")
    number = 0
    with open_folder(workdir / "written") as live:
        while number < 10:
            script.send(live, script.group(number))
            number = live.streams[STREAM] + 1
    return files_of(workdir / "written"), History(script), number - 1


def examined(workdir, files, history, report):
    tally = ImageTally()
    examiner = Examiner(history, workdir, tally)
    for _ in range(5):
        examiner.examine("here", report, files)
    return tally


def test_a_whole_image_is_good(written, workdir):
    files, history, last = written
    tally = examined(workdir, files, history, WriterReport(last, last))
    assert (tally.images, tally.bad) == (5, 0)


def test_an_image_that_lost_something_would_be_noticed(written, workdir):
    files, history, last = written
    tally = examined(workdir, files, history, WriterReport(last + 1, last + 1))
    assert tally.lost == 5
    assert f"{last + 1} was acknowledged, {last} is there" in tally.notes[0]


def test_an_image_that_knows_too_much_would_be_noticed(written, workdir):
    files, history, last = written
    assert examined(workdir, files, history, WriterReport(last - 1, last - 1)).wrong == 5


def test_an_image_that_does_not_open_would_be_noticed(written, workdir):
    files, history, last = written
    tally = examined(workdir, files | {"log.sqlite3": b"no log"}, history, WriterReport(last, last))
    assert tally.refused == 5
    assert str(workdir) not in tally.notes[0]


def test_images_lie_in_memory_where_there_is_one(monkeypatch):
    assert memory_folder() in ("/dev/shm", None)
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert memory_folder() is None


def test_what_writers_say_is_heard_from_the_record(process, workdir):
    recording, report = Recording(process, workdir, Script(5, others=11), 5), WriterReport()
    for call in recording.calls:
        report.hear(call)
    assert report.begun >= report.acknowledged > 10


# ---- a folder that is begun --------------------------------------------------------------------------------

BEGINS = """
import sys
import dygcn
from dygcn.engine.models import folder
from dygcn_lab.soak.promises.disk_trace import DiskTrace
from dygcn_lab.soak.promises.script import Script
root, trace, left_out = sys.argv[1:]
for which in ("sync_file", "sync_names"):
    sync = getattr(folder, which)
    setattr(folder, which, lambda path, sync=sync: None if path.name == left_out else sync(path))
script, disk = Script(4), DiskTrace()
disk.watch(root, trace)
live = dygcn.open(f"{root}/deep/er/folder", script.begin())
disk.note("opened")
script.send(live, script.group(0))
disk.note("acknowledged")
live.close()
script.begin().save(f"{root}/saved")
disk.note("saved")
script.begin().save(f"{root}/saved")
"""


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """Records of a program that begins a folder, and saves another one twice; and without some syncs."""
    workdir = tmp_path_factory.mktemp("begun").resolve()
    library = compile_trace(workdir)

    def run(left_out=""):
        root, trace = workdir / f"root{left_out}", workdir / f"trace{left_out}"
        root.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", BEGINS, str(root), str(trace), left_out and root.name],
            env=os.environ | {"LD_PRELOAD": str(library)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return list(read_trace(trace)), files_of(root)

    return {"": run(), "x": run("x")}


def lost_power(calls, workdir, *wanted):
    """Yield what was said, and an image, after every third call and some time after these were said."""
    (workdir / "empty").mkdir()
    disk, random, said = Disk(workdir / "empty"), Random(4), ""
    for i, call in enumerate(calls):
        disk.apply(call)
        said = call.data.decode() if call.kind == "note" else said
        for draw in range(6 if said in wanted and i % 3 == 0 else 0):
            image = workdir / f"image{i}-{draw}"
            write_image(disk.after_loss(random), image)
            yield said, image


def holds(said, image):
    """Say whether a folder that was begun is there, with what was acknowledged."""
    script = Script(4)
    try:
        with open_folder(image / "deep" / "er" / "folder") as live:
            found = live.streams.get(STREAM, -1)
            report = script.group(0)[-1] if said == "acknowledged" else -1
            return found >= report and live.digest() == History(script).digest(found)
    except DygcnError:
        return False


def has_copy(image):
    """Say whether a saved copy is there, in its place or beside it."""
    return any(
        "deep" not in manifest.parts and loads(manifest.parent) for manifest in image.glob("**/manifest.json")
    )


def loads(folder):
    try:
        return load(folder).digest() == Script(4).begin().digest()
    except DygcnError:
        return False


def test_the_record_of_a_beginning_is_whole(begun, workdir):
    calls, files = begun[""]
    (workdir / "empty").mkdir()
    disk = Disk(workdir / "empty")
    for call in calls:
        disk.apply(call)
    assert disk.now() == files


def test_a_new_folder_outlives_a_loss_of_power_with_all_folders_above_it(begun, workdir):
    found = [holds(*one) for one in lost_power(begun[""][0], workdir, "opened", "acknowledged")]
    assert len(found) > 50
    assert all(found)


def test_a_saved_copy_outlives_a_loss_of_power_while_another_takes_its_place(begun, workdir):
    found = [has_copy(image) for _, image in lost_power(begun[""][0], workdir, "saved")]
    assert len(found) > 50
    assert all(found)


def test_names_that_are_not_synced_would_be_noticed(begun, workdir):
    assert not all(holds(*one) for one in lost_power(begun["x"][0], workdir, "opened", "acknowledged"))


def test_an_old_copy_that_goes_too_early_would_be_noticed(begun, workdir):
    assert not all(has_copy(image) for _, image in lost_power(begun["x"][0], workdir, "saved"))
