"""Times, spans and single values that users pass."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from dygcn.engine.events import as_dicts, duration, moment, read_events, seconds
from dygcn.engine.events.columns import common_ids, id_column, relations
from dygcn.errors import EventError


def test_dates_and_spans_become_seconds():
    assert seconds(datetime(1970, 1, 2, tzinfo=UTC)) == 86400.0
    assert (seconds(timedelta(hours=1)), seconds(np.timedelta64(2, "m")), seconds(7)) == (3600.0, 120.0, 7)
    found = [duration(text) for text in ("90d", "1.5h", "30m", "45s", "2w", "soon")]
    assert found == [7776000.0, 5400.0, 1800.0, 45.0, 1209600.0, "soon"]
    assert (moment(7), moment(np.datetime64("1970-01-02"))) == (7.0, 86400.0)
    for wrong in ("now", None, True, timedelta(1), float("nan"), 10**400):
        with pytest.raises(EventError, match="allowed is a finite number"):
            moment(wrong)


def test_events_one_by_one():
    assert as_dicts(read_events([("ann", "bob")])) == [{"src": "ann", "dst": "bob", "op": 1}]
    columns = {"src": [1], "dst": [2], "weight": [2.0], "t": [7], "relation": ["buy"]}
    assert as_dicts(read_events(columns, related=True)) == [
        {"src": 1, "dst": 2, "op": 1, "weight": 2.0, "t": 7, "relation": "buy"}
    ]


def test_relations_are_numbered_by_their_first_mention():
    found = relations(["view", "buy", "view"])
    assert (found.codes.tolist(), found.names) == ([0, 1, 0], ("view", "buy"))


def test_ids_in_common_are_found_once():
    assert common_ids(id_column(["ann", "bob", "bob"]), id_column(["bob", "cat"])) == ["bob"]
