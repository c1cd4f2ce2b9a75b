import inspect
import shutil
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from dygcn.datasets import load
from dygcn.datasets.loading import ATTRIBUTES, arrivals, grow
from dygcn.errors import DatasetError, MissingExtra
from dygcn_lab.evaluation.steps import steps_of


def same(a, b):
    return all(np.array_equal(getattr(a, column), getattr(b, column)) for column in ("src", "dst", "t", "op"))


@pytest.fixture
def save(data, tmp_path):
    """Return a function that writes a school as its publisher does."""
    sparse, savemat = pytest.importorskip("scipy.sparse"), pytest.importorskip("scipy.io").savemat

    def write(school, file, change=lambda edges, attributes: None):
        edges, nodes = (pq.read_table(data / school / f"{part}.parquet") for part in ("edges", "nodes"))
        ends = np.stack([edges[name].to_numpy() for name in ("src", "dst")])
        attributes = np.stack([nodes[name].to_numpy() for name in ATTRIBUTES], axis=1)
        change(ends, attributes)
        both = np.concatenate((ends, ends[::-1]), axis=1)
        matrix = sparse.csc_matrix((np.ones(both.shape[1]), both), shape=(len(attributes),) * 2)
        savemat(tmp_path / file, {"A": matrix, "local_info": attributes}, do_compression=True)
        return tmp_path / file

    return write


def test_the_paper_s_numbers(data):
    steps = steps_of(load("facebook", data))
    edges = [moment.edges for moment in steps.moments]
    assert len(edges) == 36
    assert (len(edges[0]), len(edges[-1])) == (9092, 88642)
    # The paper says 2085 at the start. So many have arrived; 143 of them wait for their first edge.
    assert (len(np.unique(edges[0])), len(np.unique(edges[-1]))) == (1942, 2235)
    assert inspect.signature(grow).parameters["nodes"].default == (2085, 2235)


def test_steps_are_what_grow_gives(data):
    table = pq.read_table(data / "fb100-amherst41" / "edges.parquet")
    grown = grow(*(table.column(name).to_numpy().astype(np.int64) for name in ("src", "dst")), seed=1)
    loaded = load("facebook", data, seed=1)
    steps = steps_of(loaded)
    for column, values in zip(("src", "dst", "step"), grown, strict=True):
        assert np.array_equal(getattr(steps, column), values)
    assert (steps.fitted, (steps.op == 1).all()) == (17, True)
    assert not same(loaded, load("facebook", data, seed=0))


@pytest.mark.parametrize(
    ("school", "file"),
    [("fb100-amherst41", "Amherst41.mat"), ("fb100-johnshopkins55", "Johns Hopkins55.mat")],
)
def test_the_publisher_s_file_gives_the_same(school, file, data, save, monkeypatch):
    path, converted = save(school, file), load(school, data)
    for loaded in (load(school, path), load(school, path.parent)):
        assert same(loaded, converted)
        assert np.array_equal(loaded.labels, converted.labels)
    assert np.array_equal(load(school, path, label="dorm").labels, load(school, data, label="dorm").labels)
    monkeypatch.setenv("DYGCN_DATA", str(path.parent))
    assert same(load(school), converted)


def test_facebook_grows_the_same_from_either(data, save):
    path = save("fb100-amherst41", "Amherst41.mat")
    mine, theirs = load("facebook", path.parent, 3), load("facebook", data, 3)
    assert same(mine, theirs)
    assert np.array_equal(mine.labels, theirs.labels)


def test_a_changed_file_is_seen(save):
    def another_edge(ends, attributes):
        ends[1, 0] += 1

    def another_year(ends, attributes):
        attributes[7, 5] += 1

    for change in (another_edge, another_year):
        with pytest.raises(DatasetError, match=r"Amherst41\.mat is not the fb100-amherst41 that dygcn knows"):
            load("facebook", save("fb100-amherst41", "Amherst41.mat", change))


def test_what_is_no_school_at_all(save, tmp_path):
    path = save("fb100-amherst41", "Amherst41.mat")
    content = path.read_bytes()
    for wrong in (b"", b"not a matrix" * 20, content[: len(content) // 2]):
        path.write_bytes(wrong)
        with pytest.raises(DatasetError, match="cannot be read as a school"):
            load("fb100-amherst41", path)
    sys.modules["scipy.io"].savemat(path, {"A": np.eye(3)})
    with pytest.raises(DatasetError, match="cannot be read as a school"):
        load("fb100-amherst41", path)


def test_too_few_attributes(data, tmp_path):
    sparse, savemat = pytest.importorskip("scipy.sparse"), pytest.importorskip("scipy.io").savemat
    savemat(tmp_path / "Amherst41.mat", {"A": sparse.eye(3, format="csc"), "local_info": np.ones((3, 6))})
    with pytest.raises(DatasetError, match=r"shape \(3, 6\)"):
        load("fb100-amherst41", tmp_path)


def test_converted_folders_need_no_scipy(data, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    assert len(load("facebook", data).src) == 88642
    shutil.copyfile(data / "fb100-amherst41" / "README.md", tmp_path / "Amherst41.mat")
    with pytest.raises(MissingExtra, match=r'pip install "dygcn\[facebook100\]"'):
        load("facebook", tmp_path)


def test_a_quarter_of_a_school_is_there_at_first():
    ends = np.array([(0, 1), (1, 0), (3, 0), (0, 3), (7, 1), (1, 7)])
    src, dst, t = arrivals(ends[:, 0], ends[:, 1], 8)
    assert (src.tolist(), dst.tolist(), t.tolist()) == ([0, 0, 1], [1, 3, 7], [0, 2, 6])
