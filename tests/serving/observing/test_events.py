"""Changes of state become lines, tries do not; and the log never says for long what is not so."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dygcn.serving.observing import events
from dygcn.serving.observing.events import MOST_LINES, REMIND, WINDOW, Reachable
from dygcn_lab.testbed.seeding import seeded

STEPS = st.lists(
    st.one_of(st.sampled_from(["works", "fails", "report"]), st.floats(0.0, 2 * WINDOW)), max_size=200
)
GOOD, BAD = ("source.connected", "source.recovered"), ("source.lost", "source.still_lost")


class Told:
    """A reachable source with a clock of its own, and the lines it wrote."""

    def __init__(self):
        self.now, self.lines = 0.0, []
        self.state = Reachable("source", "one", clock=lambda: self.now, log=self.log)

    def log(self, event, **fields):
        self.lines.append((self.now, event, fields))

    def do(self, step):
        if isinstance(step, float):
            self.now += step
        elif step == "fails":
            self.state.fails("refused")
        else:
            getattr(self.state, step)()


def check(steps):
    told, failing = Told(), None
    for step in steps:
        told.do(step)
        failing = {"works": False, "fails": True}.get(step, failing)
    for at, _, _ in told.lines:
        assert len([1 for one, _, _ in told.lines if at <= one < at + WINDOW]) <= MOST_LINES
    said = [event for _, event, _ in told.lines]
    for one, other in itertools.pairwise(said):
        assert (one in GOOD) != (other in GOOD) or other == "source.still_lost"
    told.now += WINDOW + REMIND
    told.state.report()  # what was held back is written when somebody looks
    if failing is not None:
        assert told.lines[-1][1] in (BAD if failing else GOOD)
    return told


@given(STEPS)
def test_lines_alternate_are_bounded_and_end_with_the_truth(steps):
    check(steps)


FLAPPING = ["works", "fails"] * 20


def test_without_a_bound_on_lines_it_would_be_noticed():
    with seeded(events, "MOST_LINES", 10**6), pytest.raises(AssertionError):
        check(FLAPPING)


def test_a_state_that_is_never_made_up_for_would_be_noticed():
    with seeded(Reachable, "report", lambda self: None), pytest.raises(AssertionError):
        check([*FLAPPING, "works"])


def test_a_line_for_each_try_would_be_noticed():
    with seeded(events, "REMIND", 0.0), pytest.raises(AssertionError):
        check_tries()


def check_tries():
    told = Told()
    for _ in range(50):
        told.do("fails")
        told.do(0.5)
    told.do("works")
    assert [event for _, event, _ in told.lines] == ["source.lost", "source.recovered"]
    fields = told.lines[-1][2]
    assert (fields["tries"], fields["seconds"]) == (50, 25.0)


def test_many_tries_are_two_lines_and_a_count():
    check_tries()


def test_what_was_suppressed_is_counted():
    told = check([*FLAPPING, "fails"])
    assert sum(fields["suppressed"] or 0 for _, _, fields in told.lines) >= 15


def test_an_outage_is_repeated_every_minute():
    told = Told()
    for _ in range(300):
        told.do("fails")
        told.do(1.0)
    assert [event for _, event, _ in told.lines] == ["source.lost", *["source.still_lost"] * 4]
