"""Readers as their writer sees them: replaced when they die or do not listen, and told every change."""

import os
import signal
import subprocess
from contextlib import contextmanager, suppress

import msgspec
import pytest

from dygcn.serving.service import reader_processes
from dygcn.serving.service.auth import new_token
from dygcn.serving.service.reader_processes import ReaderProcesses, Replace, Start, ToReader, _Reader
from dygcn.serving.service.settings import Http, Limits, LogSettings
from tests.serving.service import streams
from tests.serving.service.streams import until

TOKEN = new_token("one", ["read"])[1]


@pytest.fixture
def told(tmp_path, monkeypatch):
    """What all processes together were told."""
    file = tmp_path / "told"
    file.touch()
    monkeypatch.setenv("DYGCN_TOLD", str(file))
    monkeypatch.setattr(reader_processes, "_MODULE", "tests.serving.readers.obedient")
    return lambda: [msgspec.json.decode(line, type=ToReader) for line in file.read_bytes().splitlines()]


@contextmanager
def running(count=1):
    first = Start([], "nowhere", "int64", "", Http(port=0), Limits(), LogSettings())
    processes = ReaderProcesses(count, lambda: first, "")
    try:
        processes.start()
        yield processes
    finally:
        processes.stop(1.0)


def test_a_reader_that_dies_is_replaced(told):
    with running(2) as processes:
        until(lambda: len(told()) == 2)
        dead = processes.pids
        for pid in dead:
            os.kill(pid, signal.SIGKILL)
        until(lambda: len(told()) == 4)
        assert len(processes.pids) == 2
        assert not set(processes.pids) & set(dead)
        assert all(isinstance(one, Start) for one in told())


def test_a_reader_that_cannot_be_started_is_tried_again(told, monkeypatch):
    """Without memory or file descriptors for a while, a reader is not lost for good."""
    right, failing = subprocess.Popen, []

    def popen(*command, **options):
        if failing:
            raise failing.pop()
        return right(*command, **options)

    monkeypatch.setattr(reader_processes.subprocess, "Popen", popen)
    with running() as processes:
        until(lambda: len(told()) == 1)
        failing += [OSError(24, "Too many open files")] * 2
        os.kill(processes.pids[0], signal.SIGKILL)
        until(lambda: len(told()) == 2)
        assert not failing


def test_readers_are_told_of_changes(told):
    with running(2) as processes:
        until(lambda: len(told()) == 2)
        processes.replace(Replace(Http(tokens=[TOKEN]), Limits()))
        until(lambda: len(told()) == 4)
        assert [one.http.tokens for one in told()[2:]] == [[TOKEN], [TOKEN]]


def test_a_change_longer_than_a_pipe_comes_whole(told):
    with running() as processes:
        until(lambda: len(told()) == 1)
        processes.replace(Replace(Http(tokens=[TOKEN] * 2_000), Limits()))
        until(lambda: len(told()) == 2)
        assert len(told()[1].http.tokens) == 2_000


def test_a_reader_that_does_not_listen_is_replaced(told):
    """It would go on with tokens that are no longer good, and whoever tells it would wait for ever."""
    with running() as processes:
        until(lambda: len(told()) == 1)
        deaf = processes.pids
        os.kill(deaf[0], signal.SIGSTOP)
        processes.replace(Replace(Http(tokens=[TOKEN] * 2_000), Limits()))
        until(lambda: len(told()) == 2)
        assert processes.pids != deaf


def test_a_reader_that_hangs_is_replaced(told, monkeypatch):
    """The system would give it its share of the connections for ever."""
    monkeypatch.setattr(reader_processes, "_SILENT", 2.0)
    with running(2) as processes:
        until(lambda: len(told()) == 2)
        hanging, other = processes.pids
        os.kill(hanging, signal.SIGSTOP)
        until(lambda: len(told()) == 3)
        assert hanging not in processes.pids
        assert other in processes.pids


def _once(self):
    self._run_once()


def _deaf(pipe, data):
    os.set_blocking(pipe, False)
    with suppress(BlockingIOError):
        os.write(pipe, data)


MUTANTS = {
    "a dead reader is not replaced": (
        (_Reader, "_work", _once),
        (test_a_reader_that_dies_is_replaced, test_a_reader_that_does_not_listen_is_replaced),
    ),
    "tokens are not renewed": (
        (ReaderProcesses, "replace", lambda self, message: None),
        (test_readers_are_told_of_changes,),
    ),
    "what does not fit into the pipe is left out": (
        (reader_processes, "_write_soon", _deaf),
        (test_a_change_longer_than_a_pipe_comes_whole, test_a_reader_that_does_not_listen_is_replaced),
    ),
}
NOTICED = [(mutant, check) for mutant, (_, checks) in MUTANTS.items() for check in checks]


@pytest.mark.parametrize(("mutant", "check"), NOTICED)
def test_mutant_would_be_noticed(told, monkeypatch, mutant, check):
    monkeypatch.setattr(*MUTANTS[mutant][0])
    monkeypatch.setattr(streams, "PATIENCE", 3.0)
    with pytest.raises((AssertionError, msgspec.DecodeError)):
        check(told)


def test_a_reader_that_hangs_and_stays_would_be_noticed(told, monkeypatch):
    monkeypatch.setattr(_Reader, "_lines", lambda self, process: process.stdout)
    monkeypatch.setattr(streams, "PATIENCE", 3.0)
    with pytest.raises(AssertionError):
        test_a_reader_that_hangs_is_replaced(told, monkeypatch)


def test_a_failed_start_that_ends_the_supervision_would_be_noticed(told, monkeypatch):
    def work(self):
        with suppress(OSError):
            while not self._stopping.is_set():
                with self._begin() as process:
                    for _ in process.stdout:
                        self._listens.set()

    monkeypatch.setattr(_Reader, "_work", work)
    monkeypatch.setattr(streams, "PATIENCE", 3.0)
    with pytest.raises(AssertionError):
        test_a_reader_that_cannot_be_started_is_tried_again(told, monkeypatch)
