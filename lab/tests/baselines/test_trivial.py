"""Rows that learn nothing: what each remembers, and what it forgets."""

import numpy as np
import pytest

from dygcn_lab.baselines.activity import DegreeContact, Popularity
from dygcn_lab.baselines.edgebank import EdgeBank, EdgeBankRecency, EdgeBankWindow
from dygcn_lab.baselines.neighbours import CommonNeighbours, ResourceAllocation

from .planted import history

PAIRS = np.array([[1, 0], [2, 3], [4, 5], [0, 5]])


def led(method, parts, fitted=1, nodes=8):
    moments = history(parts)
    method.begin(moments[:fitted], nodes)
    for moment in moments[fitted:]:
        method.follow(moment)
    return method


def test_every_pair_that_was_ever_in_contact():
    bank = led(EdgeBank(), [[(0, 1, 1)], [(0, 1, -1), (2, 3, 1)], [(5, 4, 1)]])
    assert bank.score(PAIRS, "all").tolist() == [1, 1, 1, 0]


def test_a_window_forgets():
    """Fifteen percent of ten fitted steps are two."""
    parts = [[(0, 1, 1)], *([[(6, 7, 1)]] * 8), [(2, 3, 1)], [(4, 5, 1)]]
    assert led(EdgeBankWindow(), parts, fitted=10).score(PAIRS, "all").tolist() == [0, 1, 1, 0]
    assert led(EdgeBankWindow(), [*parts, []], fitted=10).score(PAIRS, "all").tolist() == [0, 0, 1, 0]


def test_an_edge_that_lives_until_it_is_removed_is_in_contact():
    parts = [[(0, 1, 1), (2, 3, 1)], *([[(6, 7, 1)]] * 8), [(2, 3, -1)], [], [], []]
    assert led(EdgeBankWindow(), parts, fitted=10).score(PAIRS, "all").tolist() == [1, 0, 0, 0]


def test_the_last_contact_decides_and_then_popularity():
    bank = led(EdgeBankRecency(), [[(4, 5, 1), (0, 1, 1)], [(2, 3, 1), (3, 2, 1)]])
    two, one, old, never = bank.score(PAIRS[[1, 0, 2, 3]], "all")
    assert two > one > old > never
    busy, quiet = bank.score(np.array([[2, 4], [4, 1]]), "all")
    assert old > busy > quiet


def test_a_repeated_contact_counts():
    parts = [[(0, 1, 1), (2, 3, 1)], [(4, 5, 1)], [(1, 0, 1)]]
    again, once, between, _ = led(EdgeBankRecency(), parts).score(PAIRS, "all")
    assert again > between > once
    popularity = led(Popularity(), parts)
    again, once, _, _ = popularity.score(PAIRS, "all")
    assert again > once
    again, once, _, _ = led(DegreeContact(), parts).score(PAIRS, "all")
    assert again > once  # the degrees are the same, the last contact is not


def test_popularity_is_half_forgotten_after_three_steps():
    method = led(Popularity(), [[(0, 1, 1)], [], [], []])
    assert method.score(PAIRS[:1], "all")[0] == pytest.approx(2 * np.log(1.5))


def test_degrees_and_contacts():
    method = led(DegreeContact(), [[(0, 1, 1), (1, 2, 1)], [(2, 3, 1)]])
    expected = {0: np.log(2 / 2), 1: np.log(3 / 2), 2: np.log(3), 3: np.log(2), 7: np.log(1 / 3)}
    pairs = np.array([[a, b] for a in expected for b in expected])
    wanted = [expected[a] + expected[b] for a, b in pairs.tolist()]
    np.testing.assert_allclose(method.score(pairs, "all"), wanted)


def test_common_neighbours_share_what_they_are_worth():
    random = np.random.default_rng(0)
    events = [(a, b, 1) for a, b in random.integers(0, 30, (90, 2)).tolist() if a != b]
    moments = history([events])
    links = np.zeros((30, 30))
    links[moments[0].edges[:, 0], moments[0].edges[:, 1]] = 1
    links += links.T
    pairs = random.integers(0, 30, (200, 2))
    counted, worth = (led(kind(), [events], nodes=30) for kind in (CommonNeighbours, ResourceAllocation))
    both = links[pairs[:, 0]] * links[pairs[:, 1]]
    np.testing.assert_allclose(counted.score(pairs, "all"), both.sum(axis=1))
    np.testing.assert_allclose(worth.score(pairs, "all"), both @ (1 / np.maximum(links.sum(axis=1), 1)))
