"""The page of the docs is written from the results of the repository, and so are its pictures."""

import json

import pytest

from costs.published import FILES, ROOT, published
from dygcn.errors import DygcnError, OptionError
from dygcn_lab.costs import page
from dygcn_lab.costs.page import Target, asked_table, page_text, read_asked, seen_from, write_page
from dygcn_lab.costs.results import KINDS, ONCE, read_results, rows_of
from dygcn_lab.costs.tables import tables_of
from dygcn_lab.report.blocks import write_json
from dygcn_lab.report.tables import markdown_table

DOCS = ROOT / "docs" / "costs.md"


def test_the_page_of_the_docs_is_written_from_the_results():
    results = published()
    images = {kind: DOCS.parent / "images" / "costs" / f"{kind}.png" for kind in results}
    assert all(image.exists() for image in images.values())
    assert page_text(results, seen_from(DOCS, images)) == DOCS.read_text()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_files_are_named_by_their_kind_and_name_no_machine(file):
    text = file.read_text()
    assert json.loads(text)["kind"] == file.stem
    assert "load_average" in json.loads(text)
    assert "/work" not in text
    assert "/tmp" not in text


def test_every_result_has_its_picture_and_its_tables(tmp_path):
    pytest.importorskip("matplotlib")
    results = published()
    results["crossover"]["notes"] = ["left out: the moon. It is too far away"]
    pictures = write_page(results, tmp_path / "docs" / "costs.md", tmp_path / "pictures")
    text = (tmp_path / "docs" / "costs.md").read_text()
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


def check_sections(text):
    sections = dict(one.split("\n", 1) for one in text.split("\n## ")[1:])
    for title, column in OF_SECTIONS.items():
        assert any(column in line for line in sections[title].splitlines() if line[:1] == "|"), title


def test_each_section_has_its_own_tables():
    check_sections(DOCS.read_text())


def test_sections_in_another_order_keep_their_tables(monkeypatch):
    head, *sections = page._prose().split("\n## ")
    monkeypatch.setattr(page, "_prose", lambda: "\n## ".join([head, *sections[::-1]]))
    check_sections(page_text(published(), {}))


def test_sentences_over_other_tables_would_be_noticed(monkeypatch):
    right = page.sections_of
    by_order = [(kind, *one[1:]) for kind, one in zip(KINDS, right(page._prose()), strict=True)]
    monkeypatch.setattr(page, "sections_of", lambda prose: by_order)
    with pytest.raises(AssertionError, match="Reads over HTTP"):
        check_sections(page_text(published(), {}))


def test_numbers_of_the_page_are_those_of_the_results():
    results = published()
    row = results["update"]["batches"][0]
    row["median_us"] = 77_777.0
    assert f"| {row['events']} | 77,777 |" in page_text(results, {})


def test_what_is_missing_names_its_command():
    text = page_text({"scale": published()["scale"]}, {})
    for kind in KINDS:
        assert (f"`dygcn bench {kind} --json` writes" in text) == (kind not in ("scale", *ONCE))
    assert "![" not in text


def test_results_are_read_by_kind(tmp_path):
    results = published()
    write_json(results["scale"], tmp_path / "b.json")
    write_json(results["update"], tmp_path / "deep" / "a.json")
    found = read_results([tmp_path / "b.json", tmp_path / "deep" / "a.json"])
    assert list(found) == ["update", "scale"]
    assert found["scale"] == results["scale"]
    with pytest.raises(OptionError, match="second result of the kind scale"):
        read_results([tmp_path / "b.json", tmp_path / "b.json"])
    for text, wrong in (("{", "is no result"), ("[]", "is no result"), ('{"kind": "x"}', "kind is 'x'")):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(DygcnError, match=wrong):
            read_results([tmp_path / "bad.json"])


def test_what_was_asked_is_judged_row_by_row():
    batches = [
        {"graph": graph, "events": events, "times_bare": times}
        for graph in ("small", "large")
        for events, times in ((1, 3.1), (1000, 1.7))
    ]
    sizes = [
        {"graph": "small", "events": 1000, "rows_per_event": 61.0},
        {"graph": "large", "events": 1000, "rows_per_event": 61.4},
    ]
    rivals = [{"name": "Cleora rerun", "cheaper_from_batch": None}]
    results = {
        "update": {"kind": "update", "batches": batches},
        "scale": {"kind": "scale", "rows": sizes},
        "crossover": {"kind": "crossover", "graphs": [{"graph": "small", "rivals": rivals}]},
        "memory": {
            "kind": "memory",
            "rows": [{"graph": "small", "measured_bytes": 108, "predicted_bytes": 100}],
        },
    }
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
    assert rows[0][1] == "small: 1.7; large: 1.7"
    assert "large, batch of 1: 3.1" in rows[1][1]
    assert rows[2][1] == "large, batch of 1,000 over small, batch of 1,000: 1.01"
    assert [row[1] for row in rows[3:]] == ["small: never", "small: 1.08", "not measured"]


def test_every_wish_of_the_package_is_about_something_that_is_measured():
    results = published()
    for each in read_asked():
        assert (each.most is None) != (each.least is None)
        assert any(each.field.split(" / ")[0] in row for row in rows_of(results[each.kind]))
        assert "{" not in each.sentence
