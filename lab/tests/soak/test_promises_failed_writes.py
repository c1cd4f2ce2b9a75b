"""Failed writes: the quick size of the check, and what the judge must notice."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dygcn_lab.soak.promises.disk_trace import FULL, ONCE, SHORT, compile_trace
from dygcn_lab.soak.promises.failed_writes import BEGINNINGS, MUTANTS, Case, Trial, spread
from dygcn_lab.soak.promises.images import memory_folder
from dygcn_lab.soak.promises.life import Event, Order
from dygcn_lab.soak.promises.script import Script
from dygcn_lab.soak.promises.writer import begin_folder, writer


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    with writer(compile_trace(tmp_path_factory.mktemp("library").resolve())) as started:
        yield started


@pytest.fixture(scope="module")
def trial(process):
    with tempfile.TemporaryDirectory(dir=memory_folder()) as workdir:
        yield Trial(process, Path(workdir), 5)


@pytest.fixture
def another(process):
    """A trial of which nothing was asked yet."""
    with tempfile.TemporaryDirectory(dir=memory_folder()) as workdir:
        yield Trial(process, Path(workdir), 7)


def test_every_operation_of_both_runs_is_a_case(trial):
    cases = trial.all_cases()
    assert {case.beginning for case in cases} == set(BEGINNINGS)
    assert {case.kind for case in cases} == {ONCE, FULL, SHORT}
    for beginning in BEGINNINGS:
        numbers = {case.nth for case in cases if case.beginning == beginning}
        assert numbers == set(range(1, max(numbers) + 1))
        assert len(numbers) > 80


def test_cases_are_spread_over_all_of_them():
    cases = [Case("new", ONCE, i) for i in range(100)]
    assert spread(cases, 1000) == cases
    assert [case.nth for case in spread(cases, 4)] == [0, 25, 50, 75]


def test_each_kind_of_end_is_counted(trial):
    trial.run(Case("new", ONCE, 1))  # the lock: the folder is not opened
    assert trial.tally.not_opened == 1
    tally = trial.tally
    for nth in range(100, 160):  # which operation has which number depends on when snapshots are written
        trial.run(Case("used", ONCE, nth))
        trial.run(Case("used", SHORT, nth))
        if tally.named > 4 and tally.short > 0:
            break
    assert tally.bad == 0, tally.notes
    assert tally.named > 4
    assert tally.short > 0
    assert tally.cases == tally.named + tally.not_opened + tally.short + tally.survived.total()
    assert tally.images.images == 3 * tally.cases
    assert 0 < tally.slowest < 1


def test_an_operation_that_never_comes_is_no_case(trial):
    before = trial.tally.cases
    trial.run(Case("new", ONCE, 100_000))
    assert trial.tally.cases == before
    assert trial.tally.bad == 0


CASE = Case("used", ONCE, 100)


@pytest.mark.parametrize(
    ("report", "counted"),
    [
        (
            Event(
                "failed",
                error="WriteFailed",
                text="a write to x failed",
                on="fsync a",
                seconds=0.1,
                refused=2,
            ),
            "named",
        ),
        (
            Event(
                "failed",
                error="WriteFailed",
                text="a write to x failed",
                on="fsync a",
                seconds=2.0,
                refused=2,
            ),
            "late",
        ),
        (
            Event(
                "failed", error="WriteFailed", text="a write to x", on="a", seconds=0.1, refused=1, accepted=1
            ),
            "accepted",
        ),
        (
            Event("failed", error="WriteFailed", text="a write to x", on="a", refused=2, answered=False),
            "wrong",
        ),
        (Event("failed", error="OSError", text="[Errno 5]", on="fsync a", seconds=0.1, refused=2), "wrong"),
        (Event("refused", error="StorageError", text="...", on="open lock", seconds=0.1), "not_opened"),
    ],
    ids=["named", "late", "accepted", "reads fail", "another error", "not opened"],
)
def test_the_judge_looks_at_everything_that_is_promised(another, report, counted):
    assert another._judge(CASE, [report, Event("ended")])
    assert getattr(another.tally, counted) == 1
    assert (another.tally.bad > 0) == (counted not in ("named", "not_opened"))


def test_a_process_that_ends_in_another_way_would_be_noticed(another):
    assert another._judge(CASE, [Event("recovered"), Event("ended", status=256)])
    assert another.tally.wrong == 1


def test_a_failure_that_is_hidden_would_be_noticed(process, another):
    workdir = another._workdir
    begin_folder(Script(8, others=11), workdir / "folder")
    order = Order(str(workdir / "folder"), 8, others=11, until=12, trace=str(workdir / "trace"))
    order.fault, order.nth, order.bug = ONCE, 80, MUTANTS[0]
    said = process.live(order)
    assert any(one.what == "closed" and one.on for one in said), said
    assert another._judge(CASE, said)
    assert another.tally.hidden == 1
    assert "and more was acknowledged" in another.tally.notes[0]


SAVES = """
import sys
from dygcn.errors import DygcnError
from dygcn_lab.soak.promises.disk_trace import DiskTrace
from dygcn_lab.soak.promises.script import Script
root, disk, live = sys.argv[1], DiskTrace(), Script(1).begin()
disk.watch(root)
for kind in ("error", "disk full", "short write"):
    nth, came = 0, True
    while came or (kind == "short write" and nth < 25):
        nth += 1
        disk.fail(nth, kind)
        path = f"{root}/{kind}/{nth}"
        try:
            live.save(path)
            said = "saved"
        except DygcnError as error:
            said = "named" if path in str(error) or f"{root}/{kind}" in str(error) else str(error)
        came = disk.fault() is not None
        print(kind, nth, said if came else "nothing came", sep="|")
"""


def test_a_copy_that_cannot_be_saved_is_a_named_error(tmp_path):
    """Every operation of `save` fails once: nothing but errors of ours that say where."""
    root = (tmp_path / "root").resolve()
    root.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", SAVES, str(root)],
        env=os.environ | {"LD_PRELOAD": str(compile_trace(tmp_path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split("|") for line in done.stdout.splitlines()]
    assert len(lines) > 40
    for kind, _, said in lines:
        assert said in (("saved", "nothing came") if kind == "short write" else ("named", "nothing came"))
    assert [said for _, _, said in lines].count("named") > 20
