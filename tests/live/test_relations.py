"""Relations: whatever is added and removed in whatever batches, a pair weighs the sum over a plain dict."""

import copy
import dataclasses
import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dygcn
from dygcn import cluster
from dygcn.engine.events import python_ids, read_events
from dygcn.engine.events.wire import decode_events
from dygcn.engine.graph.relations import Relations
from dygcn.errors import DamagedFolder, EventError, OptionError, TornState
from dygcn.live.durable.source_batch import SourceBatch
from dygcn_lab.testbed.seeding import small_model
from tests.seeded import assert_noticed

WEIGHTS = {"buy": 4.0, "cart": 1.5, "look": 0.0, "view": 0.25}
FIELDS = ("src", "dst", "t", "op", "weight", "relation")
NODES = st.integers(0, 6)
EVENT = st.tuples(
    NODES,
    NODES,
    st.just(0),
    st.sampled_from([1, 1, 1, -1]),
    st.sampled_from([1.0, 1.0, 2.0, 0.5, 3.25]),
    st.sampled_from(list(WEIGHTS)),
)
STEP = st.one_of(st.lists(EVENT, max_size=12), st.lists(EVENT, max_size=12), st.sets(NODES, max_size=2))
HUNT = settings(
    max_examples=60, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


def model(directed=False, features="hashed", half_life=None):
    plain = small_model(directed=directed, features=features, half_life=half_life)
    return dataclasses.replace(plain, relations=WEIGHTS)


def table(events):
    columns = list(zip(*events, strict=True)) or [()] * len(FIELDS)
    return dict(zip(FIELDS, map(list, columns), strict=True))


def twin_after(steps, directed):
    """Return what each relation adds to each pair, from a dict alone."""
    twin = {}
    for step in steps:
        if isinstance(step, set | frozenset):
            twin = {key: value for key, value in twin.items() if not step & set(key[:2])}
            continue
        for a, b, _, op, weight, relation in step:
            ends = (a, b) if directed or a < b else (b, a)
            if op < 0:
                twin.pop((*ends, relation), None)
            elif a != b and WEIGHTS[relation] > 0:
                twin[(*ends, relation)] = weight
    return twin


def apply(live, step):
    return (
        live.update(remove_nodes=sorted(step))
        if isinstance(step, set | frozenset)
        else live.update(table(step))
    )


def weights_of(live):
    """Return what each pair weighs."""
    graph = live._state.graph
    a, b, weight = graph.edges()
    names = [python_ids(graph.ids.names(nodes)).tolist() for nodes in (a, b)]
    found = zip(*names, (weight * graph.grid).tolist(), strict=True)
    return {((x, y) if graph.directed or x < y else (y, x)): w for x, y, w in found}


def summed(twin):
    totals = {}
    for (a, b, relation), weight in twin.items():
        totals[a, b] = totals.get((a, b), 0.0) + WEIGHTS[relation] * weight
    return totals


def agree(steps, directed, features):
    live, twin = dygcn.start(model(directed, features)), twin_after(steps, directed)
    for step in steps:
        apply(live, step)
    assert weights_of(live) == summed(twin)
    at_once = dygcn.start(live.model)
    at_once.update(table([(a, b, 0, 1, weight, name) for (a, b, name), weight in sorted(twin.items())]))
    assert live.digest() == at_once.digest() == live.recompute().digest()
    plain = dygcn.start(dataclasses.replace(live.model, relations={}))
    plain.update(table([(a, b, 0, 1, weight, "x") for (a, b), weight in summed(twin).items()]))
    ids = plain.ids().tolist()
    assert sorted(live.ids().tolist()) == sorted(ids)
    np.testing.assert_array_equal(live.vectors(ids), plain.vectors(ids))
    return live


@HUNT
@given(st.lists(STEP, max_size=8), st.booleans(), st.sampled_from(["hashed", "walks"]))
def test_a_pair_weighs_the_sum_over_its_relations(steps, directed, features):
    agree(steps, directed, features)


def hunt():
    test_a_pair_weighs_the_sum_over_its_relations()


def remove_the_middle_one():
    names = ("buy", "cart", "view")
    agree([[(1, 2, 0, 1, 1.0, name) for name in names], [(1, 2, 0, -1, 1.0, "cart")]], False, "hashed")


@pytest.mark.parametrize(
    ("line", "wrong", "by"),
    [
        ("total[p] += new - value[c]", "total[p] += new", hunt),
        ("parts.behind[before] = parts.behind[slot]", "parts.behind[before] = -1", remove_the_middle_one),
    ],
    ids=["a part that is replaced stays", "a part that goes takes others along"],
)
def test_a_seeded_bug_is_noticed(tmp_path, line, wrong, by):
    remove_the_middle_one()
    assert_noticed(tmp_path, "dygcn.engine.graph.parts", line, wrong, by)


@HUNT
@given(
    st.lists(st.tuples(EVENT, st.integers(0, 12)), max_size=30),
    st.lists(st.integers(0, 30), max_size=5),
    st.sampled_from([None, 2.0]),
)
def test_n_cuts_are_one_batch(timed, cuts, half_life):
    events = sorted([(*event[:2], t, *event[3:]) for event, t in timed], key=lambda event: event[2])
    lives = []
    for some in (cuts, [], range(len(events))):
        live = dygcn.start(model(half_life=half_life))
        bounds = [0, *sorted(cut % (len(events) + 1) for cut in some), len(events)]
        for begin, end in pairwise(bounds):
            if begin < end:
                live.update(table(events[begin:end]))
        lives.append(live)
    assert len({live.digest() for live in lives} | {live.recompute().digest() for live in lives}) == 1


@settings(HUNT, max_examples=10)
@given(st.lists(STEP, min_size=1, max_size=8), st.integers(0, 8))
def test_a_restart_from_snapshot_and_log_is_the_same(tmp_path_factory, steps, snapshot):
    folder, steps = tmp_path_factory.mktemp("x") / "live", [one for one in steps if len(one)]
    live = dygcn.open(folder, dygcn.start(model()))
    for number, step in enumerate(steps):
        apply(live, step)
        if number == snapshot:
            live.snapshot()
    digest = live.digest()
    live._let_go()
    with dygcn.open(folder) as again:
        assert again.digest() == digest == again.recompute().digest()
        assert weights_of(again) == summed(twin_after(steps, directed=False))
        again.save(folder.parent / "saved")
    assert dygcn.load(folder.parent / "saved").digest() == digest


@settings(HUNT, max_examples=8)
@given(st.lists(STEP, min_size=2, max_size=10), st.sampled_from([1, 3]), st.booleans())
def test_shards_are_one_process(tmp_path_factory, steps, shards, directed):
    folder, one = tmp_path_factory.mktemp("x") / "live", dygcn.start(model(directed))
    one.save(folder)
    with cluster.launch(folder, shards, on="here", batches=2) as other:
        for number, step in enumerate(steps):
            done = [apply(each, step) for each in (one, other)]
            counts = [(each.unchanged, each.missing, each.loops) for each in done]
            assert counts[0] == counts[1]
            if number == len(steps) // 2:
                other.resize(shards % 3 + 1)
            assert other.digest() == one.digest()
    with cluster.launch(folder, on="here") as other:
        assert other.digest() == one.digest() == agree(steps, directed, "hashed").digest()
        other.save(folder.parent / "copy")
    assert dygcn.load(folder.parent / "copy").digest() == one.digest()


@HUNT
@given(st.lists(STEP, min_size=2, max_size=6), st.sampled_from([None, 2.0]))
def test_a_trial_is_taken_back(steps, half_life):
    live = dygcn.start(model(half_life=half_life))
    for step in steps[:-1]:
        apply(live, step)
    before, last = live.digest(), steps[-1]
    removal = isinstance(last, set | frozenset)
    there = [node for node in last if node in live] if removal else []
    with live.what_if(**({"remove_nodes": there} if removal else {"events": table(last)})) as trial:
        after = trial.digest()
    assert live.digest() == before == live.recompute().digest()
    apply(live, last)
    assert live.digest() == after


@pytest.mark.parametrize("half_life", [None, 2.0])
@pytest.mark.parametrize("name", ["put", "play"])
def test_an_interrupt_leaves_all_or_nothing(monkeypatch, name, half_life):
    live = dygcn.start(model(half_life=half_life))
    live.update(table([(1, 2, 0, 1, 1.0, "view"), (1, 2, 0, 1, 1.0, "buy"), (2, 3, 0, 1, 1.0, "view")]))
    change = table([(1, 2, 0, -1, 1.0, "view"), (3, 4, 0, 1, 1.0, "cart"), (2, 3, 0, -1, 1.0, "view")])
    before = live.digest()
    with live.what_if(change) as trial:
        after = trial.digest()

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Relations, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            live.update(change)
    if name == "play":
        assert live.digest() == before
        return
    with pytest.raises(TornState):
        live.vectors([1])
    whole = live.recompute()
    assert whole.digest() == after
    assert weights_of(whole)[1, 2] == WEIGHTS["buy"]


def fitted(**how):
    events = [("ann", "tea", "view"), ("ann", "tea", "buy"), ("bob", "tea", "view"), ("bob", "mug", "cart")]
    return dygcn.fit(
        events, columns=("src", "dst", "relation"), relation_weights=WEIGHTS, dim=8, features="hashed", **how
    )


def test_adds_and_removes_name_a_relation():
    live = fitted()
    columns = ("src", "dst", "relation")
    change = live.update(add=[("ann", "mug", "view")], remove=[("ann", "tea", "buy")], columns=columns)
    assert (change.unchanged, change.missing) == (0, 0)
    assert weights_of(live)["ann", "tea"] == WEIGHTS["view"]
    change = live.update(remove=[("ann", "tea", "buy"), ("ann", "tea", "view")], columns=columns)
    assert change.missing == 1
    assert ("ann", "tea") not in weights_of(live)


def test_a_relation_of_weight_0_makes_no_edge_and_counts_as_a_contact_of_one():
    events = [("ann", "tea", t, "view") for t in (0.0, 1.0, 2.0)] + [("bob", "tea", 3.0, "view")]
    columns = ("src", "dst", "t", "relation")
    live = dygcn.fit(events, columns=columns, relation_weights={"view": 1, "look": 0}, dim=4)
    graph = live._state.graph

    def contacts():
        ends = [np.array([graph.find_one(name)], np.int32) for name in ("ann", "tea")]
        return float(graph.pair_contacts(*ends)[2][0])

    edges, count = weights_of(live), contacts()
    change = live.update([("ann", "tea", 3.0, "look"), ("bob", "mug", 3.0, "look")], columns=columns)
    assert (change.unchanged, change.missing) == (1, 1)
    assert weights_of(live) == edges
    assert "mug" not in live
    assert contacts() > count


@pytest.mark.parametrize(
    ("events", "error"),
    [
        ({"src": ["a"], "dst": ["b"]}, "an event has no relation; the relations of this model are buy, cart"),
        ({"src": ["a"], "dst": ["b"], "op": [-1]}, "an event has no relation"),
        ({"src": ["a"], "dst": ["b"], "relation": ["like"]}, "row 0: relation is 'like'; the relations of"),
        ({"src": ["a"], "dst": ["b"], "op": [-1], "relation": ["like"]}, "row 0: relation is 'like'"),
        ({"src": ["a"], "dst": ["b"], "relation": [None]}, "row 0: relation is empty"),
        ({"src": ["a"], "dst": ["b"], "relation": [0.5]}, "column 'relation' holds double"),
        ({"src": ["a"], "dst": ["b"], "relation": ["buy"], "weight": [1e300]}, "row 0: weight is 1e"),
    ],
)
def test_what_is_wrong_is_said(events, error):
    live = fitted()
    before = live.digest()
    with pytest.raises(EventError, match=error):
        live.update(events)
    assert live.digest() == before


def test_options_that_make_no_sense_are_refused():
    events = {"src": [1, 2], "dst": [2, 3], "action": ["trust", "distrust"]}
    with pytest.raises(OptionError, match="Trust and distrust are two relations"):
        dygcn.fit(events, relation="action", relation_weights={"trust": 1, "distrust": -1})
    with pytest.raises(EventError, match="events have 'distrust', too"):
        dygcn.fit(events, relation="action", relation_weights={"trust": 1})
    with pytest.raises(OptionError, match="relation_weights needs relations"):
        dygcn.fit({"src": [1], "dst": [2]}, relation_weights="equal")
    with pytest.raises(OptionError, match="relations are for rule='exact'"):
        dygcn.fit(events, relation="action", rule="rolling")
    with pytest.raises(OptionError, match='allowed are "equal", "choose"'):
        dygcn.fit(events, relation="action", relation_weights="best")
    plain = dygcn.fit({"src": [1, 2], "dst": [2, 3], "relation": ["x", "y"]}, dim=4)
    assert not plain.model.relations
    plain.update({"src": [1], "dst": [3], "relation": ["x"]})  # a column like any other
    with pytest.raises(EventError, match="this model has none"):
        plain.update([(1, 3, "x")], columns=("src", "dst", "relation"))


@pytest.mark.parametrize("form", ["networkx", "igraph", "arrow", "csv", "ndjson", "pandas"])
def test_every_form_has_relations(form, tmp_path):
    rows = [{"src": "ann", "dst": "tea", "what": "view"}, {"src": "bob", "dst": "tea", "what": "buy"}]
    if form == "networkx":
        events = pytest.importorskip("networkx").Graph()
        events.add_edges_from([(row["src"], row["dst"], {"what": row["what"]}) for row in rows])
    elif form == "igraph":
        events = pytest.importorskip("igraph").Graph.TupleList(
            [tuple(row.values()) for row in rows], edge_attrs=["what"]
        )
    elif form in ("arrow", "pandas"):
        events = pytest.importorskip("pyarrow").Table.from_pylist(rows)
        events = events if form == "arrow" else events.to_pandas().astype({"what": "category"})
    else:
        events = tmp_path / f"x.{form}"
        lines = (
            map(json.dumps, rows)
            if form == "ndjson"
            else map(",".join, [list(rows[0])] + [r.values() for r in rows])
        )
        events.write_text("\n".join(lines) + "\n")
    live = dygcn.fit(events, relation="what", relation_weights=WEIGHTS, dim=4)
    assert weights_of(live) == {("ann", "tea"): 0.25, ("bob", "tea"): 4.0}


@pytest.mark.parametrize("form", ["json", "ndjson", "arrow"])
def test_messages_without_a_known_relation_are_dead_letters(form, tmp_path):
    pa = pytest.importorskip("pyarrow")
    rows = [
        {"src": "ann", "dst": "mug", "relation": "buy", "op": 1},
        {"src": "ann", "dst": "cup", "relation": "like", "op": 1},
        {"src": "ann", "dst": "pot", "relation": None, "op": 1},
        {"src": "bob", "dst": "tea", "relation": "view", "op": -1},
    ]
    body = json.dumps(rows).encode() if form == "json" else "\n".join(map(json.dumps, rows)).encode()
    if form == "arrow":
        sink, events = pa.BufferOutputStream(), pa.Table.from_pylist(rows)
        with pa.ipc.new_stream(sink, events.schema) as writer:
            writer.write_table(events)
        body = sink.getvalue().to_pybytes()
    found = decode_events(body, form, "string", related=True)
    assert [one.row for one in found.bad] == [2]
    assert "relation is empty" in found.bad[0].reason
    assert decode_events(body, form, "string").batch.relation is None
    with dygcn.open(tmp_path / "x", fitted()) as live:
        (receipt,) = live._ingest([SourceBatch(found.batch, rows=found.rows)])
        assert (receipt.applied, receipt.dead) == (2, 1)
        ((_, letter),) = live._log.letters([1])
        assert "the relations of this model are buy, cart, look, view" in letter.reason
        assert json.loads(letter.event)["relation"] == "like"
        assert weights_of(live) == {("ann", "mug"): 4.0, ("ann", "tea"): 4.25, ("bob", "mug"): 1.5}


def test_a_forgotten_id_is_in_no_part_of_the_log(tmp_path):
    with dygcn.open(tmp_path / "x", fitted()) as live:
        live.update(
            [
                {"src": "eve", "dst": "tea", "relation": "buy"},
                {"src": "ann", "dst": "tea", "relation": "cart"},
            ]
        )
        live.forget(["eve"])
        digest, weights = live.digest(), weights_of(live)
        live._let_go()
    assert weights["ann", "tea"] == 4.25 + 1.5
    with dygcn.open(tmp_path / "x") as again:
        assert again.digest() == digest


def test_a_folder_whose_parts_do_not_add_up_is_damaged(tmp_path, monkeypatch):
    live = fitted()
    of = Relations.of

    def wrong(self, a, b):
        parts = of(self, a, b)
        return dataclasses.replace(parts, weight=parts.weight + 1)

    with monkeypatch.context() as patch:
        patch.setattr(Relations, "of", wrong)
        live.save(tmp_path / "x")
    with pytest.raises(DamagedFolder, match="relations that do not fit"):
        dygcn.load(tmp_path / "x")


def test_a_folder_without_relations_has_no_setting_of_them(tmp_path):
    dygcn.fit([(1, 2), (2, 3)], dim=4).save(tmp_path)
    assert "relations" not in json.loads((tmp_path / "manifest.json").read_text())["settings"]


def test_copies_share_nothing():
    live = fitted()
    other = copy.deepcopy(live)
    other.update([{"src": "ann", "dst": "tea", "relation": "view", "op": -1}])
    assert weights_of(live)["ann", "tea"] == 4.25
    assert live.digest() == live.recompute().digest()


def test_a_relation_that_helps_is_chosen():
    random = np.random.default_rng(0)
    group = random.integers(0, 4, 120)
    inside = [(a, b) for a, b in random.integers(0, 120, (9000, 2)) if group[a] == group[b] and a != b][:1600]
    noise = random.integers(0, 120, (1600, 2)).tolist()
    rows = [(*map(int, inside[i]), "real") for i in range(1600)]
    rows[:1200:2] = [(*noise[i], "noise") for i in range(600)]
    live = dygcn.fit(rows, columns=("src", "dst", "relation"), relation_weights="choose", dim=16)
    assert live.model.relations["real"] == 1.0
    assert live.model.relations["noise"] < 1.0


def test_events_with_relations_are_one_and_the_same_as_a_batch():
    batch = read_events([("ann", "tea", "view")], columns=("src", "dst", "relation"))
    live, other = fitted(), fitted()
    live.update(batch)
    other.update(add=[("ann", "tea", "view")], columns=("src", "dst", "relation"))
    assert live.digest() == other.digest()


def test_time_may_pass_without_events():
    live = dygcn.start(model(half_life=2.0))
    live.update(table([(1, 2, 0, 1, 1.0, "view"), (2, 3, 0, 1, 1.0, "buy")]))
    live.update(table([(1, 2, 1, -1, 1.0, "view")]))
    assert weights_of(live)[1, 2] == -WEIGHTS["view"] / 2  # a ghost
    live.update([], now=20.0)
    assert 1 not in live
    live.update([])
    assert live.digest() == live.recompute().digest()
