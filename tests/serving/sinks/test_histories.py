"""Which history may write where another one has written."""

import pytest
from hypothesis import given
from hypothesis import strategies as draw

from dygcn.errors import OtherHistory, SinkError
from dygcn.serving.sinks.sink import admit, as_fields, check_history, from_fields, newest
from dygcn.testing.sink_model import made_up_history

HISTORIES = draw.builds(
    made_up_history,
    draw.integers(0, 2**63 - 1) | draw.integers(0, 3),
    draw.integers(0, 2**63 - 1) | draw.integers(0, 2),
    draw.sampled_from(("", "other")),
    draw.sampled_from(("", "copy")),
)


@given(HISTORIES)
def test_fields_are_read_back(history):
    assert from_fields(as_fields(history)) == history
    check_history(history, "here")


@pytest.mark.parametrize("change", [{"generation": None}, {"version": "x"}, {"chain": None}, {"epoch": None}])
def test_fields_that_name_no_position(change):
    assert from_fields({**as_fields(made_up_history(1)), **change}) is None
    assert from_fields({}) is None


@given(HISTORIES, HISTORIES)
def test_of_two_histories_at_most_one_may_write_where_the_other_has(one, two):
    def passes(held, ours):
        try:
            admit(held, ours, "here")
        except OtherHistory:
            return False
        return True

    assert passes(None, one)
    assert passes(one, one)
    if one.generation != two.generation:
        assert passes(one, two) == (two.generation > one.generation)
    elif one.epoch != two.epoch:
        assert not passes(one, two)
    else:
        assert passes(one, two) == (one.sequence != two.sequence or one.chain == two.chain)
    if (one.generation, one.epoch) != (two.generation, two.epoch):
        assert not (passes(one, two) and passes(two, one))


def test_what_is_said_to_a_stale_writer():
    said = r"^here holds rows of a newer history \(generation 2, .* begin a new epoch: dygcn restore"
    with pytest.raises(OtherHistory, match=said) as error:
        admit(made_up_history(5, 2), made_up_history(9), "here")
    assert isinstance(error.value, SinkError)
    with pytest.raises(OtherHistory, match="another history of the same generation"):
        admit(made_up_history(5), made_up_history(9, epoch="other"), "here")
    with pytest.raises(OtherHistory, match="a copy of our history that went another way"):
        admit(made_up_history(5), made_up_history(5, branch="copy"), "here")


def test_the_newest_is_of_the_greatest_generation():
    old, new, newer = made_up_history(900), made_up_history(3, 2), made_up_history(4, 2)
    assert newest([new, None, newer, old]) == newer
    assert newest([]) is newest([None]) is None
