"""Edges that leave by the clock, against a slow twin, however events are cut into batches."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dygcn.engine.events import read_events
from dygcn.engine.graph import Graph
from dygcn.engine.graph.due import new_queue
from dygcn.engine.graph.image import take_image
from dygcn.errors import CapacityError, EventError
from tests.engine.graph.test_contacts import HUNT, QUICK, STEP, agree, as_drawn, in_one, one_by_one
from tests.engine.graph.test_contacts import Stage
from tests.seeded import assert_noticed

PLAYS = st.fixed_dictionaries(
    {
        "directed": st.booleans(),
        "half_life": st.none(),
        "expire": st.sampled_from([0.25, 1.0, 2.0, 5.0]),
        "steps": st.lists(STEP, min_size=1, max_size=7),
    }
)


@QUICK
@given(PLAYS)
def test_expiry_equals_the_twin(play):
    agree(play)


def hunt():
    settings(HUNT)(given(PLAYS)(agree))()
