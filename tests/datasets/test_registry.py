import hashlib
import importlib
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dygcn.datasets import info, load, names
from dygcn.datasets.registry import Equal, Window, registry, shipped_names
from dygcn.errors import DatasetError, DygcnError
from dygcn_lab.datasets.page import docs_table
from dygcn_lab.datasets.shipping import COLUMNS, write_shipped

PACKAGES = {"dygcn.datasets": "hepth-collab", "dygcn_lab.datasets": "as-733"}


WAITING = {  # in the collection, and for questions that the registry has no steps for yet
    "cora", "icews14", "icews18", "jodie-wikipedia", "lightgcn-gowalla", "lightgcn-lastfm", "movielens-small",
    "online-retail", "yago-tkg",
}  # fmt: skip


def test_every_folder_of_the_collection_is_known_and_no_other(data):
    folders = {path.parent.name for path in data.glob("*/edges.parquet")}
    assert folders - WAITING == set(names()) - {"facebook"}
    assert len(folders - WAITING) == 21


@pytest.mark.parametrize("name", names())
def test_entries_are_whole(name):
    about = info(name)
    facts = (about.title, about.what, about.time, about.publisher, about.source, about.citation, about.terms)
    assert all(fact and "\n" not in fact and "|" not in fact for fact in facts)
    assert about.address.startswith("http")
    assert about.grown_from or {"edges.parquet", "nodes.parquet"} <= set(about.sha256)
    assert all(len(checksum) == 64 for checksum in about.sha256.values())
    assert isinstance(about.cut, Window) or not about.deletions  # equal parts are of additions only


def test_cuts():
    windows = {name: about.cut for name, about in registry().items() if isinstance(about.cut, Window)}
    assert windows == {
        "as-733": Window(673, 732),
        "hepth-collab": Window(75, 134),
        "as-caida": Window(62, 121),
        "facebook": Window(0, 35),
    }
    assert {about.cut for name, about in registry().items() if name not in windows} == {Equal(40, 0.4)}


def test_an_unknown_name_lists_the_known_ones():
    for ask in (info, load):
        with pytest.raises(DatasetError, match="'as-734' is not a data set") as caught:
            ask("as-734")
        assert all(name in str(caught.value) for name in names())
        assert isinstance(caught.value, DygcnError)
        assert isinstance(caught.value, LookupError)


def shipped_in(package):
    return Path(importlib.import_module(package).__file__).parent / "shipped"


@pytest.mark.parametrize(("package", "name"), PACKAGES.items())
def test_each_package_ships_one_set_as_numbers_without_names(package, name):
    folder = shipped_in(package)
    assert {path.name for path in folder.iterdir()} == {"NOTICE.txt", f"{name}.parquet"}
    assert shipped_names(package) == [name]
    content = (folder / f"{name}.parquet").read_bytes()
    assert len(content) < 700_000
    assert hashlib.sha256(content).hexdigest() == info(name).sha256[f"{name}.parquet"]
    schema = pq.read_schema(folder / f"{name}.parquet")
    assert dict(zip(schema.names, schema.types, strict=True)) == COLUMNS
    notice = (folder / "NOTICE.txt").read_text("utf-8")
    assert f"{name}.parquet" in notice
    assert info(name).address in notice


@pytest.mark.parametrize(("package", "name"), PACKAGES.items())
def test_shipped_copies_can_be_made_again(package, name, data, tmp_path):
    write_shipped(data / name, tmp_path / "again.parquet")
    again = pq.read_table(tmp_path / "again.parquet")
    assert again.equals(pq.read_table(shipped_in(package) / f"{name}.parquet"))


def test_the_page_has_the_table_of_the_registry():
    page = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text("utf-8")
    assert f"\n\n{docs_table()}\n" in page, (
        "put what dygcn_lab.datasets.page.docs_table() returns into the page"
    )
