"""Pages and pictures from results that nobody measured; the page of the docs from those of the repository."""

import json
from pathlib import Path

import pytest

from costs import made_up
from dygcn.errors import DygcnError, OptionError
from dygcn_lab.costs import page
from dygcn_lab.costs.page import page_text, seen_from, write_page
from dygcn_lab.costs.results import KINDS, read_results, rows_of, write_result
from dygcn_lab.costs.tables import tables_of
from dygcn_lab.costs.targets import Target, asked_table, read_asked
from dygcn_lab.report.tables import markdown_table

ROOT = Path(__file__).parents[3]
RESULTS = sorted((ROOT / "results" / "costs").glob("*.json"))


@pytest.mark.skipif(not RESULTS, reason="nothing was measured yet")
def test_the_page_of_the_docs_is_written_from_the_results():
    results = read_results(RESULTS)
    file = ROOT / "docs" / "costs.md"
    images = {kind: file.parent / "images" / "costs" / f"{kind}.png" for kind in results}
    assert all(image.exists() for image in images.values())
    assert page_text(results, seen_from(file, images)) == file.read_text()


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.name)
def test_files_are_named_by_their_kind_and_name_no_machine(file):
    text = file.read_text()
    assert json.loads(text)["kind"] == file.stem
    assert "load_average" in json.loads(text)
    assert "/work" not in text
    assert "/tmp" not in text


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("page")
    results = made_up.everything()
    pictures = write_page(results, folder / "docs" / "costs.md", folder / "pictures")
    return results, pictures, (folder / "docs" / "costs.md").read_text()


def test_every_result_has_its_picture_and_its_tables(written):
    results, pictures, text = written
    assert list(pictures) == list(KINDS)
    for kind in KINDS:
        assert pictures[kind].read_bytes().startswith(b"\x89PNG")
        assert f"](../pictures/{kind}.png)" in text
        for table in tables_of(results[kind]):
            assert markdown_table(table) in text
    assert "Not measured" not in text
    assert "Left out: the moon. It is too far away." in text


OF_SECTIONS = {  # a column that the sentences of the section are about
    "Beside the bare additions": "times bare",
    "Where a rerun becomes cheaper": "rival",
    "As the graph grows": "peak",
    "Memory": "bytes a node",
    "Tolerance": "within the bound",
    "Threads": "two threads us",
    "The walk base": "steps of walks",
    "Kinds of features": "rows of the model, a node",
    "The score of a link": "new, times the cosine",
    "Recommending": "least recall of a node",
    "Reads over HTTP": "reads a second",
    "Compiled ahead of time, and at run time": "ratio, AVX2",
    "Reading": "ahead of time, us a vector",
    "Starting": "seconds until it answers",
}


@pytest.mark.parametrize("which", ["made up", "of the docs"])
def test_each_section_has_its_own_tables(written, which):
    text = written[2] if which == "made up" else (ROOT / "docs" / "costs.md").read_text()
    sections = dict(one.split("\n", 1) for one in text.split("\n## ")[1:])
    columns = {
        title: [line for line in sections[title].splitlines() if line[:1] == "|"] for title in OF_SECTIONS
    }
    for title, column in OF_SECTIONS.items():
        assert any(column in line for line in columns[title]), title


def test_sections_in_another_order_keep_their_tables(written, monkeypatch):
    results, pictures, _ = written
    head, *sections = page._prose().split("\n## ")
    monkeypatch.setattr(page, "_prose", lambda: "\n## ".join([head, *sections[::-1]]))
    test_each_section_has_its_own_tables((results, pictures, page_text(results, {})), "made up")


def test_sentences_over_other_tables_would_be_noticed(written, monkeypatch):
    results, pictures, _ = written
    right = page.sections_of
    by_order = [(kind, *one[1:]) for kind, one in zip(KINDS, right(page._prose()), strict=True)]
    monkeypatch.setattr(page, "sections_of", lambda prose: by_order)
    with pytest.raises(AssertionError, match="Reads over HTTP"):
        test_each_section_has_its_own_tables((results, pictures, page_text(results, {})), "made up")


def test_numbers_of_the_page_are_those_of_the_results(written):
    results, _, text = written
    results = json.loads(json.dumps(results))
    assert "| 1 | 40 | 120 | 12.9 | 3.1 | 25,000 |" in text
    assert "| recompute in place | 53,442 | 6,410 | 133,605 | never up to 10,000 |" in text
    assert "| 10,000,000 | 100,000,000 | 240 | 1,000 |" in text
    results["update"]["batches"][0]["median_us"] = 41.0
    assert "| 1 | 41 | 120 |" in page_text(results, {})


def test_what_is_missing_names_its_command(tmp_path):
    text = page_text({"scale": made_up.scale()}, {})
    for kind in KINDS:
        assert (f"`dygcn bench {kind} --json` writes" in text) == (kind != "scale")
    assert "![" not in text


def test_results_are_read_by_kind(tmp_path):
    write_result(made_up.scale(), tmp_path / "b.json")
    write_result(made_up.update(), tmp_path / "deep" / "a.json")
    found = read_results([tmp_path / "b.json", tmp_path / "deep" / "a.json"])
    assert list(found) == ["update", "scale"]
    assert found["scale"] == made_up.scale()
    with pytest.raises(OptionError, match="second result of the kind scale"):
        read_results([tmp_path / "b.json", tmp_path / "b.json"])
    for text, wrong in (("{", "is no result"), ("[]", "is no result"), ('{"kind": "x"}', "kind is 'x'")):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(DygcnError, match=wrong):
            read_results([tmp_path / "bad.json"])


def test_what_was_asked_is_judged_row_by_row():
    results = made_up.everything()
    asked = [
        Target("at most {limit} times", "update", "times_bare", {"events": 1000}, most=2),
        Target("at most {limit} times", "update", "times_bare", {"events": [1, 1000]}, most=2),
        Target("rows do not grow: {limit}", "scale", "rows_per_event", most=1.05, across=True),
        Target(
            "never before {limit}", "crossover", "cheaper_from_batch", {"name": "Cleora rerun"}, least=1e4
        ),
        Target("within {limit}", "memory", "measured_bytes / predicted_bytes", most=1.05),
        Target("nothing", "memory", "measured_bytes", {"graph": "the moon"}, most=1),
    ]
    rows = asked_table(asked, results).rows
    assert [row[2] for row in rows] == ["yes", "no", "yes", "yes", "no", ""]
    assert rows[0][1] == "arxiv-coauthor: 1.7; as-caida: 1.7; power-law: 1.7"
    assert "as-caida, batch of 1: 3.1" in rows[1][1]
    assert (
        rows[2][1]
        == "steady-10000000-100000000, batch of 1,000 over steady-100000-1000000, batch of 1,000: 1.01"
    )
    assert rows[3][1] == "arxiv-coauthor: never; as-caida: never; power-law: never"
    assert rows[4][1].startswith("arxiv-coauthor, batch of 1,000: 1.08")
    assert rows[5][1] == "not measured"


def test_every_wish_of_the_package_is_about_something_that_is_measured():
    results = made_up.everything()
    for each in read_asked():
        assert (each.most is None) != (each.least is None)
        assert any(each.field.split(" / ")[0] in row for row in rows_of(results[each.kind]))
        assert "{" not in each.sentence
