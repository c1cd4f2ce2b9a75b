"""The walk base against its dense twin, and what it must not depend on."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dygcn.engine.training import walks
from dygcn.engine.training.walks import walk_base
from dygcn.errors import OptionError
from tests.engine.training.dense_walks import dense_base, dense_log_walks
from tests.seeded import assert_noticed


def edges_of(A):
    first, second = np.nonzero(np.triu(A, 1))
    return first.astype(np.int32), second.astype(np.int32), A[first, second]


def random_graph(nodes, chance, seed, weighted=True):
    random = np.random.default_rng(seed)
    weight = random.lognormal(0, 1.5, (nodes, nodes)) if weighted else np.ones((nodes, nodes))
    A = np.triu(weight * (random.random((nodes, nodes)) < chance), 1)
    return A + A.T


def blocks(count, size, seed, inside=0.5, outside=0.01):
    """Return a graph of communities: its leading singular values stand apart from the others."""
    random = np.random.default_rng(seed)
    block = np.repeat(np.arange(count), size)
    chance = np.where(block[:, None] == block, inside, outside)
    A = np.triu(random.random(chance.shape) < chance, 1).astype(float)
    return A + A.T


def star(leaves):
    A = np.zeros((leaves + 1, leaves + 1))
    A[0, 1:] = A[1:, 0] = 1
    return A


def clique(nodes):
    return 1.0 - np.eye(nodes)


def side_by_side(*graphs):
    A = np.zeros((sum(map(len, graphs)),) * 2)
    at = 0
    for graph in graphs:
        A[at : at + len(graph), at : at + len(graph)] = graph
        at += len(graph)
    return A


def log_matrix(A, window):
    """Return M as the compiled loops make it, in the numbering of A."""
    first, second, weight = edges_of(A)
    order, place = walks._by_degree(first, second, len(A))
    arcs, degree = walks._arcs_of(first, second, weight, place, len(order))
    joined, _, _ = walks.walk_kernels.count_walks(window, arcs.start, arcs.columns)
    logs = walks._log_walks(arcs, degree, window, joined, walks._Reporter(None))
    small = np.zeros((len(order), len(order)))
    walks.walk_kernels.write_dense(logs.start, logs.columns, logs.values, small)
    M = np.zeros_like(A)
    M[np.ix_(order, order)] = small
    return M, logs, joined


GRAPHS = {
    "weights": random_graph(40, 0.15, 1),
    "sparse": random_graph(60, 0.02, 2, weighted=False),
    "star": star(9),
    "clique": clique(7),
    "pair": clique(2),
    "parts": side_by_side(star(4), clique(5), np.zeros((3, 3)), random_graph(20, 0.2, 3)),
    "extremes": side_by_side(1e-9 * clique(3), 1e9 * clique(4), random_graph(12, 0.3, 4)),
}
every_graph = pytest.mark.parametrize("A", GRAPHS.values(), ids=GRAPHS)
every_window = pytest.mark.parametrize("window", [1, 2, 3])


def check_matrix(A, window):
    M, logs, joined = log_matrix(A, window)
    np.testing.assert_allclose(M, dense_log_walks(A, window), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(M, M.T, rtol=1e-5, atol=1e-6)
    assert (logs.values > 0).all()
    reached = sum(np.linalg.matrix_power(A > 0, r).astype(bool) for r in range(1, window + 1)) > 0
    assert joined == reached.sum()


@every_graph
@every_window
def test_walks_are_those_of_the_dense_twin(A, window):
    check_matrix(A, window)


def check_product(width):
    A = GRAPHS["weights"]
    _, logs, _ = log_matrix(A, 2)
    dense = np.zeros((len(logs.start) - 1,) * 2)
    walks.walk_kernels.write_dense(logs.start, logs.columns, logs.values, dense)
    block = np.random.default_rng(17).standard_normal((len(dense), width)).astype(np.float32)
    right = dense @ block
    logs.multiply(block, np.empty(len(dense) * walks.COLUMNS, np.float32))
    np.testing.assert_allclose(block, right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("width", [1, 63, 64, 65, 148])
def test_products_are_those_of_numpy(width):
    check_product(width)


@st.composite
def graphs(draw):
    nodes = draw(st.integers(2, 12))
    pairs = [(a, b) for a in range(nodes) for b in range(a)]
    chosen = draw(st.lists(st.sampled_from(pairs), min_size=1, unique=True))
    A = np.zeros((nodes, nodes))
    for a, b in chosen:
        A[a, b] = A[b, a] = draw(st.floats(1e-6, 1e6))
    return A


@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(1, 4))
def test_walks_of_any_graph(A, window):
    check_matrix(A, window)


@every_graph
@every_window
def test_small_graphs_are_factorised_exactly(A, window):
    base = walk_base(*edges_of(A), len(A), 64, 0, window=window)
    rows, has = dense_base(A, 64, window)
    assert base.has.tolist() == has.tolist()
    np.testing.assert_allclose(base.rows @ base.rows.T, rows @ rows.T, atol=1e-4)
    assert base.rows.shape == (len(A), 64)
    assert base.rows.dtype == np.float32
    assert not base.rows[~base.has].any()
    assert (base.window, base.core) == (window, int((A.sum(1) > 0).sum()))


def check_large(A, rank, window, seed=0):
    base = walk_base(*edges_of(A), len(A), rank, seed, window=window)
    rows, has = dense_base(A, rank, window)
    assert base.has.tolist() == has.tolist()
    np.testing.assert_allclose(np.linalg.norm(base.rows[has], axis=1), 1, atol=1e-6)
    cosines = np.abs(base.rows @ base.rows.T - rows @ rows.T)
    assert cosines.max() < 0.02, cosines.max()


@every_window
def test_large_graphs_have_the_cosines_of_an_exact_svd(window):
    check_large(blocks(8, 40, 5), 8, window)


def test_the_subspace_is_the_leading_one():
    M = dense_log_walks(blocks(6, 50, 6), 2)

    def multiply(block):
        block[:] = M @ block

    block = walks.leading_block(multiply, len(M), 6, 0)
    turn = walks.rotation(block, 6)
    left, sizes, _ = np.linalg.svd(M)
    found = block @ turn
    np.testing.assert_allclose(np.linalg.norm(found, axis=0), sizes[:6], rtol=1e-4)
    angles = np.linalg.svd(left[:, :6].T @ (found / np.linalg.norm(found, axis=0)), compute_uv=False)
    np.testing.assert_allclose(angles, 1, atol=1e-5)


@pytest.mark.parametrize(
    "block",
    [
        np.random.default_rng(0).standard_normal((9000, 12)),
        np.random.default_rng(1).standard_normal((500, 12)) * 10.0 ** -np.arange(12),
        np.random.default_rng(2).standard_normal((500, 3))
        @ np.random.default_rng(3).standard_normal((3, 12)),
        np.repeat(np.random.default_rng(4).standard_normal((500, 1)), 12, axis=1),
        np.eye(500, 12) * (np.arange(12) < 3),
        np.zeros((500, 12)),
    ],
    ids=["well", "ill", "rank three", "rank one", "zero columns", "zero"],
)
def test_columns_become_orthonormal_and_keep_their_span(block):
    right = block.astype(np.float32)
    sizes = np.linalg.svd(right.astype(float), compute_uv=False)
    rank = int((sizes > 1e-5 * sizes[0]).sum()) if sizes[0] else 0
    span = np.linalg.svd(right.astype(float), full_matrices=False)[0][:, :rank]
    walks.orthonormalise(right)
    assert np.isfinite(right).all()
    inside = np.linalg.svd(span.T @ right, compute_uv=False)[:rank]
    assert (inside > 0.9).all(), inside  # every direction that was there is still there
    assert np.linalg.norm(right, 2) < 1.01
    if rank == 12:
        np.testing.assert_allclose(right.T @ right, np.eye(12), atol=1e-5)


def test_a_block_that_is_not_finite_is_refused():
    with pytest.raises(FloatingPointError, match="not finite"):
        walks.orthonormalise(np.full((50, 3), np.nan, np.float32))


def test_who_has_no_row():
    # Walks of one and of two steps cancel on a complete bipartite graph: nobody is joined above chance.
    assert not walk_base(*edges_of(star(9)), 10, 4, 0, window=2).has.any()
    assert walk_base(*edges_of(star(9)), 10, 4, 0, window=1).has.all()
    both = side_by_side(star(60), np.zeros((2, 2)), blocks(3, 20, 7))
    for rank in (4, 128):
        base = walk_base(*edges_of(both), len(both), rank, 0, window=3)
        assert not base.has[61:63].any()
        assert not base.rows[~base.has].any()
        assert base.has[63:].all()
        np.testing.assert_allclose(np.linalg.norm(base.rows[base.has], axis=1), 1, atol=1e-6)


def test_rows_of_a_small_part_are_kept_beside_a_large_one():
    """Singular values of the triangle are far below the leading ones; its nodes still share a direction."""
    both = side_by_side(blocks(8, 40, 8), clique(3))
    base = walk_base(*edges_of(both), len(both), 6, 0, window=1)
    assert base.has[-3:].all()
    assert (base.rows[-3:] @ base.rows[-3:].T > 0.9).all()


def test_nothing_in_nothing_out():
    none = np.empty(0, np.int32)
    base = walk_base(none, none, np.empty(0), 5, 3, 0)
    assert base.rows.shape == (5, 3)
    assert not base.has.any()
    assert base.core == 0
    assert walk_base(none, none, np.empty(0), 0, 3, 0).rows.shape == (0, 3)


def test_rows_that_are_near_save_products():
    A = blocks(8, 40, 5)
    edges = *edges_of(A), len(A), 8, 0
    rows, _ = dense_base(A, 8, 2)
    near = np.rint(walk_base(*edges, window=2).rows * 127).astype(np.int8)
    near[::5] = 0  # who has none yet

    def error(**how):
        base = walk_base(*edges, window=2, products=1, **how)
        assert base.has.all()
        return np.abs(np.abs(base.rows @ base.rows.T) - np.abs(rows @ rows.T)).max()

    assert 2 * error(begin=near) < error()
    assert walk_base(*edges, begin=np.zeros_like(near)).has.all()


def test_signed_sums_of_columns_are_a_product():
    _, logs, _ = log_matrix(random_graph(60, 0.1, 17), 2)
    core = len(logs.start) - 1
    M = np.zeros((core, core))
    walks.walk_kernels.write_dense(logs.start, logs.columns, logs.values, M)
    eye = walks.Sparse(np.arange(core + 1), np.arange(core, dtype=np.int32), np.ones(core, np.float32))
    drawn = walks._columns_together(eye, 8, seed=3)
    assert (np.abs(drawn).sum(axis=1) == 1).all()
    np.testing.assert_allclose(walks._columns_together(logs, 8, seed=3), M @ drawn, rtol=1e-5, atol=1e-5)


def test_pairs_that_nobody_counts_leave_the_window_as_it_is(monkeypatch):
    edges = edges_of(random_graph(300, 0.05, 16))
    monkeypatch.setitem(walks.MULTIPLICATIONS, 3, 10_000)
    counted = []
    count = walks.walk_kernels.count_walks
    monkeypatch.setattr(walks.walk_kernels, "count_walks", lambda *a: counted.append(a) or count(*a))
    short = walk_base(*edges, 300, 8, 0)
    assert not counted
    monkeypatch.setattr(walks, "_least_ahead", lambda arcs, lengths: 0.0)
    same_bits(short, walk_base(*edges, 300, 8, 0))
    assert counted
    assert short.window == 2


@pytest.mark.parametrize("seed", range(3))
def test_a_third_step_takes_no_less_than_is_said(seed):
    first, second, weight = edges_of(random_graph(100, 0.05, seed))
    order, place = walks._by_degree(first, second, 100)
    arcs, _ = walks._arcs_of(first, second, weight, place, len(order))
    least = walks._least_ahead(arcs, np.diff(arcs.start).astype(np.float64))
    assert 0 < least <= walks.walk_kernels.count_walks(2, arcs.start, arcs.columns)[2]


def same_bits(one, other):
    return one.rows.tobytes() == other.rows.tobytes() and one.has.tolist() == other.has.tolist()


def check_numbering(graph=GRAPHS["weights"], rank=8):
    """Edges in any order and direction, beside numbers that nobody has: the same bits."""
    random = np.random.default_rng(11)
    A = side_by_side(graph, blocks(3, 20, 9))
    first, second, weight = edges_of(A)
    base = walk_base(first, second, weight, len(A), rank, 3)
    assert same_bits(base, walk_base(first, second, weight, len(A), rank, 3))
    shuffle, swap = random.permutation(len(first)), random.random(len(first)) < 0.5
    a, b = np.where(swap, second, first)[shuffle], np.where(swap, first, second)[shuffle]
    assert same_bits(base, walk_base(a, b, weight[shuffle], len(A), rank, 3))
    number = np.sort(random.permutation(len(A) + 5)[: len(A)]).astype(np.int32)
    other = walk_base(number[a], number[b], weight[shuffle], len(A) + 5, rank, 3)
    assert base.rows.tobytes() == other.rows[number].tobytes()
    assert other.has.sum() == base.has.sum()
    assert not same_bits(base, walk_base(first, second, weight, len(A), rank, 4))


def test_bits_do_not_depend_on_the_order_of_edges():
    check_numbering()


def test_the_unit_of_weights_does_not_matter():
    first, second, weight = edges_of(blocks(3, 30, 10))
    bases = [walk_base(first, second, 2.0**unit * weight, 90, 4, 0) for unit in (0, -300, 300)]
    assert same_bits(bases[0], bases[1])
    assert same_bits(bases[0], bases[2])


def test_longer_walks_while_they_fit(monkeypatch):
    A = random_graph(300, 0.02, 12, weighted=False)
    edges, rank = edges_of(A), 16
    first, second, _ = edges
    order, place = walks._by_degree(first, second, 300)
    arcs, _ = walks._arcs_of(*edges, place, len(order))
    joined = [walks.walk_kernels.count_walks(w, arcs.start, arcs.columns)[0] for w in (1, 2, 3)]
    needed = [
        walks._bytes_needed(len(order), len(arcs.columns), 300, rank, count if w else 0)
        for w, count in enumerate(joined)
    ]
    assert needed[0] < needed[1] < needed[2]
    windows = [walk_base(*edges, 300, rank, 0, budget=bytes_).window for bytes_ in needed]
    assert windows == [1, 2, 3]
    assert [walk_base(*edges, 300, rank, 0, budget=bytes_ - 1).window for bytes_ in needed[1:]] == [1, 2]
    assert walk_base(*edges, 300, rank, 0).window == 3
    made = []
    whole = walks._log_walks
    monkeypatch.setattr(walks, "_log_walks", lambda *a: made.append(whole(*a)) or made[-1])
    walk_base(*edges, 300, rank, 0, budget=needed[1])
    assert len(made[0].columns) <= joined[1]
    monkeypatch.setitem(walks.MULTIPLICATIONS, 3, 10)
    assert walk_base(*edges, 300, rank, 0).window == 2
    monkeypatch.setitem(walks.MULTIPLICATIONS, 2, 10)
    assert walk_base(*edges, 300, rank, 0).window == 1


@pytest.mark.parametrize("rank", [16, 64])
@pytest.mark.parametrize("window", [1, 2])
def test_memory_stays_within_the_budget(rank, window):
    random = np.random.default_rng(18)
    nodes = 40_000
    pairs = np.unique(np.sort(random.integers(0, nodes, (200_000, 2), np.int32), axis=1), axis=0)
    first, second = np.ascontiguousarray(pairs[pairs[:, 0] != pairs[:, 1]].T)
    weight = np.ones(len(first))
    walk_base(first[:50], second[:50], weight[:50], nodes, 4, 0)  # what is imported and compiled stays
    allowed = 2 if window == 2 else 0
    joined = 100 * nodes * allowed
    budget = walks._bytes_needed(nodes, 2 * len(first), nodes, rank, joined)
    tracemalloc.start()
    try:
        base = walk_base(first, second, weight, nodes, rank, 0, budget=budget)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert base.window == window
    assert peak < budget + base.rows.nbytes + walks._ROWS * 8 * 3 * (rank + 20)


def test_a_third_step_needs_a_small_product(monkeypatch):
    monkeypatch.setattr(walks, "LARGEST_PRODUCT", 100)
    assert walk_base(*edges_of(random_graph(100, 0.05, 13)), 100, 8, 0).window == 2


def check_core():
    """What does not fit is cut to the nodes of the highest degrees, and these alone are factorised."""
    A = random_graph(200, 0.06, 14)
    first, second, weight = edges_of(A)
    whole = walks._bytes_needed(200, 2 * len(first), 200, 8)
    base = walk_base(first, second, weight, 200, 8, 0, budget=whole * 2 // 3)
    degree = (A > 0).sum(1)
    top = np.argsort(-degree, kind="stable")[: base.core]
    assert 0 < base.core < 200
    assert base.window == 1
    assert set(np.flatnonzero(base.has)) <= set(top)
    assert base.has[top].mean() > 0.9
    inside = np.zeros(200, bool)
    inside[top] = True
    rows, has = dense_base(A[np.ix_(inside, inside)], base.core, 1)
    between = inside[first] & inside[second]
    alone = walk_base(first[between], second[between], weight[between], 200, base.core, 0, window=1)
    np.testing.assert_allclose(alone.rows[inside] @ alone.rows[inside].T, rows @ rows.T, atol=1e-3)
    assert alone.has[inside].tolist() == has.tolist() == base.has[inside].tolist()


def test_only_the_core_is_factorised_where_the_budget_is_short():
    check_core()


def test_a_core_is_the_graph_between_its_nodes():
    hubs = clique(30)
    A = side_by_side(hubs, np.zeros((100, 100)))
    for leaf in range(30, 130):
        A[leaf, leaf % 30] = A[leaf % 30, leaf] = 5.0
    needed = walks._bytes_needed(30, 30 * 29, 130, 4)
    base = walk_base(*edges_of(A), 130, 4, 0, budget=needed, window=1)
    alone = walk_base(*edges_of(hubs), 30, 4, 0, window=1)
    assert (base.core, int(base.has.sum())) == (30, 30)
    np.testing.assert_allclose(base.rows[:30] @ base.rows[:30].T, alone.rows @ alone.rows.T, atol=1e-4)


def test_a_budget_for_nobody_is_refused():
    with pytest.raises(OptionError, match="too small for a base of 10 nodes"):
        walk_base(*edges_of(star(9)), 10, 4, 0, budget=100)


@pytest.mark.parametrize("rank", [4, 128])
def test_progress_only_grows_and_comes_to_its_end(rank):
    result = []
    walk_base(*edges_of(blocks(3, 30, 16)), 90, rank, 0, progress=lambda *a: result.append(a))
    done = [a[0] for a in result]
    assert done == sorted(done)
    assert result[-1][0] == result[-1][1]
    assert {a[2] for a in result} == {"factorising walks"}


def check_weights(window):
    check_matrix(GRAPHS["weights"], window)


KERNELS = "dygcn.engine.training.walk_kernels"


@pytest.mark.parametrize(
    ("name", "line", "wrong", "check", "size"),
    [
        (
            KERNELS,
            "ratio = share[2, other] * scale / degree[other]",
            "ratio = share[2, other] * scale / degree[row]",
            check_weights,
            2,
        ),
        (
            KERNELS,
            "share[2, other] += share[after, other]",
            "share[2, other] = share[after, other]",
            check_weights,
            3,
        ),
        (KERNELS, "found = touched if last else 0", "found = 0", check_weights, 2),
        (KERNELS, "share[now, middle] = 0.0", "pass", check_weights, 3),
        (KERNELS, "if ratio > 1.0 + ROUNDING:", "if ratio > 0.0:", check_weights, 1),
        (
            "dygcn.engine._rows",
            "total = np.zeros(width, np.float32)",
            "total = old[row].copy()",
            check_product,
            70,
        ),
        (
            "dygcn.engine._rows",
            "total += values[arc] * old[columns[arc]]",
            "total += values[arc] * old[row]",
            check_product,
            70,
        ),
    ],
)
def test_a_wrong_loop_is_noticed(tmp_path, name, line, wrong, check, size):
    assert_noticed(tmp_path, name, line, wrong, check, size)


def unsorted(start, columns, values, turned, turned_values):
    turned[:], turned_values[:] = columns, values


def test_a_base_that_depends_on_the_order_of_edges_is_noticed(monkeypatch):
    monkeypatch.setattr("dygcn.engine.training.walks.walk_kernels.turn", unsorted)
    with pytest.raises(AssertionError):
        check_numbering()


@pytest.mark.parametrize("leaves", [10, 2449, 3000, 8942])
def test_a_star_has_rows_whatever_its_size(leaves):
    """Of a complete bipartite graph, walks of one and two steps cancel: then one step is all there is."""
    hub, spokes = np.zeros(leaves, np.int32), np.arange(1, leaves + 1, dtype=np.int32)
    base = walk_base(hub, spokes, np.ones(leaves), leaves + 1, 8, 0)
    assert base.has.all()


@pytest.mark.parametrize("power", [-265, -140, -126, 100, 265])
def test_rows_do_not_depend_on_the_unit_of_weights(power):
    random = np.random.default_rng(0)
    pairs = np.unique(np.sort(random.integers(0, 60, (200, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]].astype(np.int32)
    weight = 10.0 ** random.uniform(-2, 2, len(pairs))
    ends = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
    one, two = (walk_base(*ends, weight * 2.0**by, 60, 8, 0).rows for by in (0, power))
    np.testing.assert_array_equal(one, two)
