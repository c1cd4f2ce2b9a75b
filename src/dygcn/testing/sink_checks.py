"""The contract of sinks, as checks for any of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np

from dygcn.engine.records import Rows
from dygcn.errors import SinkError
from dygcn.testing.sink_model import (
    DIM,
    Fresh,
    NodeId,
    SinkModel,
    SinkTrial,
    expect,
    expect_error,
    expect_open,
    expect_refused,
    made_up_history,
    make_rows,
)

KINDS = "user:int64,item:string"
PATIENCE = 60.0  # seconds until an interrupted sink must take rows again
ODD_IDS = (
    "", " ", "7", "007", "-0", "1e3", "null", "about", "node:about", "deleted_below",
    "a:b:c", "*", "?", "[a-z]",
    "{}", "%s", "{id}", "$1", "\\", "\\N", "\\.", "'", '"', "';--", "a\nb", "a\r\nb", "\t", "\x01", "\x7f",
    "é", "e\u0301", "ÿ", "ß", "İ", "日本語", "🦜", "\u202e", "\ufeff", "\U0010ffff", "x" * 256, "é" * 128,
)  # fmt: skip
ODD_NUMBERS = (
    0.0, -0.0, 1e-45, -1e-45, 1.1754942e-38, 1.1754944e-38, 3.4028235e38, -3.4028235e38, 0.1, 1 / 3,
    16777217.0, 1e21, 1e22, 5e-324, 7.0e-10, 123456789.0, 8.5899346e9, 2.3509887e-38, 1.0, -1.5,
)  # fmt: skip
EXTREME_IDS = (-(2**63), -(2**63) + 1, -(2**53) - 1, -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1)


def check_rows_arrive(fresh: Fresh) -> None:
    """Vectors arrive bit for bit: denormals, negative zero, the least and the greatest; versions, too."""
    numbers = np.array(ODD_NUMBERS, np.float64).astype(np.float32)
    vectors = np.stack([np.roll(numbers, by) for by in range(len(numbers))])
    ids, first = range(len(vectors)), 2**53 + 1  # where doubles no longer tell two integers apart
    one, two, three = (make_rows(dict.fromkeys(ids, first + by), dim=len(numbers)) for by in range(3))
    shared = replace(three, vectors=np.repeat(vectors, 2, axis=1)[:, ::2])
    with SinkTrial(fresh, "int64", len(numbers)) as trial:
        trial.after("a write", replace(one, vectors=vectors))
        trial.after("vectors in another memory order", replace(two, vectors=np.asfortranarray(-vectors)))
        trial.after("vectors that share their memory with others", shared)


def check_repeats(fresh: Fresh) -> None:
    """A repeated write changes nothing, and an older version never replaces a later one."""
    with SinkTrial(fresh, "int64") as trial:
        trial.after("a repeated write", {1: 10, 2: 10}, {1: 10, 2: 10})
        trial.after("an older write came again", {2: 11, 3: 11}, {1: 10, 2: 10})
        trial.after("a write of older and newer versions", {1: 9, 2: 12, 4: 3})
        later = {1: 2**53, 2: 2**62, 3: 2**63 - 1}
        trial.after("a later version that is the same as a double", later, {1: 2**53 + 1})
        older = {1: 2**53, 2: 2**62 - 1, 3: 2**63 - 2}
        trial.after("older versions that are the same as doubles", older)
        trial.after("versions that grew by a digit", {5: 9, 6: 99}, {5: 10, 6: 100})
        trial.after("older ones that are greater as texts", {5: 9, 6: 99})


def check_left(fresh: Fresh) -> None:
    """Nodes that left are gone; only a later version brings them back, and no late leaving ends that."""
    with SinkTrial(fresh, "string") as trial:
        trial.after("nodes left", {"a": 1, "b": 1, "c": 1}, ({"d": 2}, {"a": 2, "never": 2}))
        trial.after("older rows of nodes that left", {"a": 1, "b": 1, "c": 1}, {"never": 1})
        trial.after("a repeated leaving", ({}, {"b": 3}), ({"d": 2}, {"a": 2, "never": 2}))
        trial.after("a node came back", {"a": 4, "b": 2})
        late = [({}, {"a": 3, "c": 3}), {"c": 2}, ({}, {"e": 5}), ({}, {"e": 3}), {"e": 4}]
        trial.after("a late leaving", *late)
        trial.after("older rows to a sink that was opened again", "reopen", {"b": 2, "c": 1, "never": 1})


def check_below(fresh: Fresh) -> None:
    """`delete_below` ends every row below a version, and nothing else."""
    with SinkTrial(fresh, "int64") as trial:
        trial.after("delete_below at an empty target", 0)
        trial.after("delete_below", {1: 1, 2: 5, 3: 9}, ({4: 10}, {5: 4}), 5)
        trial.after("delete_below twice", 5)
        trial.after("older rows of deleted nodes", {1: 1, 5: 3})
        trial.after("later rows", ({1: 11}, {3: 11}))
        trial.after("delete_below of many", dict.fromkeys(range(1100), 100), 100)
        trial.after("delete_below of all", 101)
        trial.after("a row came back", {1: 102})


def check_other_shapes(fresh: Fresh) -> None:
    """Rows of another shape are refused, and so is a target with rows of another shape."""
    row = make_rows({1: 1}, dim=DIM)
    with SinkTrial(fresh, "int64") as trial:
        for wrong in (
            make_rows({1: 1}, dim=DIM + 1),
            make_rows({"a": 1}, dim=DIM),
            make_rows({}, left={"a": 1}, dim=DIM),
            make_rows({1: -1}, dim=DIM),
            replace(row, vectors=np.zeros((1, DIM))),  # type: ignore[arg-type]
            replace(row, vectors=np.zeros((2, DIM), np.float32)),
            replace(row, history=replace(made_up_history(1), epoch="../../x")),
            replace(row, history=replace(made_up_history(1), chain="")),
            replace(row, history=replace(made_up_history(1), generation=-1)),
        ):
            expect_error(f"a write of {wrong}", trial.sink.write, wrong)
        trial.after("writes that were refused")
        trial.after("a write that was not", {1: 1})
        for type_, dim in (("int64", DIM + 1), ("string", DIM), (KINDS, DIM), ("float", DIM), ("int64", 0)):
            with closing(trial.target.make()) as other:
                expect_error(f"{type_} of size {dim}", other.open, type_, dim)
                expect_error("a write to a refused target", other.write, make_rows({}, dim=DIM))
        trial.after("delete_below of the last node", ({}, {1: 2}), 3)
        with closing(trial.target.make()) as other:
            expect_error("another size where the last node left", other.open, "int64", DIM + 1)
        trial.after("others were refused", {2: 3})


def check_ids(fresh: Fresh) -> None:
    """Ids arrive as they are: the least and greatest integers, odd texts, texts that look alike."""
    for type_, ids in (("int64", EXTREME_IDS), ("string", ODD_IDS)):
        with SinkTrial(fresh, type_) as trial:
            trial.after(f"{type_} ids", dict.fromkeys(ids, 1))
            some = dict.fromkeys(ids[::2], 2), dict.fromkeys(ids[1::2], 2)
            trial.after(f"{type_} ids, some of which left", some)
            trial.after(f"delete_below of {type_} ids", dict.fromkeys(ids, 1), 2)


def check_kinds(fresh: Fresh) -> None:
    """Rows of a graph with kinds say the kind of their node; a target without kinds is refused, and back."""
    odd = [f"item:{id_}" for id_ in ODD_IDS[:-2]]
    with SinkTrial(fresh, KINDS) as trial:
        trial.after("nodes of two kinds", dict.fromkeys(("user:7", "item:7", "user:item:7", *odd), 1))
        some = {"user:7": 2, odd[0]: 2}, {"item:7": 2, odd[1]: 2}
        trial.after("some of them left", some, {"item:7": 1})
        expect_error("an id without kind", trial.sink.write, make_rows({"7": 3}, dim=DIM))
        trial.after("rows to a sink that was opened again", "reopen", {"item:7": 3, "user:-8": 3})
        trial.sink.open(f"{KINDS},shop:int64", DIM)
        trial.after("a kind was added", {"shop:7": 4})
        trial.after("delete_below", 3)
    for ours, other, id_ in ((KINDS, "string", "item:7"), ("string", KINDS, "item:7"), ("int64", KINDS, 7)):
        with SinkTrial(fresh, ours) as trial:
            trial.after("a row", {id_: 1})
            with closing(trial.target.make()) as beside:
                expect_error(f"ids of type {other} where {ours} are", beside.open, other, DIM)
            trial.after("another was refused", {id_: 2})


def check_nul(fresh: Fresh) -> None:
    """An id with a NUL character is kept, or refused with all that came with it; it never becomes another."""
    with SinkTrial(fresh, "string") as trial:
        rows = make_rows({"a\0b": 1, "c": 1}, dim=DIM)
        try:
            trial.sink.write(rows)
        except SinkError as error:
            expect("a\\x00b" in str(error), f"the error does not name the id: {error}")
        else:
            trial.model.write(rows)
        trial.after("an id with a NUL")
        trial.after("others", {"a": 2, "b": 2})


def check_sizes(fresh: Fresh) -> None:
    """No rows, only nodes that left, one row, and thousands in one write."""
    with SinkTrial(fresh, "int64") as trial:
        trial.after("nothing was written", {})
        trial.after("only a leaving", ({}, {9: 1}))
        many = dict.fromkeys(range(2200), 3)
        trial.after("thousands of rows", {9: 2}, (many, dict.fromkeys(range(-500, 0), 3)))
        trial.after("they came again, late", (dict.fromkeys(range(2199), 4), {2199: 4}), many)
    with SinkTrial(fresh, "string", 1) as trial:
        trial.after("vectors of one number", {f"node {number}": 7 for number in range(1100)})


def check_opening_and_closing(fresh: Fresh) -> None:
    """Closing twice, or what was never open, is fine; a closed sink refuses rows; it can be opened again."""
    target = fresh()
    never = target.make()
    never.close()
    never.close()
    expect_error("a write before open", never.write, make_rows({1: 1}, dim=DIM))
    expect_error("delete_below before open", never.delete_below, 1, made_up_history(1))
    with SinkTrial(lambda: target, "int64") as trial:
        trial.after("a write", {1: 1})
        expect(trial.sink.name == never.name, f"the name changed from {never.name} to {trial.sink.name}")
        trial.sink.open("int64", DIM)
        trial.after("it was opened twice", {2: 2})
        trial.sink.close()
        trial.sink.close()
        expect_error("a write to a closed sink", trial.sink.write, make_rows({1: 1}, dim=DIM))
        trial.sink.open("int64", DIM)
        trial.after("it was closed and opened again", {1: 3}, "reopen", {1: 2, 3: 2})


def check_two_writers(fresh: Fresh) -> None:
    """Of two that write at the same time, the later version wins, row by row."""
    with SinkTrial(fresh, "int64") as trial:
        writes = []
        for version in range(1, 31):
            moved = {id_: version for id_ in (*range(40), 100 + version) if id_ != version}
            writes.append(make_rows(moved, left={version: version}, dim=DIM))
        errors: list[BaseException] = []
        together = threading.Barrier(2, timeout=PATIENCE)

        def write(order: Sequence[int]) -> None:
            with closing(trial.target.make()) as sink:
                try:
                    sink.open("int64", DIM)
                    together.wait()
                    for number in order:
                        sink.write(writes[number])
                except BaseException as error:
                    errors.append(error)
                    together.abort()

        orders = (range(0, 30, 2), range(29, 0, -2))
        writers = [threading.Thread(target=write, args=(order,)) for order in orders]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        expect(not errors, f"a writer failed beside another: {errors}")
        for rows in writes:
            trial.model.write(rows)
        trial.after("two wrote at the same time")


def check_interrupted(fresh: Fresh, rounds: int = 3) -> None:
    """A server that is killed while rows come loses nothing that was written, once they come again."""
    with SinkTrial(fresh, "int64") as trial:
        interrupt = trial.target.interrupt
        if interrupt is None:
            return
        trial.after("a write", {1: 1, 2: 1})
        interrupt()
        trial.after("the server was killed and started again")
        written = 0
        for round_ in range(rounds):
            killer = threading.Timer(0.02 * round_, interrupt)
            killer.start()
            while killer.is_alive() or written % 3:
                written += 1
                moved = dict.fromkeys(range(written % 5, 400, 1 + written % 3), written + 1)
                rows = make_rows(moved, left={400 + written: written + 1}, dim=DIM)
                _until_taken(trial.sink.write, rows)
                trial.model.write(rows)
            killer.join()
            trial.after(f"it was killed in the middle, time {round_ + 1}")
        interrupt()
        history = made_up_history(written + 1)
        _until_taken(trial.sink.delete_below, written, history)
        trial.model.delete_below(written, history)
        trial.after("a kill and delete_below")


def check_rows_say_their_history(fresh: Fresh) -> None:
    """Each row says generation, epoch, version and chain, and `open` returns the newest of them."""
    last = 2**53 + 1
    with SinkTrial(fresh, "int64") as trial:
        for generation, version in ((1, 9), (1, 10), (9, 3), (10, 2), (2**53, 2**53), (last, 0)):
            moved = {1: version, version + 2: version}
            trial.after(f"rows of generation {generation}", moved, generation=generation)
            expect_open(trial, made_up_history(version, generation))
        trial.after("a node left", ({}, {1: 1}), generation=last)
        expect_open(trial, made_up_history(1, last))
        trial.after("delete_below", (0, made_up_history(2, last)))
        expect_open(trial, made_up_history(2, last))
        trial.after("delete_below for an epoch without rows", (0, made_up_history(0, 2**62)))
    with SinkTrial(fresh, "string") as trial:
        trial.after("rows of one generation", {"a": 4, "b": 4})
        trial.after("rows of two generations", ({"a": 5, "c": 5}, {"b": 5}), generation=2)


def check_refit(fresh: Fresh) -> None:
    """A second history on the same target, with smaller versions: each row is replaced, old ones end."""
    with SinkTrial(fresh, "int64") as trial:
        old = dict.fromkeys(range(1100), 700), dict.fromkeys(range(2000, 2010), 700)
        trial.after("an old history", old, "reopen")
        new = [dict.fromkeys(range(1000), 3), ({2000: 3, 2001: 3}, {1050: 3, 5000: 3})]
        trial.after("some rows of another history came", *new, generation=2)
        trial.after("rows of the old history were deleted", (0, made_up_history(3, 2)))
        still = trial.target.read_all().keys() & {1001, 1050, 1099}
        expect(not still, "a row of the old history is there")
        again = {5: 4, 1050: 4, 1060: 4, 2002: 4}
        trial.after("nodes came that the old history had, too", again, generation=2)
        trial.after("delete_below of all but the last", (4, made_up_history(4, 2)))
        trial.after("a third history without any node", "reopen", (0, made_up_history(1, 3)))


def check_stale_writer(fresh: Fresh) -> None:
    """A writer for an older history is refused from the first row of a newer one on."""
    with SinkTrial(fresh, "int64") as trial, closing(trial.target.make()) as stale:
        trial.after("a write", {1: 5, 2: 5, 3: 5})
        stale.open("int64", DIM)
        stale.write(make_rows({1: 6}, dim=DIM))
        trial.model.write(make_rows({1: 6}, dim=DIM))
        trial.after("rows of a newer history came", {1: 2}, generation=2)
        expect_refused(trial, stale, 7)
        stale.close()
        stale.open("int64", DIM)
        expect_refused(trial, stale, 8)
        trial.after("delete_below", (0, made_up_history(2, 2)))
        expect_refused(trial, stale, 9)
        trial.after("delete_below for an epoch that has no node", (0, made_up_history(0, 3)))
        expect_refused(trial, stale, 10)
        trial.after("rows of that epoch", {4: 3}, generation=3)
        expect_refused(trial, stale, 11)
        expect_refused(trial, stale, 11, generation=2)


def check_equal_generation(fresh: Fresh) -> None:
    """Of two epochs of one generation, none is known to be newer, so the second is refused."""
    with SinkTrial(fresh, "int64") as trial, closing(trial.target.make()) as other:
        trial.after("one epoch", {1: 5, 2: 5}, epoch="one")
        held = other.open("int64", DIM)
        expect(held == made_up_history(5, epoch="one"), f"open() says {held} of another epoch")
        expect_refused(trial, other, 6, epoch="two")
        expect_refused(trial, other, 4, epoch="two")
        trial.after("more of it", {1: 7}, epoch="one")
        expect_refused(trial, other, 8, epoch="two")


def check_restored_copy(fresh: Fresh) -> None:
    """A copy of a history that diverged is known by its chain; a new epoch takes its place."""
    with SinkTrial(fresh, "int64") as trial, closing(trial.target.make()) as copy:
        trial.after("a write", {1: 4, 2: 4, 3: 4})
        trial.after("a future that is lost", ({1: 6, 9: 6}, {3: 6}), branch="lost")
        held, lost = copy.open("int64", DIM), made_up_history(6, branch="lost")
        expect(held == lost, f"the newest that was written is {lost}; open() says {held}")
        expect_refused(trial, copy, 6, branch="copy")
        trial.after("rows of the copy, in an epoch of its own", {1: 5, 2: 5, 3: 5}, generation=2)
        trial.after("the copy is complete", (5, made_up_history(5, 2)))
        expect(9 not in trial.target.read_all(), "a row of the lost future is there")
        expect_refused(trial, trial.sink, 7, branch="lost")


def check_repeated_histories(fresh: Fresh) -> None:
    """Writes and deletions that come again, in one epoch after another, change nothing."""
    with SinkTrial(fresh, "string") as trial:
        for generation in (1, 2):
            for version in (8 - generation, 9 - generation):
                moved, left = dict.fromkeys("abcd"[:version], version), {f"{version}": version}
                rows = make_rows(moved, left, dim=DIM, generation=generation)
                for _ in range(2):
                    trial.after(f"version {version} of generation {generation}, twice", rows)
            for _ in range(2):
                trial.after("delete_below twice", (version, made_up_history(version, generation)))
            trial.after("a write from before delete_below", rows)
            trial.after("opening again", "reopen")


SINK_CHECKS: dict[str, Callable[[Fresh], None]] = {  # all checks but the random one, by name
    name.removeprefix("check_"): check for name, check in globals().items() if name.startswith("check_")
}


def check_sink(fresh: Fresh, examples: int = 10) -> None:
    """Check that a sink does what `dygcn.serving.sinks.Sink` promises.

    Parameters
    ----------
    fresh
        Returns a new target at each call.
    examples
        Random sequences of writes to try for each type of ids.

    Raises
    ------
    AssertionError
        If it does not; the text says what was expected.
    """
    for check in SINK_CHECKS.values():
        check(fresh)
    check_random_sequences(fresh, examples)


def check_random_sequences(fresh: Fresh, examples: int = 10) -> None:
    """Check random writes, repeats and deletions against a dict, for each type of ids."""
    for type_, ids in (
        ("int64", (-3, 0, 7, 2**40)),
        ("string", ("", "a", "a:b", "é")),
        (KINDS, ("user:0", "item:0", "item:", "item:é")),
    ):
        for seed in range(examples):
            _follow(fresh, type_, list(_random_steps(np.random.default_rng(seed), ids)))


def _random_steps(random: np.random.Generator, ids: Sequence[NodeId]) -> Iterator[Any]:
    """Yield writes (ids at versions), and now and then a floor or what else happens to a sink."""
    for _ in range(random.integers(3, 13)):
        version = int(random.integers(13))
        if random.random() < 0.25:
            yield ("reopen", "repeat all", "refit", version)[random.integers(4)]
        else:
            chosen = random.permutation(len(ids))[: random.integers(1, len(ids) + 1)]
            yield {ids[at]: int(random.integers(13)) for at in chosen}


def _follow(fresh: Fresh, type_: str, steps: Sequence[Any]) -> None:
    floor, generation = 0, 1
    written: list[Rows] = []
    with SinkTrial(fresh, type_, 3) as trial:
        for step in steps:
            if step == "reopen":
                trial.after("reopen", "reopen")
                if trial.model.newest is None:
                    floor, written = 0, []
            elif step == "refit":
                floor, generation, written = 0, generation + 1, []
                trial.after("refit", (0, made_up_history(0, generation)))
            elif step == "repeat all":
                trial.after("repeat all", *written)
            elif isinstance(step, int):
                floor = max(floor, step)
                trial.after(f"{step}", (step, made_up_history(12, generation)))
            else:
                news = _content(trial.model, step, floor, generation)
                written += news
                trial.after(f"{step}", *news)


def _content(model: SinkModel, pairs: dict[NodeId, int], floor: int, generation: int) -> list[Rows]:
    """Return writes; whether a node moved or left at a version is the same each time.

    Rows that were never written and are older than a floor do not occur, so nothing is promised for them.
    """
    known = {id_: at.sequence for id_, (at, _) in model.known.items() if at.generation == generation}
    pairs = {id_: at for id_, at in pairs.items() if at >= floor or (id_ in known and at <= known[id_])}
    moved = {id_: at for id_, at in pairs.items() if (len(str(id_)) + at) % 4}
    left = {id_: at for id_, at in pairs.items() if id_ not in moved}
    writes = []
    for version in dict.fromkeys(pairs.values()):
        of = [{id_: at for id_, at in one.items() if at == version} for one in (moved, left)]
        writes.append(make_rows(*of, dim=3, generation=generation))
    return writes


def _until_taken(what: Callable[..., None], *arguments: object) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return what(*arguments)
        except SinkError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
