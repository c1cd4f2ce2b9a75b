"""A plugin for pytest that says how many updates were run."""

from dygcn.engine import graph
from dygcn.engine.models.state import State

COUNT = {"updates": 0}


def counting(whole):
    def call(*arguments, **options):
        COUNT["updates"] += 1
        return whole(*arguments, **options)

    return call


def pytest_configure():
    graph.apply_batch = counting(graph.apply_batch)
    State.write = counting(State.write)


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):  # of pytest-xdist
        session.config.workeroutput.update(COUNT)


def pytest_testnodedown(node):
    COUNT["updates"] += getattr(node, "workeroutput", COUNT | {"updates": 0})["updates"]  # none if it crashed


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"{COUNT['updates']:,} updates were run")
