"""Users and items through every door: commands, HTTP, the client, scikit-learn; and first guesses."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sparse

import dygcn
from dygcn.client import Client
from dygcn.errors import EventError, OptionError, ServiceError, UnknownNode
from dygcn.serving.service.settings import Http, ServiceSettings
from dygcn_lab.testbed.served import served
from tests.cli.test_commands import run

ORDERS = {"user": [1, 1, 2, 3, 3, 4, 5], "item": [1, 2, 2, 3, 1, 9, 3], "t": list(range(7))}
NAMED = {"src": "user", "dst": "item"}


@pytest.fixture
def folder(tmp_path):
    dygcn.fit(ORDERS, **NAMED, kinds=True, dim=8).save(tmp_path / "shop")
    return tmp_path / "shop"


def test_commands(tmp_path):
    table, shop = tmp_path / "orders.csv", str(tmp_path / "shop")
    pd.DataFrame(ORDERS).to_csv(table, index=False)
    columns = "--src", "user", "--dst", "item"
    refused = run("fit", str(table), *columns, "--out", shop, code=1)
    assert "Say --kinds user,item." in refused.stderr
    run("fit", str(table), *columns, "--kinds", "user,item", "--out", shop, "--dim", "8")
    assert json.loads(run("info", shop, "--json").stdout)["ids"] == "user:int64,item:int64"
    near = json.loads(run("nearest", shop, "item:1", "--json").stdout)
    assert {one["id"].partition(":")[0] for one in near} == {"item"}
    near = json.loads(run("nearest", shop, "item:1", "--kind", "user", "--json").stdout)
    assert {one["id"].partition(":")[0] for one in near} == {"user"}
    best = json.loads(run("recommend", shop, "1", "--json").stdout)["nodes"]
    assert {one["id"] for one in best} == {"item:3", "item:9"}
    assert "is the id of 2 nodes, user:1, item:1" in run("nearest", shop, "1", code=2).stderr
    assert json.loads(run("vector", shop, "item:9", "--json").stdout)[0]["id"] == "item:9"
    tried = json.loads(run("what-if", shop, "--add", "1,9", "--ask", "user:1", "--json").stdout)
    assert {"user:1", "item:9"} <= {one["id"] for one in tried["furthest"]}
    assert json.loads(run("explain", shop, "user:1", "--json").stdout)["neighbors"][0]["id"].startswith(
        "item:"
    )
    assert json.loads(run("update", shop, str(table), *columns, "--json").stdout)["unchanged"] == 7
    run("vector", shop, "--out", str(tmp_path / "all.csv"))
    assert pd.read_csv(tmp_path / "all.csv").columns[:2].tolist() == ["kind", "id"]
    assert json.loads(run("forget", shop, "item:9", "--json").stdout)["found"] == 1


@pytest.mark.parametrize("readers", [0, 1])
def test_service_and_client(folder, readers):
    settings = ServiceSettings(folder=str(folder), http=Http(port=0, readers=readers))
    with served(settings) as one, Client(one.address) as client:
        ask_everything(client)


def ask_everything(client):
    assert {near.id.partition(":")[0] for near in client.nearest(("item", 1)).nodes} == {"item"}
    assert {near.id.partition(":")[0] for near in client.nearest("item:1", kind="user").nodes} == {"user"}
    assert {best.id for best in client.recommend(1).nodes} == {"item:3", "item:9"}
    assert {best.id[:5] for best in client.recommend("user:1", kind="user").nodes} == {"user:"}
    assert [found.id for found in client.nearest([("user", 1), "item:1"]).of] == ["user:1", "item:1"]
    with pytest.raises(ServiceError, match="is the id of 2 nodes"):
        client.nearest(1)
    with pytest.raises(ServiceError, match="is the id of 2 nodes"):
        client.vector(1)
    with pytest.raises(UnknownNode):
        client.vector("item:77")
    table = pd.DataFrame({"user": [7, 8], "item": [7, 7]})
    with pytest.raises(EventError, match="Say kinds="):
        client.update(table, **NAMED)
    assert client.update(table, **NAMED, kinds=True).applied == 2
    assert client.update(add=[(("user", 1), ("item", 77)), (("user", 2), ("item", 77))]).applied == 2
    assert client.update(add=[(5, 78)]).applied == 1  # by place
    bad = client.update([{"src": "shop:1", "dst": "item:1"}])
    assert (bad.dead, "whose ids are int64" in bad.bad[0].reason) == (1, True)
    assert client.vectors([("item", 77), "user:7"]).ids == ["item:77", "user:7"]
    assert client.neighbors(("item", 7)).neighbors == ["user:7", "user:8"]
    assert {share.id for share in client.explain("item:7").neighbors} == {"user:7", "user:8"}
    tried = client.what_if(
        add=[(("user", 1), ("item", 3))], nearest=["user:1"], scores=[(("user", 1), "item:3")]
    )
    assert {"user:1", "item:3"} <= {moved.id for moved in tried.furthest}
    assert {"user:7", "item:77"} <= {moved.id for moved in client.page(limit=100).moved}
    assert client.forget(("item", 77)).found == 1


def test_sklearn():
    embedder = pytest.importorskip("dygcn.sklearn").NodeEmbedder(kinds=("user", "item"), dim=8)
    rows = np.column_stack((ORDERS["user"], ORDERS["item"]))
    found = embedder.fit(rows).transform([[1, 1]])
    live = embedder.embedding_
    assert found[0].tolist() == [*live["user", 1].tolist(), *live["item", 1].tolist()]
    with pytest.raises(OptionError, match="kinds has 2 names, and X has 1 column"):
        embedder.fit([[1]])


# ---- first guesses of people who come from elsewhere --------------------------------------------------


@pytest.fixture
def shop():
    return dygcn.fit(pd.DataFrame(ORDERS), **NAMED, kinds=("user", "item"), dim=8)


def test_ten_first_guesses(shop):
    """Of users of implicit, LightFM and PyG: each works, or the error names the call."""
    matrix = sparse.csr_matrix((np.ones(3), ([0, 1, 1], [0, 0, 1])), shape=(2, 2))
    # implicit: fit(user_items), recommend(user, user_items[user], N=10), similar_items(item), item_factors
    assert set(dygcn.fit(matrix, kinds=("user", "item"), dim=4)) >= {("user", 0), ("item", 0)}
    assert shop.recommend(1, 2)[0][0].kind == "item"
    with pytest.raises(TypeError, match="k= is how many"):
        shop.recommend(1, N=2)
    with pytest.raises(AttributeError, match=r'live.nearest\(\("item", a\)\)'):
        _ = shop.similar_items
    with pytest.raises(AttributeError, match=r"to_pandas\(\).loc"):
        _ = shop.item_factors
    # LightFM: Dataset().fit(users, items), model.predict(user_ids, item_ids), get_item_representations()
    with pytest.raises(TypeError, match="kinds="):
        dygcn.fit(pd.DataFrame(ORDERS), **NAMED, bipartite=True)
    assert shop.score([("user", 1), ("user", 1)], [("item", 3), ("item", 9)]).shape == (2,)
    with pytest.raises(AttributeError, match=r"to_pandas\(\).loc"):
        _ = shop.get_item_representations
    # PyG: model["user"], x_dict, HeteroData (tests/live/test_kinds.py)
    assert shop.to_pandas().loc["item"].shape == (4, 8)
    with pytest.raises(AttributeError, match=r"to_pandas\(\).loc"):
        _ = shop.x_dict
