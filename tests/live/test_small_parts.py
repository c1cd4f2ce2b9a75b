"""Small functions behind an embedding, each on a case that can be worked out by hand."""

import os

import numpy as np
import pytest

import dygcn
from dygcn.engine.events import id_column
from dygcn.engine.features.inputs import RowTable
from dygcn.live import evaluated, evaluating, fitting, refitting
from dygcn.live.embedding import usual_jump
from dygcn.live.other_names import ATTRIBUTES, no_attribute
from dygcn.live.search import backends
from dygcn.live.shared.sharing import Segments, attach


def test_measures_and_how_they_are_written():
    found = evaluated.measures_of(np.array([1.0, 3.0, 20.0, np.inf])).round(2).tolist()
    assert found == [[1.0, 0.33, 0.05, 0.0], [1.0, 1.0, 0.0, 0.0], [1.0, 0.5, 0.0, 0.0]]
    assert [evaluated.short(one) for one in (0.431, -0.04, 1.0, -0.001)] == [".43", "-.04", "1.00", ".00"]
    assert (evaluated.span(0.021, 0.06), evaluated.span(0.001, 0.02)) == (".02 to .06", ".001 to .020")


def test_phases_have_names():
    assert [name for name, _ in fitting.phases_of("exact", "hashed")] == [
        "playing events",
        "training",
        "training",
    ]
    names = [name for name, _ in evaluating.plan_of(rule="exact")]
    assert names[-2:] == ["choosing settings of rivals", "asking"]


def test_rivals_on_a_few_contacts():
    seen = evaluating.PastContacts.of(np.array([0, 1, 0, 0]), np.array([2, 2, 3, 2]), np.arange(4.0), 4)
    assert (seen.pair_at.tolist(), seen.items_before(9).tolist()) == ([0, 1, 2], [2, 3])
    assert evaluating.popularity(seen, 0, np.array([2, 3]), 3).tolist() == [2.0, 1.0]
    seen = evaluating.PastContacts.of(np.array([0, 3, 1, 1, 0]), np.array([2, 0, 4, 4, 2]), np.arange(5.0), 6)
    assert np.argsort(-evaluating.recency(seen, 0, np.array([2, 3, 4, 5]), 4)).tolist() == [1, 0, 2, 3]


def test_rows_are_turned_onto_the_old_ones():
    old = RowTable.of(id_column(["ann", "bob"]), np.array([[1.0, 0.0], [0.0, 1.0]], np.float32))
    swapped = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], np.float32)
    turned = swapped @ refitting.alignment(id_column(["bob", "ann", "cat"]), swapped, old)
    assert turned.round(3).tolist() == [[0.0, 1.0], [1.0, 0.0], [0.8, 0.6]]
    linked, others = np.linspace(0.2, 1, 50), np.linspace(0, 0.8, 50)
    assert refitting.error_of_gain((linked, others), (linked, others)) == 0.0


def test_parts_of_an_index():
    assert (backends.lists_for(250_000), backends.lists_for(3)) == (1000, 3)
    assert backends.fewest(lambda probes: probes / 100, 4, 200, 0.5) == 50
    units, nodes = np.array([[1, 0], [0.6, 0.8], [0, 1]], np.float32), np.array([0, 1, 2], np.int32)
    assert backends.ask(nodes[:1], units[:1], [(nodes, units)], 2).bars.round(3).tolist() == [0.0]
    one = backends.RecallQuestions(
        np.zeros(1, np.int32), np.ones((1, 1), np.float32), np.array([0.5]), most=2
    )
    assert one.recall([(np.array([4, 4, 9]), np.array([0.9, 0.9, 0.2]))]) == 0.5


def test_an_array_is_mapped_by_its_place():
    segments = Segments()
    array = segments.zeros(3, np.int64)
    array[1] = 7
    assert attach(os.getpid(), segments.place(array)).tolist() == [0, 7, 0]


def test_names_of_other_libraries_and_the_usual_jump():
    error = no_attribute("LiveEmbedding", "add_edge", ATTRIBUTES)
    assert str(error).endswith("has no attribute 'add_edge'; live.update(add=[(a, b)]) adds edges")
    with pytest.raises(TypeError, match=r"fit\(\) has no option 'dimensions': dim= is the length"):
        dygcn.fit([(1, 2)], dimensions=8)
    events = {"src": [1, 2], "dst": [2, 3], "t": [1_700_000_000, 1_700_000_060]}
    assert usual_jump(dygcn.fit(events, dim=4, memory=3600)._state) == 9 * 1_700_000_060
