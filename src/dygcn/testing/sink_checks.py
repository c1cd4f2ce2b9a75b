"""The contract of sinks, as checks for any of them."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn._extras import extra
from dygcn.engine.records import Rows
from dygcn.errors import SinkError
from dygcn.testing.history_checks import HISTORY_CHECKS
from dygcn.testing.sink_model import NodeId, SinkModel, made_up_history, make_rows
from dygcn.testing.sink_trial import DIM, Fresh, SinkTarget, Trial, expect, expect_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["SINK_CHECKS", "SinkTarget", "check_random_sequences", "check_sink"]
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


def check_rows_arrive(fresh: Fresh) -> None:
    """Vectors arrive bit for bit: denormals, negative zero, the least and the greatest; versions, too."""
    numbers = np.array(ODD_NUMBERS, np.float64).astype(np.float32)
    vectors = np.stack([np.roll(numbers, by) for by in range(len(numbers))])
    ids, first = range(len(vectors)), 2**53 + 1  # where doubles no longer tell two integers apart
    one, two, three = (make_rows(dict.fromkeys(ids, first + by), dim=len(numbers)) for by in range(3))
    with Trial(fresh, "int64", len(numbers)) as checked:
        checked.write_rows(replace(one, vectors=vectors))
        checked.compare("after a write")
        checked.write_rows(replace(two, vectors=np.asfortranarray(-vectors)))
        checked.compare("after one whose vectors lie in memory the other way round")
        wide = np.repeat(vectors, 2, axis=1)[:, ::2]
        checked.write_rows(replace(three, vectors=wide, versions=np.repeat(three.versions, 2)[::2]))
        checked.compare("after one that shares its memory with others")


def check_repeats(fresh: Fresh) -> None:
    """A repeated write changes nothing, and an older version never replaces a later one."""
    with Trial(fresh, "int64") as checked:
        checked.write({1: 10, 2: 10})
        checked.write({1: 10, 2: 10})
        checked.compare("after a repeated write")
        checked.write({2: 11, 3: 11})
        checked.write({1: 10, 2: 10})
        checked.compare("after an older write came again")
        checked.write({1: 9, 2: 12, 4: 3})
        checked.compare("after a write of older and newer versions")
        checked.write({1: 2**53, 2: 2**62, 3: 2**63 - 1})
        checked.write({1: 2**53 + 1})
        checked.compare("after a later version that is the same as a double")
        checked.write({1: 2**53, 2: 2**62 - 1, 3: 2**63 - 2})
        checked.compare("after older versions that are the same as doubles")
        checked.write({5: 9, 6: 99})
        checked.write({5: 10, 6: 100})
        checked.compare("after versions that grew by a digit")
        checked.write({5: 9, 6: 99})
        checked.compare("after older ones that are greater as texts")


def check_left(fresh: Fresh) -> None:
    """Nodes that left are gone; only a later version brings them back, and no late leaving ends that."""
    with Trial(fresh, "string") as checked:
        checked.write({"a": 1, "b": 1, "c": 1})
        checked.write({"d": 2}, left={"a": 2, "never": 2})
        checked.compare("after nodes left")
        checked.write({"a": 1, "b": 1, "c": 1})
        checked.write({"never": 1})
        checked.compare("after older rows of nodes that left")
        checked.write({}, left={"b": 3})
        checked.write({"d": 2}, left={"a": 2, "never": 2})
        checked.compare("after a repeated leaving")
        checked.write({"a": 4, "b": 2})
        checked.compare("after a node came back")
        checked.write({}, left={"a": 3, "c": 3})
        checked.write({"c": 2})
        checked.write({}, left={"e": 5})
        checked.write({}, left={"e": 3})
        checked.write({"e": 4})
        checked.compare("after a late leaving")
        checked.reopen()
        checked.write({"b": 2, "c": 1, "never": 1})
        checked.compare("after older rows to a sink that was opened again")


def check_below(fresh: Fresh) -> None:
    """Settling ends every row below a version, and nothing else."""
    with Trial(fresh, "int64") as checked:
        checked.delete_below(0)
        checked.compare("after delete_below at an empty place")
        checked.write({1: 1, 2: 5, 3: 9})
        checked.write({4: 10}, left={5: 4})
        checked.delete_below(5)
        checked.compare("after delete_below")
        checked.delete_below(5)
        checked.compare("after delete_below twice")
        checked.write({1: 1, 5: 3})
        checked.compare("after older rows of deleted nodes")
        checked.write({1: 11}, left={3: 11})
        checked.compare("after later rows")
        checked.write(dict.fromkeys(range(1500), 100))
        checked.delete_below(100)
        checked.compare("after delete_below of many")
        checked.delete_below(101)
        checked.compare("after delete_below of all")
        checked.write({1: 102})
        checked.compare("after a row came back")


def check_other_shapes(fresh: Fresh) -> None:
    """Rows of another shape are refused, and so is a target with rows of another shape."""
    with Trial(fresh, "int64") as checked:
        for wrong in (
            make_rows({1: 1}, dim=DIM + 1),
            make_rows({"a": 1}, dim=DIM),
            make_rows({}, left={"a": 1}, dim=DIM),
            make_rows({1: -1}, dim=DIM),
            replace(make_rows({1: 1}, dim=DIM), vectors=np.zeros((1, DIM))),  # type: ignore[arg-type]
            replace(make_rows({1: 1}, dim=DIM), versions=np.array([1, 2])),
            replace(make_rows({1: 1}, left={2: 1}, dim=DIM), left_versions=np.array([1, 2])),
            replace(make_rows({1: 1}, dim=DIM), history=made_up_history(2)),
            replace(make_rows({}, left={1: 1}, dim=DIM), left_versions=np.array([2])),
            replace(make_rows({1: 1}, dim=DIM), history=replace(made_up_history(1), epoch="../../x")),
            replace(make_rows({1: 1}, dim=DIM), history=replace(made_up_history(1), chain="")),
            replace(make_rows({1: 1}, dim=DIM), history=replace(made_up_history(1), generation=-1)),
        ):
            expect_error(f"a write of {wrong}", checked.sink.write, wrong)
        checked.compare("after writes that were refused")
        checked.write({1: 1})
        checked.compare("after a write that was not")
        for type_, dim in (("int64", DIM + 1), ("string", DIM), (KINDS, DIM), ("float", DIM), ("int64", 0)):
            other = checked.place.make()
            expect_error(f"{type_} of size {dim}", other.open, type_, dim)
            expect_error("a write to a refused place", other.write, make_rows({}, dim=DIM))
            other.close()
        checked.write({}, left={1: 2})
        checked.delete_below(3)
        other = checked.place.make()
        expect_error("another size where the last node left", other.open, "int64", DIM + 1)
        other.close()
        checked.write({2: 3})
        checked.compare("after others were refused")


def check_ids(fresh: Fresh) -> None:
    """Ids arrive as they are: the least and greatest integers, odd texts, texts that look alike."""
    for type_, ids in (("int64", EXTREME_IDS), ("string", ODD_IDS)):
        with Trial(fresh, type_) as checked:
            checked.write(dict.fromkeys(ids, 1))
            checked.compare(f"after {type_} ids")
            checked.write(dict.fromkeys(ids[::2], 2), left=dict.fromkeys(ids[1::2], 2))
            checked.compare(f"after {type_} ids, some of which left")
            checked.write(dict.fromkeys(ids, 1))
            checked.delete_below(2)
            checked.compare(f"after delete_below of {type_} ids")


def check_kinds(fresh: Fresh) -> None:
    """Rows of a graph with kinds say the kind of their node; a target without kinds is refused, and back."""
    odd = [f"item:{id_}" for id_ in ODD_IDS[:-2]]
    with Trial(fresh, KINDS) as checked:
        checked.write(dict.fromkeys(("user:7", "item:7", "user:item:7", *odd), 1))
        checked.compare("after nodes of two kinds")
        checked.write({"user:7": 2, odd[0]: 2}, left={"item:7": 2, odd[1]: 2})
        checked.write({"item:7": 1})
        checked.compare("after some of them left")
        expect_error("an id without kind", checked.sink.write, make_rows({"7": 3}, dim=DIM))
        checked.reopen()
        checked.write({"item:7": 3, "user:-8": 3})
        checked.sink.open(f"{KINDS},shop:int64", DIM)
        checked.write({"shop:7": 4})
        checked.compare("after a kind was added")
        checked.delete_below(3)
        checked.compare("after delete_below")
    for ours, other, id_ in ((KINDS, "string", "item:7"), ("string", KINDS, "item:7"), ("int64", KINDS, 7)):
        with Trial(fresh, ours) as checked:
            checked.write({id_: 1})
            beside = checked.place.make()
            expect_error(f"ids of type {other} where {ours} are", beside.open, other, DIM)
            beside.close()
            checked.write({id_: 2})
            checked.compare("after another was refused")


def check_nul(fresh: Fresh) -> None:
    """An id with a NUL character is kept, or refused with all that came with it; it never becomes another."""
    with Trial(fresh, "string") as checked:
        rows = make_rows({"a\0b": 1, "c": 1}, dim=DIM)
        try:
            checked.sink.write(rows)
        except SinkError as error:
            expect("a\\x00b" in str(error), f"the error does not name the id: {error}")
        else:
            checked.model.write(rows)
        checked.compare("after an id with a NUL")
        checked.write({"a": 2, "b": 2})
        checked.compare("after others")


def check_sizes(fresh: Fresh) -> None:
    """No rows, only nodes that left, one row, and thousands in one write."""
    with Trial(fresh, "int64") as checked:
        checked.write({})
        checked.compare("after nothing was written")
        checked.write({}, left={9: 1})
        checked.compare("after only a leaving")
        checked.write({9: 2})
        many = dict.fromkeys(range(5000), 3)
        checked.write(many, left=dict.fromkeys(range(-500, 0), 3))
        checked.compare("after thousands of rows")
        checked.write(dict.fromkeys(range(4999), 4), left={4999: 4})
        checked.write(many)
        checked.compare("after they came again, late")
    with Trial(fresh, "string", 1) as checked:
        checked.write({f"node {number}": 7 for number in range(1200)})
        checked.compare("after vectors of one number")


def check_opening_and_closing(fresh: Fresh) -> None:
    """Closing twice, or what was never open, is fine; a closed sink refuses rows; it can be opened again."""
    place = fresh()
    never = place.make()
    never.close()
    never.close()
    expect_error("a write before open", never.write, make_rows({1: 1}, dim=DIM))
    expect_error("delete_below before open", never.delete_below, 1, made_up_history(1))
    name = never.name
    with Trial(lambda: place, "int64") as checked:
        checked.write({1: 1})
        expect(checked.sink.name == name, f"the name changed from {name} to {checked.sink.name}")
        checked.sink.open("int64", DIM)
        checked.write({2: 2})
        checked.sink.close()
        checked.sink.close()
        expect_error("a write to a closed sink", checked.sink.write, make_rows({1: 1}, dim=DIM))
        checked.sink.open("int64", DIM)
        checked.write({1: 3})
        checked.reopen()
        checked.write({1: 2, 3: 2})
        checked.compare("after it was closed and opened again")


def check_two_writers(fresh: Fresh) -> None:
    """Of two that write at the same time, the later version wins, row by row."""
    with Trial(fresh, "int64") as checked:
        writes = [
            make_rows(
                {id_: version for id_ in (*range(40), 100 + version) if id_ != version},
                left={version: version},
                dim=DIM,
            )
            for version in range(1, 31)
        ]
        errors: list[BaseException] = []
        together = threading.Barrier(2, timeout=PATIENCE)

        def write(order: Sequence[int]) -> None:
            sink = checked.place.make()
            try:
                sink.open("int64", DIM)
                together.wait()
                for place in order:
                    sink.write(writes[place])
            except BaseException as error:
                errors.append(error)
                together.abort()
            finally:
                sink.close()

        orders = (range(0, 30, 2), range(29, 0, -2))
        writers = [threading.Thread(target=write, args=(order,)) for order in orders]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        expect(not errors, f"a writer failed beside another: {errors}")
        for rows in writes:
            checked.model.write(rows)
        checked.compare("after two wrote at the same time")


def check_interrupted(fresh: Fresh, rounds: int = 3) -> None:
    """A server that is killed while rows come loses nothing that was written, once they come again."""
    with Trial(fresh, "int64") as checked:
        interrupt = checked.place.interrupt
        if interrupt is None:
            return
        checked.write({1: 1, 2: 1})
        interrupt()
        checked.compare("after the server was killed and started again")
        written = 0
        for round_ in range(rounds):
            killer = threading.Thread(target=_after, args=(0.02 * round_, interrupt))
            killer.start()
            while killer.is_alive() or written % 3:
                written += 1
                moved = dict.fromkeys(range(written % 5, 400, 1 + written % 3), written + 1)
                rows = make_rows(moved, left={400 + written: written + 1}, dim=DIM)
                _until_taken(checked.sink.write, rows)
                checked.model.write(rows)
            killer.join()
            checked.compare(f"after it was killed in the middle, time {round_ + 1}")
        interrupt()
        history = made_up_history(written + 1)
        _until_taken(checked.sink.delete_below, written, history)
        checked.model.delete_below(written, history)
        checked.compare("after a kill and delete_below")


SINK_CHECKS: dict[str, Callable[[Fresh], None]] = {
    check.__name__.removeprefix("check_"): check
    for check in (
        check_rows_arrive,
        check_repeats,
        check_left,
        check_below,
        check_other_shapes,
        check_ids,
        check_kinds,
        check_nul,
        check_sizes,
        check_opening_and_closing,
        check_two_writers,
        check_interrupted,
    )
} | HISTORY_CHECKS
"""All checks but the random one, by name."""


def check_random_sequences(fresh: Fresh, examples: int = 10) -> None:
    """Check random writes, repeats and deletions against a dict, for each type of ids."""
    with extra("dev"):
        from hypothesis import HealthCheck, given, settings  # noqa: PLC0415
        from hypothesis import strategies as draw  # noqa: PLC0415

    def follow(type_: str, ids: Sequence[NodeId]) -> None:
        pairs = draw.dictionaries(draw.sampled_from(ids), draw.integers(0, 12), min_size=1)
        rare = draw.one_of(draw.integers(0, 12), draw.sampled_from(("reopen", "repeat all", "refit")))
        steps = draw.lists(draw.one_of(pairs, pairs, pairs, rare), min_size=3, max_size=12)
        checked = given(steps)(lambda steps: _follow(fresh, type_, steps))
        unhurried = [HealthCheck.too_slow, HealthCheck.data_too_large]
        settings(max_examples=examples, deadline=None, database=None, suppress_health_check=unhurried)(
            checked
        )()

    follow("int64", (-3, 0, 7, 2**40))
    follow("string", ("", "a", "a:b", "é"))
    follow(KINDS, ("user:0", "item:0", "item:", "item:é"))


def _follow(fresh: Fresh, type_: str, steps: Sequence[Any]) -> None:
    floor, generation = 0, 1
    written: list[Rows] = []
    with Trial(fresh, type_, 3) as checked:
        for step in steps:
            if step == "reopen":
                checked.reopen()
                if checked.model.newest is None:
                    floor, written = 0, []
            elif step == "refit":
                floor, generation, written = 0, generation + 1, []
                checked.delete_below(0, made_up_history(0, generation))
            elif step == "repeat all":
                for rows in written:
                    checked.write_rows(rows)
            elif isinstance(step, int):
                floor = max(floor, step)
                checked.delete_below(step, made_up_history(12, generation))
            else:
                news = _content(checked.model, step, floor, generation)
                written += news
                for rows in news:
                    checked.write_rows(rows)
            checked.compare(f"after {step!r}")


def _content(model: SinkModel, pairs: dict[NodeId, int], floor: int, generation: int) -> list[Rows]:
    """Return writes; whether a node moved or left at a version is the same each time.

    What was never written and is older than a floor does not happen, so nothing is promised.
    """
    known = {
        id_: at.sequence for id_, (at, _) in model.known.items() if at.generation == generation
    }  # in the last epoch
    pairs = {
        id_: version
        for id_, version in pairs.items()
        if version >= floor or (id_ in known and version <= known[id_])
    }
    moved = {id_: version for id_, version in pairs.items() if (len(str(id_)) + version) % 4}
    left = {id_: version for id_, version in pairs.items() if id_ not in moved}
    return [
        make_rows(
            {id_: at for id_, at in moved.items() if at == version},
            {id_: at for id_, at in left.items() if at == version},
            dim=3,
            generation=generation,
        )
        for version in dict.fromkeys(pairs.values())
    ]


def _until_taken(what: Callable[..., None], *arguments: object) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return what(*arguments)
        except SinkError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def _after(seconds: float, what: Callable[[], None]) -> None:
    time.sleep(seconds)
    what()
