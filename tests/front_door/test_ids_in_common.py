"""User 1 and item 1 would be one node: a table that says so by its columns is refused, unless it is meant."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dygcn
from dygcn.client.operations import Operations
from dygcn.engine.events import column_names, read_events
from dygcn.errors import EventError
from tests.cli.test_commands import run

ORDERS = {"user": [1, 2, 3, 1], "item": [1, 7, 8, 8]}
NAMED = {"src": "user", "dst": "item"}
REASON = r"user and item have ids in common: user 1 and item 1 would be one node"


@pytest.fixture
def live():
    return dygcn.fit([(1, 7), (2, 8), (3, 9)], dim=4)


def refused(call, *arguments, **options):
    """Assert that ids in common are refused, and taken where they are meant."""
    with pytest.raises(EventError, match=REASON):
        call(*arguments, **NAMED, **options)
    return call(*arguments, **NAMED, **options, shared_ids=True)


@pytest.mark.parametrize("form", [dict, pd.DataFrame, pa.table])
def test_a_fit_refuses_ids_in_common(form):
    assert len(refused(dygcn.fit, form(ORDERS), dim=4)) == 5
    text = form({name: [f"id {one}" for one in column] for name, column in ORDERS.items()})
    with pytest.raises(EventError, match=r"ids in common: user id 1 and item id 1"):
        dygcn.fit(text, **NAMED)


def test_what_the_error_says_is_enough():
    df = pd.DataFrame(ORDERS)
    with pytest.raises(EventError, match="shared_ids=True") as caught:
        dygcn.fit(df, **NAMED)
    cure = str(caught.value).partition("Different things? Say ")[2].partition(". The same")[0]
    live = eval(f"dygcn.fit(df, **NAMED, dim=4, {cure})")
    assert (len(live), live.edge_count) == (6, 4)
    assert (
        live.neighbors(("user", 1)).tolist()
        == live.neighbors("user:1").tolist()
        == [("item", 1), ("item", 8)]
    )


def test_every_way_of_changing_and_asking(live, tmp_path):
    refused(live.update, ORDERS)
    refused(live.update, add=ORDERS)
    refused(live.bulk, [ORDERS])
    refused(live.explain_change, 1, ORDERS)
    with pytest.raises(EventError, match=REASON), live.what_if(ORDERS, **NAMED):
        pass
    with live.what_if(ORDERS, **NAMED, shared_ids=True) as trial:
        assert 8 in trial
    live.save(tmp_path / "folder")
    with dygcn.open(tmp_path / "folder") as durable:
        refused(durable.update, ORDERS)
        refused(durable.bulk, [ORDERS])


def test_a_client_refuses_before_it_sends():
    sent = []
    asking = Operations.__new__(Operations)
    asking._sender = type("Sender", (), {"send": lambda self, batch: sent.append(batch) or iter(())})()
    with pytest.raises(EventError, match=REASON):
        list(asking.update(ORDERS, **NAMED))
    list(asking.update(ORDERS, **NAMED, shared_ids=True))
    assert [len(batch) for batch in sent] == [4]


def test_the_commands_refuse_in_their_own_spelling(live, tmp_path):
    table, folder = tmp_path / "orders.csv", tmp_path / "folder"
    pd.DataFrame(ORDERS).to_csv(table, index=False)
    live.save(folder)
    ends = "--src", "user", "--dst", "item"
    for command in (
        ("fit", table, "--out", tmp_path / "new", "--dim", 4),
        ("update", folder, table),
        ("explain", folder, 1, "--events", table),
        ("what-if", folder, "--events", table),
    ):
        said = run(*command, *ends, code=1).stderr
        assert "would be one node" in said
        assert said.endswith("Say --shared-ids\n")
        run(*command, *ends, "--shared-ids")


@pytest.mark.parametrize(
    "ends",
    [
        ("source", "target"),
        ("Target_ID", "Source_ID"),
        ("from_user", "to_user"),
        ("user_1", "user_2"),
        ("userA", "userB"),
        ("src_ip", "dst_ip"),
        ("account_from", "account_to"),
        ("follower", "followee"),
        ("u", "v"),
    ],
)
def test_names_of_one_kind_share_their_ids(ends):
    table = dict(zip(ends, ([1, 2], [2, 1]), strict=True))
    assert len(read_events(table, **dict(zip(("src", "dst"), ends, strict=True)))) == 2


@pytest.mark.parametrize("ends", [("user", "item"), ("u", "i"), ("customer_id", "product"), ("user", None)])
def test_other_names_do_not(ends):
    one, other = ends[0], ends[1] or "dst"
    with pytest.raises(EventError, match="ids in common"):
        read_events({one: [1, 2], other: [2, 1]}, **dict(zip(("src", "dst"), ends, strict=True)))


def test_ids_that_differ_and_rows_without_such_names_are_as_ever(live):
    assert len(dygcn.fit({"user": [1, 2], "item": [3, 3]}, **NAMED, dim=4)) == 3
    assert len(dygcn.fit({"src": [1, 2], "dst": [2, 1]}, dim=4)) == 2
    assert len(dygcn.fit([(1, 2), (2, 1)], dim=4)) == 2
    live.update({"user": [7], "item": [1]}, **NAMED)  # the graph does not know who was an item


def test_long_names_and_ids_make_no_long_error():
    ends = {"u" * 3000: ["x" * 256] * 50, "i" * 3000: ["x" * 256] * 50}
    with pytest.raises(EventError) as caught:
        read_events(ends, **dict(zip(("src", "dst"), ends, strict=True)))
    assert len(str(caught.value)) <= 500


def test_ids_are_looked_at_only_where_names_ask_for_it(monkeypatch):
    looked = []
    monkeypatch.setattr(column_names, "common_ids", lambda *ends: looked.append(ends) or [])
    ends = np.arange(9)
    read_events({"src": ends, "dst": ends})
    read_events({"from": ends, "to": ends}, src="from", dst="to")
    read_events({"user": ends, "item": ends}, src="user", dst="item", shared_ids=True)
    assert not looked
    read_events({"user": ends, "item": ends}, src="user", dst="item")
    assert len(looked) == 1


def test_a_check_that_looks_at_the_first_row_alone_would_be_noticed(monkeypatch):
    right = column_names.common_ids

    def first_only(one, other):
        return right(*(type(column)(column.values[:1]) for column in (one, other)))

    monkeypatch.setattr(column_names, "common_ids", first_only)
    with pytest.raises(pytest.fail.Exception):
        refused(dygcn.fit, {"user": [2, 1], "item": [7, 1]}, dim=4)
