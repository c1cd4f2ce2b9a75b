"""Checks of a sink that gets rows of several histories: a refit, a restored copy, a stale writer."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from dygcn.testing.sink_model import made_up_history, make_rows
from dygcn.testing.sink_trial import DIM, Fresh, Trial, expect, expect_other_history

if TYPE_CHECKING:
    from collections.abc import Callable

    from dygcn.engine.records import History
    from dygcn.serving.sinks import Sink


def check_rows_say_their_history(fresh: Fresh) -> None:
    """Each row says generation, epoch, version and chain, and `open` says the newest of them."""
    with Trial(fresh, "int64") as checked:
        for generation, version in ((1, 9), (1, 10), (9, 3), (10, 2), (2**53, 2**53), (2**53 + 1, 0)):
            history = made_up_history(version, generation)
            checked.write({1: version, version + 2: version}, generation=generation)
            checked.compare(f"after rows of generation {generation}")
            _expect_open(checked, history)
        checked.write({}, left={1: 1}, generation=2**53 + 1)
        _expect_open(checked, made_up_history(1, 2**53 + 1))
        checked.delete_below(0, made_up_history(2, 2**53 + 1))
        checked.compare("after delete_below")
        _expect_open(checked, made_up_history(2, 2**53 + 1))
        checked.delete_below(0, made_up_history(0, 2**62))
        checked.compare("after delete_below for an epoch without rows")
    with Trial(fresh, "string") as checked:
        checked.write({"a": 4, "b": 4})
        checked.write({"a": 5, "c": 5}, left={"b": 5}, generation=2)
        checked.compare("after rows of two generations")


def check_refit(fresh: Fresh) -> None:
    """A second history at the same place, with smaller versions: each row is replaced, old ones end."""
    with Trial(fresh, "int64") as checked:
        checked.write(dict.fromkeys(range(1500), 700), left=dict.fromkeys(range(2000, 2010), 700))
        checked.reopen()
        checked.write(dict.fromkeys(range(1000), 3), generation=2)
        checked.write({2000: 3, 2001: 3}, left={1400: 3, 5000: 3}, generation=2)
        checked.compare("while rows of another history come")
        checked.delete_below(0, made_up_history(3, 2))
        checked.compare("after rows of the old history were taken out")
        expect(not checked.place.read_all().keys() & {1001, 1400, 1499}, "a row of the old history is there")
        checked.write({5: 4, 1400: 4, 1450: 4, 2002: 4}, generation=2)
        checked.compare("after nodes came that the old history had, too")
        checked.delete_below(4, made_up_history(4, 2))
        checked.compare("after delete_below of all but the last")
        checked.reopen()
        checked.delete_below(0, made_up_history(1, 3))
        checked.compare("after a third history without any node")


def check_stale_writer(fresh: Fresh) -> None:
    """Whoever writes for an older history is refused from the first row of a newer one on."""
    with Trial(fresh, "int64") as checked, closing(checked.place.make()) as stale:
        checked.write({1: 5, 2: 5, 3: 5})
        stale.open("int64", DIM)
        stale.write(make_rows({1: 6}, dim=DIM))
        checked.model.write(make_rows({1: 6}, dim=DIM))
        checked.write({1: 2}, generation=2)
        _expect_refused(checked, stale, 7)
        stale.close()
        stale.open("int64", DIM)
        _expect_refused(checked, stale, 8)
        checked.delete_below(0, made_up_history(2, 2))
        _expect_refused(checked, stale, 9)
        checked.delete_below(0, made_up_history(0, 3))  # an epoch that has no node
        _expect_refused(checked, stale, 10)
        checked.write({4: 3}, generation=3)
        _expect_refused(checked, stale, 11)
        _expect_refused(checked, stale, 11, generation=2)


def check_equal_generation(fresh: Fresh) -> None:
    """Two epochs of one generation: nobody knows which is newer, so the second is refused."""
    with Trial(fresh, "int64") as checked, closing(checked.place.make()) as other:
        checked.write({1: 5, 2: 5}, epoch="one")
        held = other.open("int64", DIM)
        expect(held == made_up_history(5, epoch="one"), f"open() says {held} of another epoch")
        _expect_refused(checked, other, 6, epoch="two")
        _expect_refused(checked, other, 4, epoch="two")
        checked.write({1: 7}, epoch="one")
        _expect_refused(checked, other, 8, epoch="two")


def check_restored_copy(fresh: Fresh) -> None:
    """A copy of a history that went another way is known by its chain; a new epoch takes its place."""
    with Trial(fresh, "int64") as checked, closing(checked.place.make()) as copy:
        checked.write({1: 4, 2: 4, 3: 4})
        checked.write({1: 6, 9: 6}, left={3: 6}, branch="lost")
        held, lost = copy.open("int64", DIM), made_up_history(6, branch="lost")
        expect(held == lost, f"the newest that was written is {lost}; open() says {held}")
        _expect_refused(checked, copy, 6, branch="copy")
        checked.write({1: 5, 2: 5, 3: 5}, generation=2)
        checked.delete_below(5, made_up_history(5, 2))
        checked.compare("after the copy was written in an epoch of its own")
        expect(9 not in checked.place.read_all(), "a row of the lost future is there")
        _expect_refused(checked, checked.sink, 7, branch="lost")


def check_repeated_histories(fresh: Fresh) -> None:
    """Writes and deletions that come again, in one epoch after another, change nothing."""
    with Trial(fresh, "string") as checked:
        for generation in (1, 2):
            for version in (8 - generation, 9 - generation):
                rows = make_rows(
                    dict.fromkeys("abcd"[:version], version),
                    {f"{version}": version},
                    dim=DIM,
                    generation=generation,
                )
                for _ in range(2):
                    checked.write_rows(rows)
                    checked.compare(f"after version {version} of generation {generation}, twice")
            for _ in range(2):
                checked.delete_below(9 - generation, made_up_history(9 - generation, generation))
                checked.compare("after delete_below twice")
            checked.write_rows(rows)
            checked.compare("after a write from before delete_below")
            checked.reopen()


def _expect_open(checked: Trial, expected: History) -> None:
    """Open a sink beside the open one; it must say which position is the newest."""
    with closing(checked.place.make()) as beside:
        found = beside.open(checked.ids, checked.dim)
    expect(found == expected, f"the newest that was written is {expected}; open() says {found}")


def _expect_refused(
    checked: Trial, sink: Sink, version: int, generation: int = 1, epoch: str = "", branch: str = ""
) -> None:
    """Expect that neither rows nor a delete_below of a history are taken, and that nothing changed."""
    history = made_up_history(version, generation, epoch, branch)
    moved, left = {2: version, 77: version}, {1: version}
    rows = make_rows(moved, left, dim=DIM, generation=generation, epoch=epoch, branch=branch)
    for attempt in ("", " again"):
        expect_other_history(f"a write for {history}{attempt}", sink.write, rows)
        checked.compare(f"after a write for {history} was refused")
        expect_other_history(f"delete_below for {history}{attempt}", sink.delete_below, version, history)
        checked.compare(f"after delete_below for {history} was refused")


HISTORY_CHECKS: dict[str, Callable[[Fresh], None]] = {
    check.__name__.removeprefix("check_"): check
    for check in (
        check_rows_say_their_history,
        check_refit,
        check_stale_writer,
        check_equal_generation,
        check_restored_copy,
        check_repeated_histories,
    )
}
"""The checks of this module, by name."""
