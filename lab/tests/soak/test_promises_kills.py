"""Kills: the quick size of the check; the process that is killed; and what the judge must notice."""

import os
import signal
import tempfile
from pathlib import Path

import pytest

from dygcn_lab.soak.promises import points
from dygcn_lab.soak.promises.images import memory_folder
from dygcn_lab.soak.promises.kills import Campaign
from dygcn_lab.soak.promises.life import Event, Order
from dygcn_lab.soak.promises.script import History, Script
from dygcn_lab.soak.promises.writer import begin_folder, writer


@pytest.fixture(scope="module")
def process():
    with writer() as started:
        yield started


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(dir=memory_folder()) as workdir:
        yield Path(workdir) / "folder"


def heard(said, what):
    return [one for one in said if one.what == what]


def test_a_life_tells_each_request_before_and_after(process, folder):
    script = Script(3)
    begin_folder(script, folder)
    said = process.live(Order(str(folder), 3, until=30, every=20))
    begun, done = heard(said, "begun"), heard(said, "acknowledged")
    assert [one.step for one in begun] == [one.step for one in done]
    assert done[-1].step == 29
    assert [one.what for one in (said[0], said[-2], said[-1])] == ["recovered", "closed", "ended"]
    assert heard(said, "closed")[0].digest == History(script).digest(29)
    assert said[-1].status == 0


def test_a_later_life_goes_on_and_sends_the_last_steps_again(process, folder):
    script = Script(4, others=0)
    begin_folder(script, folder)
    order = Order(str(folder), 4, others=0, until=script.before(20, 0), close=False)
    first = process.live(order)
    assert os.WTERMSIG(first[-1].status) == signal.SIGKILL
    second = process.live(Order(str(folder), 4, others=0, done=order.until - 1, until=25))
    assert second[0].step == order.until - 1
    assert heard(second, "begun")[0].step < order.until
    assert heard(second, "closed")[0].digest == History(script).digest(heard(second, "begun")[-1].step)


@pytest.mark.parametrize("point", sorted(points.POINTS))
def test_every_point_is_reached_and_survived(process, folder, point):
    script = Script(6)
    begin_folder(script, folder)
    process.live(Order(str(folder), 6, until=16, every=30, close=False))
    said = process.live(Order(str(folder), 6, done=15, until=40, every=30, point=point))
    assert os.WIFSIGNALED(said[-1].status), said
    acknowledged = max([15, *(one.step for one in heard(said, "acknowledged"))])
    begun = max([acknowledged, *(one.step for one in heard(said, "begun"))])
    again = process.live(Order(str(folder), 6, done=acknowledged, until=40))
    found, history = heard(again, "recovered")[0], History(script)
    assert history.place(found.digest, found.step, acknowledged, begun) is not None
    closed = heard(again, "closed")[0]
    assert closed.digest == history.digest(heard(again, "begun")[-1].step)
    assert found.doubles == 0
    if point in points.RECOVERY:
        assert not heard(said, "recovered")


def test_a_life_is_killed_when_its_time_has_come(process, folder):
    begin_folder(Script(7), folder)
    said = process.live(Order(str(folder), 7, until=100_000, seconds=0.2))
    assert os.WTERMSIG(said[-1].status) == signal.SIGKILL
    assert not heard(said, "closed")


def test_an_order_that_cannot_be_lived_is_told(process, folder):
    said = process.live(Order(str(folder), 1))
    assert (said[0].what, said[0].error) == ("refused", "MissingFolder")


class Recited:
    """Stands for the process, and says what it is given."""

    def __init__(self, *lives):
        self.lives = list(lives)

    def live(self, order):
        return [*self.lives.pop(0), Event("ended", status=9)]

    def errors(self):
        return ""


def campaign(folder, *lives):
    judged = Campaign(Recited(*lives), folder, Script(1, others=0), 1)
    for _ in lives:
        judged._live(judged._next_order())
    return judged.tally


def recovered(step, history, doubles=0, digest=None):
    return Event("recovered", step, history.digest(step) if digest is None else digest, doubles)


def test_the_judge_notices_what_is_lost_doubled_or_wrong(folder):
    history = History(Script(1, others=0))
    written = [recovered(-1, history), Event("begun", 5), Event("acknowledged", 5), Event("begun", 6)]
    assert campaign(folder, written, [recovered(5, history)]).bad == 0
    assert campaign(folder, written, [recovered(6, history)]).bad == 0  # on disk, and not told
    lost = campaign(folder, written, [recovered(4, history)])
    assert (lost.lost, lost.wrong) == (1, 0)
    assert "5 was acknowledged, 4 is there" in lost.notes[0]
    assert "seed 1" in lost.notes[0]
    assert campaign(folder, written, [recovered(5, history, doubles=2)]).doubled == 2
    assert campaign(folder, written, [recovered(5, history, digest="other")]).wrong == 1
    assert campaign(folder, written, [recovered(8, history)]).wrong == 1  # nobody sent that
    refused = campaign(folder, written, [Event("refused", error="DamagedLog", text=f"{folder} is")])
    assert (refused.lost, refused.wrong) == (1, 0)
    assert refused.notes[0].endswith("it does not open: DamagedLog: folder is")
    assert campaign(folder, written, [Event("failed", error="WriteFailed", text="...")]).wrong == 1


def test_kills_during_recovery_are_counted(folder):
    history = History(Script(1, others=0))
    tally = campaign(folder, [], [recovered(-1, history)])
    assert (tally.kills, tally.lives, tally.in_recovery) == (2, 2, 1)
