"""Progress: one bar that runs once, in terminals and notebooks; lines elsewhere; nothing if it is short."""

import io
import logging
import math
import sys
import types

import numpy as np
import pytest

import dygcn
from dygcn import _progress
from dygcn._progress import Phases, progress_of
from dygcn.errors import OptionError
from dygcn.live.fitting import phases_of
from dygcn.live.refitting import PHASES


@pytest.fixture(scope="module")
def events():
    random = np.random.default_rng(0)
    return {
        "src": random.integers(0, 80, 300),
        "dst": random.integers(80, 160, 300),
        "t": np.sort(random.integers(0, 8, 300)),
    }


class Terminal(io.StringIO):
    def isatty(self):
        return True


def run_through(plan, calls):
    """Return the fractions of a bar, and the phases in their order."""
    phases, fractions, begun = Phases(plan), [], []
    for call in calls:
        if phases.move(*call):
            begun.append(call[2])
        fractions.append(phases.fraction)
    return fractions, begun


@pytest.mark.parametrize("features", ["walks", "hashed"])
def test_the_bar_of_a_fit_runs_once_from_0_to_100(events, features):
    calls = []
    dygcn.fit(events, dim=8, features=features, progress=lambda *call: calls.append(call))
    plan = phases_of("exact", features)
    fractions, begun = run_through(plan, calls)
    assert fractions == sorted(fractions)
    assert set(begun) <= {name for name, _ in plan}
    assert fractions[0] < 0.3
    assert fractions[-1] == pytest.approx(1)
    if features == "walks":
        assert begun == [name for name, _ in plan]


def test_the_bar_of_a_refit_runs_once(events):
    calls = []
    dygcn.fit(events, dim=8).refit(lambda *call: calls.append(call))
    fractions, begun = run_through(PHASES, calls)
    assert (fractions, begun) == (sorted(fractions), [name for name, _ in PHASES])


@pytest.fixture
def plain_logging(caplog, monkeypatch):
    """Logging as a library finds it: a service in this process may have configured it."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [one for one in root.handlers if one.get_name() != "dygcn"])
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.INFO, "dygcn")


@pytest.mark.usefixtures("plain_logging")
def test_what_is_short_prints_nothing(events, capfd, caplog):
    with progress_of("auto") as notify:
        notify(1, 1, "thinking")
    dygcn.fit([(1, 2), (2, 3)], dim=4)
    assert (capfd.readouterr(), caplog.messages) == (("", ""), [])


@pytest.mark.usefixtures("plain_logging")
def test_elsewhere_there_is_a_line_for_each_phase(events, monkeypatch, caplog, capfd):
    monkeypatch.setattr(_progress, "QUIET", 0.0)
    monkeypatch.setattr(_progress, "APART", math.inf)  # however slow the machine is

    def logged():
        return [record.getMessage() for record in caplog.records if record.name == "dygcn"]

    dygcn.fit(events, dim=8, features="hashed", progress=False)
    assert logged() == []
    dygcn.fit(events, dim=8, features="hashed")
    *phases, last = logged()
    assert [line.partition(":")[0] for line in phases] == ["playing events", "training", "training"]
    assert last.startswith("done in ")
    assert capfd.readouterr() == ("", "")


def test_lines_of_a_phase_are_seconds_apart(monkeypatch):
    clock, lines = [0.0], []
    monkeypatch.setattr(_progress.time, "monotonic", lambda: clock[0])
    with progress_of("auto", [("training", 1)], lines.append) as notify:
        for second in range(35):
            clock[0] = float(second)
            notify(second, 35, "training")
    assert lines == [
        "training: 6%, 2 s",
        "training: 34%, 12 s",
        "training: 63%, 22 s",
        "training: 91%, 32 s",
        "done in 34 s",
    ]


def test_a_terminal_has_a_bar_even_while_nothing_is_said(monkeypatch):
    monkeypatch.setattr(_progress, "QUIET", 0.05)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_of("auto", [("training", 1)]) as notify:
        _progress.time.sleep(0.6)
        assert "starting" in sys.stderr.getvalue()
        notify(1, 2, "training")
        with progress_of("auto") as inner:
            assert inner is None
        _progress.time.sleep(0.4)
    assert "training" in sys.stderr.getvalue()
    assert "50%" in sys.stderr.getvalue()


def test_a_terminal_is_left_alone_by_what_is_short(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    dygcn.fit([(1, 2), (2, 3)], dim=4)
    assert sys.stderr.getvalue() == ""


def test_a_notebook_has_a_bar_that_goes_away(monkeypatch):
    shown = []
    handle = types.SimpleNamespace(update=shown.append)
    display = types.ModuleType("IPython.display")
    display.HTML = str
    display.display = lambda html, display_id: (shown.append(html), handle)[1]
    shell = types.ModuleType("IPython")
    shell.display, shell.get_ipython = display, lambda: types.SimpleNamespace(kernel=None)
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    with progress_of("auto", [("reading", 1), ("training", 1)]) as notify:
        notify(1, 2, "reading")
    assert shown == []
    monkeypatch.setattr(_progress, "QUIET", 0.0)
    with progress_of("auto", [("reading", 1), ("training", 1)]) as notify:
        notify(1, 2, "reading")
        notify(1, 2, "training")
    assert [html.partition("value=")[2][:8] for html in shown] == ["'0.2500'", "'0.7500'", ""]
    assert "training, 75%" in shown[1]


def test_what_may_be_asked_for(events):
    with pytest.raises(OptionError, match="progress is 'loud'"):
        dygcn.fit(events, progress="loud")
    for asked in (None, False):
        with progress_of(asked) as notify:
            assert notify is None


def test_a_failure_leaves_nothing_open(monkeypatch):
    with pytest.raises(ZeroDivisionError), progress_of("auto"):
        _ = 1 / 0
    with progress_of("auto") as notify:
        assert notify is not None


def test_a_bar_that_comes_too_late_is_not_drawn(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    bar = _progress._Terminal()
    bar.close()
    bar._begin()  # as a timer does that fired while the call ended
    assert sys.stderr.getvalue() == ""


def test_one_fraction_grows_through_all_phases():
    phases = Phases([("reading", 1), ("training", 1), ("training", 2)])
    moves = [(5, "reading"), (10, "reading"), *((done, "training") for done in (5, 1, 10))]
    found = [(phases.move(done, 10, what), round(phases.fraction, 3)) for done, what in moves]
    assert found == [(True, 0.125), (False, 0.25), (True, 0.375), (True, 0.55), (False, 1.0)]
