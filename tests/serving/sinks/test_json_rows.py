"""Rows as JSON: one message a row."""

import json

import numpy as np
import pytest

from dygcn.engine.records import Rows
from dygcn.serving.sinks.json_rows import deleted_below_message, left_messages, row_messages
from dygcn.serving.sinks.sink import Shape
from dygcn.testing.sink_checks import EXTREME_IDS, ODD_IDS
from dygcn.testing.sink_model import made_up_history, make_rows, replayed


def test_messages():
    last = 2**63 - 1
    rows = make_rows({'a\n"é\\': last}, left={"b\0": last}, dim=1, generation=last)
    rows.vectors[:] = 0.5
    history = (
        f'"generation":{last},"epoch":"{rows.history.epoch}","version":{last},"chain":"{rows.history.chain}"'
    )
    shape = Shape("string", 1)
    assert list(row_messages(rows, shape)) == [f'{{"id":"a\\n\\"é\\\\",{history},"vector":[0.5]}}'.encode()]
    assert left_messages(rows, shape) == [f'{{"id":"b\\u0000",{history},"left":true}}'.encode()]
    assert deleted_below_message(12, rows.history) == f'{{"deleted_below":12,{history}}}'.encode()


def test_the_kind_follows_the_id():
    rows = make_rows({"item:50": 1}, left={"user:a:b": 1}, dim=1)
    shape = Shape("user:string,item:int64", 1)
    [row], [left] = row_messages(rows, shape), left_messages(rows, shape)
    assert row.startswith(b'{"id":"item:50","kind":"item","generation":1,')
    assert left.startswith(b'{"id":"user:a:b","kind":"user","generation":1,')


@pytest.mark.parametrize("ids", [EXTREME_IDS, ODD_IDS])
def test_ids_come_back(ids):
    rows = make_rows(dict.fromkeys(ids, 1), left=dict.fromkeys(ids, 1), dim=2)
    shape = Shape("string" if ids is ODD_IDS else "int64", 2)
    for messages in (row_messages(rows, shape), left_messages(rows, shape)):
        assert tuple(json.loads(message)["id"] for message in messages) == ids


def test_rows_come_back_bit_for_bit():
    rows = make_rows(dict.fromkeys(range(50), 7), dim=3)
    held = replayed(row_messages(rows, Shape("int64", 3)))
    assert [history for history, _ in held.values()] == [rows.history] * 50
    assert np.array([vector for _, vector in held.values()]).tobytes() == rows.vectors.tobytes()


def test_no_rows():
    none = np.empty(0, np.int64)
    rows = Rows(none, np.zeros((0, 2), np.float32), none, made_up_history(1))
    shape = Shape("int64", 2)
    assert list(row_messages(rows, shape)) == left_messages(rows, shape) == []
