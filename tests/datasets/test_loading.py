import shutil
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from dygcn.datasets import info, load, loading, names
from dygcn.errors import DatasetError, OptionError
from dygcn_lab.evaluation.steps import steps_of


def same_events(a, b):
    return all(np.array_equal(getattr(a, column), getattr(b, column)) for column in ("src", "dst", "t", "op"))


@pytest.fixture
def nowhere(monkeypatch):
    monkeypatch.delenv("DYGCN_DATA", raising=False)


@pytest.mark.parametrize("name", names())
def test_every_set_is_what_the_registry_says(name, data):
    loaded, about = load(name, data), info(name)
    columns = (loaded.src, loaded.dst, loaded.t, loaded.op)
    assert {column.dtype for column in columns} == {np.dtype(np.int64)}
    assert {len(column) for column in columns} == {about.events}
    assert int((loaded.op == -1).sum()) == about.deletions
    assert set(np.unique(loaded.op)) <= {-1, 1}
    assert (np.diff(loaded.t) >= 0).all()
    assert min(loaded.src.min(), loaded.dst.min()) >= 0
    assert max(loaded.src.max(), loaded.dst.max()) < about.nodes
    assert (loaded.labels is None) == (not about.labels)
    if loaded.labels is not None:
        assert loaded.labels.shape == (about.nodes,)
        assert loaded.labels.dtype == np.int64
        assert loaded.labels.min() >= -1
    if not about.grown_from:
        assert pq.read_metadata(data / name / "nodes.parquet").num_rows == about.nodes
        assert np.array_equal(pq.read_table(data / name / "edges.parquet")["t"].to_numpy(), loaded.t)


@pytest.mark.parametrize(
    ("name", "steps", "fitted"),
    [
        ("as-733", 59, 29),
        ("hepth-collab", 59, 29),
        ("as-caida", 59, 29),
        ("facebook", 35, 17),
        ("chess", 40, 20),
    ],
)
def test_steps(name, steps, fitted, data):
    cut = steps_of(load(name, data))
    assert (cut.last, cut.fitted) == (steps, fitted)
    assert len(np.unique(cut.step)) == steps + 1


def test_the_paper_s_numbers_of_hepth(nowhere):
    data = load("hepth-collab")
    sizes = [len(moment.edges) * 2 for moment in steps_of(data).moments]
    assert (sizes[0], sizes[-1]) == (23318, 47776)


def test_events_go_to_fit_as_they_are(nowhere):
    data = load("as-733")
    assert list(data.events()) == ["src", "dst", "t", "op"]
    assert data.events()["t"] is data.t


@pytest.mark.parametrize("name", ["as-733", "hepth-collab"])
def test_shipped_copies_have_every_event(name, data, nowhere):
    shipped, converted = load(name), load(name, data)
    assert same_events(shipped, converted)
    assert len(shipped.src) == info(name).events


def test_labels(data):
    school = load("highschool-2013", data)
    assert school.classes == ("2BIO1", "2BIO2", "2BIO3", "MP", "MP*1", "MP*2", "PC", "PC*", "PSI*")
    assert np.bincount(school.labels).tolist() == [37, 33, 40, 33, 29, 38, 44, 39, 34]
    authors = load("arxiv-coauthor", data)
    assert len(authors.classes) == 20
    assert int((authors.labels == authors.classes.index("cs")).sum()) == 133001
    assert len(load("arxiv-coauthor", data, label="category").classes) == 171
    areas = load("dblp-labelled", data)
    assert np.bincount(areas.labels).tolist() == [7069, 1761, 4345, 1231, 3522, 2200, 3260, 718, 318, 963]
    assert sorted(set(load("patent-labelled", data).labels.tolist())) == [1, 2, 3, 4, 5, 6]
    years = load("fb100-amherst41", data)
    assert int((years.labels == -1).sum()) == 214
    assert 0 not in years.labels
    assert np.array_equal(years.labels, load("facebook", data).labels)
    assert np.bincount(load("fb100-amherst41", data, label="status").labels).tolist() == [
        0,
        1653,
        553,
        6,
        15,
        8,
    ]


def test_labels_that_are_not_there(data):
    with pytest.raises(OptionError, match="'house'; allowed for facebook: year, status, gender"):
        load("facebook", data, label="house")
    with pytest.raises(OptionError, match="allowed for as-733: none"):
        load("as-733", label="label")


def test_the_folder_of_one_set_or_of_all(data, tmp_path, monkeypatch, nowhere):
    assert same_events(load("chess", data), load("chess", str(data / "chess")))
    monkeypatch.setenv("DYGCN_DATA", str(data))
    assert same_events(load("chess"), load("chess", data))
    monkeypatch.setenv("DYGCN_DATA", str(tmp_path))
    assert len(load("as-733").src) == 232638  # not there, but it ships
    with pytest.raises(DatasetError, match="Without folder= the copy"):
        load("hepth-collab", tmp_path)  # a folder that was named is meant


def test_a_set_that_is_not_there(tmp_path, monkeypatch, nowhere):
    with pytest.raises(DatasetError) as unset:
        load("chess")
    for part in (
        "DYGCN_DATA is not set",
        "Only hepth-collab comes with dygcn",
        "KONECT",
        "http://konect.cc",
        "folder=",
    ):
        assert part in str(unset.value)
    with pytest.raises(DatasetError) as named:
        load("chess", tmp_path)
    assert str(tmp_path / "chess" / "edges.parquet") in str(named.value)
    assert str(tmp_path / "edges.parquet") in str(named.value)
    monkeypatch.setenv("DYGCN_DATA", str(tmp_path))
    with pytest.raises(DatasetError, match=r"fb100-amherst41.*Amherst41\.mat"):
        load("facebook")


@pytest.mark.parametrize("file", ["edges.parquet", "nodes.parquet"])
def test_one_flipped_bit_is_seen(file, data, tmp_path):
    shutil.copytree(data / "highschool-2013", tmp_path / "copy", copy_function=shutil.copyfile)
    load("highschool-2013", tmp_path / "copy")
    path = tmp_path / "copy" / file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.unlink()
    path.write_bytes(content)
    with pytest.raises(DatasetError) as caught:
        load("highschool-2013", tmp_path / "copy")
    expected = info("highschool-2013").sha256[file][:12]
    for part in (str(path), f"expected sha256 {expected}...", "found ", "get it again", "dygcn.fit"):
        assert part in str(caught.value)


def test_another_set_under_this_name_and_a_missing_file(data, tmp_path):
    with pytest.raises(DatasetError, match="is not the chess that dygcn knows"):
        load("chess", data / "college-msg")
    shutil.copyfile(data / "highschool-2013" / "edges.parquet", tmp_path / "edges.parquet")
    with pytest.raises(DatasetError, match=r"nodes\.parquet of the data set highschool-2013 cannot be read"):
        load("highschool-2013", tmp_path)


def test_a_damaged_installation_is_seen(monkeypatch, tmp_path, nowhere):
    (tmp_path / "shipped").mkdir()
    (tmp_path / "shipped" / "as-733.parquet").write_bytes(b"PAR1")
    info("as-733")  # the registry itself is whole
    monkeypatch.setattr(loading, "files", lambda package: tmp_path)
    with pytest.raises(DatasetError, match=r"as-733\.parquet of this installation is not the as-733"):
        load("as-733")


def test_importing_the_room_is_light():
    script = (
        "import sys, dygcn.datasets as room; room.names()\n"
        "heavy = {'torch', 'numba', 'pyarrow', 'pandas', 'scipy', 'sklearn'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
