"""Relations over HTTP: sent by a client, rejected row by row, corrected, tried, and there after a restart."""

import pytest

import dygcn
from dygcn.client import Client
from dygcn.errors import ServiceError

SHOP = [("ann", "tea", "view"), ("ann", "tea", "buy"), ("bob", "tea", "view"), ("bob", "mug", "buy")]
FIELDS = ("src", "dst", "relation")


@pytest.fixture
def shop(tmp_path):
    weights = {"view": 1, "buy": 4}
    dygcn.fit(SHOP, columns=FIELDS, relation_weights=weights, dim=4).save(tmp_path / "shop")
    return tmp_path / "shop"


def weights_of(live):
    return {(edge["src"], edge["dst"]): edge["weight"] for edge in live.edges().to_pylist()}


def test_relations_over_http(shop, serve):
    service = serve(path=shop)
    with Client(service.address, name="till") as client:
        sent = client.update(add=[("cat", "mug", "buy")], remove=[("ann", "tea", "buy")], columns=FIELDS)
        assert (sent.applied, sent.dead) == (2, 0)
        sent = client.update([{"src": "cat", "dst": "tea", "relation": "like"}])
        assert (sent.applied, sent.dead) == (0, 1)
        (letter,) = client.dead_letters().dead_letters
        assert "the relations of this model are buy, view" in letter.reason
        corrected = {letter.number: {"src": "cat", "dst": "tea", "relation": "view"}}
        assert client.replay([], corrected=corrected).applied == 1
        trial = client.what_if(events=[{"src": "dan", "dst": "mug", "relation": "buy"}], nearest=["dan"])
        assert trial.moved
        answer = service.post([{"src": "cat", "dst": "cup"}]).json()
        assert answer["dead"] == 1
        assert "relation is empty" in answer["bad"][0]["reason"]
        with pytest.raises(ServiceError, match="relation is empty"):
            client.what_if(add=[("dan", "mug")])
    expected = {("ann", "tea"): 1.0, ("bob", "mug"): 4.0, ("bob", "tea"): 1.0, ("cat", "mug"): 4.0}
    assert weights_of(service.service.live) == expected | {("cat", "tea"): 1.0}
