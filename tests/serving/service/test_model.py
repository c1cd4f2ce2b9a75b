"""Any order of requests, against a dict: what was acknowledged is what is read, and nothing else."""

import contextlib
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import dygcn
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.durable.source_batch import Receipt, SourceBatch
from tests.live.steps import step, take
from tests.serving.service.serving import ARROW, NDJSON, on_loopback, serving
from tests.serving.service.test_handlers import FORMS

NODES = {"int64": [0, 1, 2, 3, -(2**63), 2**63 - 1], "string": ["", "a", "a/b", "%", "é", "x" * 256]}
BAD = [{"src": 1.5, "dst": 2}, {"src": 1}, "event", {"src": 0, "dst": 1, "op": 9}, None]
MODELS: dict[str, dygcn.Model] = {}


def model(kind):
    if kind not in MODELS:
        edges = [(1, 2), (2, 3)] if kind == "int64" else [("a", "b"), ("b", "c")]
        MODELS[kind] = dygcn.fit(edges, dim=4).model
    return MODELS[kind]


cursors = st.integers(0, 5)
weights = st.sampled_from([None, 1.0, 2.0])
one_event = st.tuples(cursors, cursors, st.sampled_from([1, 1, 1, -1]), weights)
events = st.lists(st.one_of(one_event, one_event, st.sampled_from(range(len(BAD)))), min_size=1, max_size=6)


class Requests(RuleBasedStateMachine):
    """Sends requests, and keeps a dict of what they must have done."""

    kinds = ("int64", "string")

    @initialize(kind=st.sampled_from(kinds))
    def begin(self, kind):
        self.kind, self.names = kind, NODES[kind]
        self.edges, self.dead, self.sequence = {}, [], 0
        self.sent, self.seen, self.cursor = [], {}, ""
        self.stack = contextlib.ExitStack()
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory())) / "graph"
        dygcn.start(model(kind)).save(folder)
        self.folder = folder
        self.open()

    def open(self):
        self.running = contextlib.ExitStack()
        self.served = self.running.enter_context(serving(on_loopback(self.folder)))

    def teardown(self):
        if hasattr(self, "running"):
            self.running.close()
            self.stack.close()

    # ---- writing -------------------------------------------------------------------------------------

    def rows(self, chosen):
        rows = []
        for one in chosen:
            if isinstance(one, int):
                rows.append(BAD[one])
                continue
            a, b, op, weight = one
            row = {"src": self.names[a], "dst": self.names[b], "op": op}
            rows.append(row if weight is None else row | {"weight": weight})
        return rows

    def expect(self, rows, answer, stream="", offset=None):
        """Do with the dict what the request must have done."""
        good = [row for row in rows if row not in BAD]
        assert (answer["applied"], answer["dead"]) == (len(good), len(rows) - len(good))
        for row in good:
            pair = frozenset((row["src"], row["dst"]))
            if len(pair) == 2 and row["op"] == 1:
                self.edges[pair] = row.get("weight", 1.0)
            elif len(pair) == 2:
                self.edges.pop(pair, None)
        self.dead += [(stream, offset, cursor) for cursor, row in enumerate(rows) if row in BAD]
        assert answer["sequence"] > self.sequence
        self.sequence = answer["sequence"]

    @rule(chosen=events, form=st.sampled_from(["application/json", NDJSON]))
    def post(self, chosen, form):
        rows = self.rows(chosen)
        answer = self.served.post(FORMS[form](rows), form=form)
        assert answer.status_code == 200
        self.expect(rows, answer.json())

    @rule(chosen=st.lists(one_event, min_size=1, max_size=6))
    def post_arrow(self, chosen):
        rows = [row | {"weight": row.get("weight", 1.0)} for row in self.rows(chosen)]
        answer = self.served.post(FORMS[ARROW](rows), form=ARROW)
        assert answer.status_code == 200
        self.expect(rows, answer.json())

    @rule(chosen=events)
    def post_numbered(self, chosen):
        rows, first = self.rows(chosen), len(self.sent)
        answer = self.served.post(rows, client="c", sequence=first)
        assert answer.json()["status"] == "applied"
        self.sent += rows
        self.expect(rows, answer.json(), "http:c", first + len(rows) - 1)

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def post_again(self, data):
        first = data.draw(st.integers(0, len(self.sent) - 1))
        count = data.draw(st.integers(1, len(self.sent) - first))
        answer = self.served.post(self.sent[first : first + count], client="c", sequence=first).json()
        assert (answer["status"], answer["applied"], answer["dead"]) == ("repeated", 0, 0)
        assert answer["sequence"] >= self.sequence

    @precondition(lambda self: self.sent)
    @rule(chosen=events, data=st.data())
    def post_overlapping(self, chosen, data):
        """Some that were applied, some that are new: only the new ones count, and are numbered as before."""
        back = data.draw(st.integers(1, min(len(self.sent), 4)))
        rows = self.rows(chosen)
        first = len(self.sent) - back
        answer = self.served.post(self.sent[first:] + rows, client="c", sequence=first).json()
        assert answer["status"] == "applied"
        self.sent += rows
        before = len(self.dead)
        self.expect(rows, answer, "http:c", len(self.sent) - 1)
        self.dead[before:] = [
            (stream, position, cursor + back) for stream, position, cursor in self.dead[before:]
        ]

    @rule(chosen=events, gap=st.integers(1, 5))
    def post_too_early(self, chosen, gap):
        answer = self.served.post(self.rows(chosen), client="c", sequence=len(self.sent) + gap)
        assert answer.status_code == 409
        assert answer.json()["expected"] == len(self.sent)

    @rule()
    def restart(self):
        self.running.close()
        self.open()

    # ---- reading -------------------------------------------------------------------------------------

    def here(self):
        return {node for pair in self.edges for node in pair}

    @invariant()
    def the_status_is_that_of_the_dict(self):
        if not hasattr(self, "served"):
            return
        status = self.served.get("/v1/status").json()
        assert status["edges"] == len(self.edges)
        assert status["nodes"] == len(self.here())
        assert status["sequence"] >= self.sequence
        assert status["queue"]["events"] == 0

    @rule()
    def vectors(self):
        found = self.served.ask("/v1/vectors", {"ids": self.names}).json()
        assert set(found["ids"]) == self.here()
        assert set(found["missing"]) == set(self.names) - self.here()
        assert found["sequence"] >= self.sequence
        fresh = dygcn.start(model(self.kind))
        if self.edges:
            fresh.update([(*sorted(pair), 0.0, 1, weight) for pair, weight in self.edges.items()])
        if found["ids"]:
            assert np.array_equal(np.array(found["vectors"], np.float32), fresh.vectors(found["ids"]))

    @rule(cursor=cursors)
    def one_vector(self, cursor):
        node = self.names[cursor]
        path = "/v1/vectors/" + "".join(f"%{byte:02X}" for byte in str(node).encode())
        answer = self.served.get(path)
        assert answer.status_code == (200 if node in self.here() else 404)

    @rule(limit=st.sampled_from([1, 2, 100]))
    def changes(self, limit):
        """Follow the feed to its end: what was seen is then what is there."""
        while True:
            page = self.served.get("/v1/changes", since=self.cursor, limit=limit).json()
            if page["reset"]:
                self.seen.clear()
            for one in page["left"]:
                self.seen.pop(one["id"], None)
            for one in page["moved"]:
                self.seen[one["id"]] = one["vector"]
            self.cursor = page["next"]
            if not page["more"]:
                break
        assert set(self.seen) == self.here()
        if self.seen:
            ids = list(self.seen)
            found = self.served.ask("/v1/vectors", {"ids": ids}).json()
            assert found["vectors"] == [self.seen[one] for one in ids]

    @rule()
    def dead_letters(self):
        found = self.served.letters()
        assert len(found) == len(self.dead)
        numbered = sorted((one["offset"], one["row"]) for one in found if one["stream"] == "http:c")
        assert numbered == sorted(tuple(one[1:]) for one in self.dead if one[0] == "http:c")
        assert sorted(one["row"] for one in found) == sorted(cursor for _, _, cursor in self.dead)


Requests.TestCase.settings = settings(
    max_examples=10, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestRequests = Requests.TestCase


def run_against(machine):
    """Run the machine once more, with one bug more."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=100,
            stateful_step_count=20,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
            print_blob=False,
            phases=[Phase.generate],
        ),
    )


def test_an_overlap_applied_twice_would_be_noticed(monkeypatch):
    """One event that was sent, and one behind it."""
    drawn = SimpleNamespace(draw=lambda _: 1)
    steps = [
        step("begin", kind="int64"),
        step("post_numbered", chosen=[(0, 1, 1, None)]),
        step("post_overlapping", chosen=[(1, 2, 1, None)], data=drawn),
    ]
    take(Requests, steps)
    monkeypatch.setattr(SourceBatch, "after", lambda self, last: self)
    with pytest.raises(AssertionError):
        take(Requests, steps)


def test_a_lost_event_would_be_noticed(monkeypatch):
    ingest = DurableEmbedding._ingest

    def forgetful(self, parts):
        if self.sequence % 5 < 4:
            return ingest(self, parts)
        return [Receipt("applied", self.sequence + 1, len(part.batch), len(part.dead)) for part in parts]

    monkeypatch.setattr(DurableEmbedding, "_ingest", forgetful)
    with pytest.raises((AssertionError, KeyError)):
        run_against(Requests)
