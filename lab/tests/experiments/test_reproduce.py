"""Cells, plans and pages: what is run, kept, and shown."""

import csv
import json
import re

import msgspec
import numpy as np
import pytest

from dygcn.errors import DygcnError, OptionError
from dygcn_lab.experiments import ours
from dygcn_lab.experiments.cells import Cell, CellStore, Record
from dygcn_lab.experiments.findings import find, unbeaten
from dygcn_lab.experiments.groups import METHODS, TRIVIAL, run_cell
from dygcn_lab.experiments.plan import Experiment, Row, experiment_names, read_experiment
from dygcn_lab.experiments.reproduce import reproduce, write_markdown
from dygcn_lab.experiments.results_page import MARKS, with_headline, write_html
from dygcn_lab.experiments.sections import Section, make_section
from dygcn_lab.experiments.verdicts import hashed_verdicts, on_the_papers_sets
from dygcn_lab.report.tables import Table, Value, markdown_table
from experiments.made_up import figures_of, fill, made_up, quiet

ASKED = {
    *("table2", "figure-nc", "figure-longterm", "figure-order", "figure-dimension"),
    *("table-orders", "figure-hops", "figure-kernels", "twelve", "harder"),
    *("walks", "freshness", "freshness-steps", "row-bits", "cores"),
    *("links", "parts", "recall"),
}


def test_every_table_and_figure_of_the_paper_has_its_file():
    assert set(experiment_names()) == ASKED
    for name in ASKED:
        experiment = read_experiment(name)
        assert experiment.says.strip()
        assert experiment.cells()
        assert len(experiment.cells(quick=True)) <= len(experiment.cells())


def test_the_papers_numbers_are_those_of_table_2():
    rows = {row.label: row.paper for row in read_experiment("table2").rows}
    assert rows["GraphSAGE"]["as-733"] == {"auc": 0.5130, "f1": 0.5421, "seconds": 0.2149}
    assert rows["DynWalks"]["hepth-collab"] == {"auc": 0.8867, "f1": 0.8229, "seconds": 17.5355}
    assert rows["GCN retrained, as published"]["facebook"] == {
        "auc": 0.8184,
        "f1": 0.7493,
        "seconds": 143.9285,
    }


def test_an_unknown_experiment_says_which_there_are():
    with pytest.raises(OptionError, match="'table3' is no experiment; there are: freshness, "):
        read_experiment("table3")


def test_a_cell_is_run_once(tmp_path):
    store, runs = CellStore(tmp_path), []

    def work(cell, notify):
        runs.append(cell)
        return {"one": Record({"auc": [0.5, None]}, notes={"memory": 16.0})}

    cell = Cell("as-733", "ours", 3, {"orders": 2})
    first, second = store.run(cell, work, quiet), store.run(cell, work, quiet)
    assert len(runs) == 1
    assert first.records == second.records
    assert second.versions["python"]
    assert not list(tmp_path.glob("*/*.part"))


def test_a_run_that_dies_leaves_no_cell(tmp_path):
    store = CellStore(tmp_path)

    def die(cell, notify):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.run(Cell("as-733", "ours", 0), die, quiet)
    assert store.read(Cell("as-733", "ours", 0)) is None


def test_a_damaged_cell_says_so(tmp_path):
    store = CellStore(tmp_path)
    cell = Cell("as-733", "ours", 0)
    store.run(cell, lambda cell, notify: {"exact": made_up(0.5)}, quiet)
    file = tmp_path / cell.file
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(DygcnError, match="Delete it"):
        store.read(cell)


def test_findings_average_over_steps_and_seeds(tmp_path):
    store = CellStore(tmp_path)
    fill(store, "table2", lambda dataset, label, seed: 0.5 + 0.01 * seed)
    found = {(f.dataset, f.row.label, f.measure): f for f in find(read_experiment("table2"), store)}
    exact = found["as-733", "exact", "auc"]
    assert exact.mean == pytest.approx(0.52)
    assert exact.spread == pytest.approx(0.04)
    assert exact.seeds == 5
    sage = found["as-733", "GraphSAGE", "auc"]
    assert (sage.paper, sage.far) == (0.513, False)
    assert found["as-733", "DynWalks", "auc"].far
    assert not found["as-733", "DynWalks", "seconds"].far


def test_far_from_the_paper_wants_a_sentence(tmp_path):
    store = CellStore(tmp_path)
    fill(store, "table2", lambda dataset, label, seed: 0.5)
    section = make_section(read_experiment("table2"), store)
    assert any(reason.startswith("DynWalks, AS (as-733): 0.500, paper 0.854.") for reason in section.reasons)


def test_the_page_has_freshness_first_then_links_then_the_paper():
    order = ["freshness", "freshness-steps", "links", "parts", "recall", "walks", "harder"]
    assert experiment_names()[: len(order)] == order
    assert experiment_names().index("table2") > experiment_names().index("harder")


def test_rows_leave_data_sets_out():
    rows = [Row("a", "g", "a", without=["x"]), Row("b", "g", "b", only=["x"]), Row("c", "g", "c")]
    experiment = Experiment("t", "table", "s", ["x", "y"], rows)
    assert [row.label for row in experiment.rows_of("x")] == ["b", "c"]
    assert [row.label for row in experiment.rows_of("y")] == ["a", "c"]


def test_rows_name_data_sets_of_their_table():
    for name in ASKED:
        experiment = read_experiment(name)
        for row in experiment.rows:
            assert {*(row.only or []), *row.without} <= set(experiment.datasets), (name, row.label)


def test_no_row_is_of_the_old_score():
    """Five numbers of it once: rows of these groups have no other figures by a score."""
    for name in ASKED:
        for row in read_experiment(name).rows:
            assert row.group != "ablation"
            if row.by == "score":
                assert row.group not in ("ours", "walks"), (name, row.label)
                assert row.record != "hashed-do-nothing", (name, row.label)


def test_verdicts_wait_for_every_rival(tmp_path):
    """Seeded: a table without its baselines must not be won."""
    store = CellStore(tmp_path)
    fill(store, "table2", lambda dataset, label, seed: 0.95 if label.startswith("exact") else 0.8)
    assert all(verdict.holds for verdict in on_the_papers_sets(store))
    for file in tmp_path.glob("*/dynwalks*.json"):
        file.unlink()
    assert [verdict.holds for verdict in on_the_papers_sets(store)] == [None] * 3


def test_a_tie_is_not_a_win(tmp_path):
    store = CellStore(tmp_path)
    fill(store, "table2", lambda dataset, label, seed: 0.95)
    verdicts = on_the_papers_sets(store)
    assert [verdict.holds for verdict in verdicts] == [False] * 3
    assert "retrained at every step: 0.9500" in verdicts[0].found


def test_claims_on_all_edges_stand_beside_a_list_of_pairs(tmp_path):
    store = CellStore(tmp_path)
    fill(store, "table2", lambda dataset, label, seed: 0.95 if label.startswith("exact") else 0.8)
    bank = {"edgebank-recency": made_up(0.994)}
    store.run(Cell("as-733", "trivial", 0), lambda cell, notify: bank, quiet)
    claims = hashed_verdicts(store)
    assert "EdgeBank with recency, no embedding: 0.9940" in claims[0].found
    assert not any("all methods" in each.asked for each in claims)


def test_tables_in_markdown():
    table = Table("AS", ["method", "AUC"], [["exact", Value("0.995", "0.894", True, "0.001")], ["none", ""]])
    text = markdown_table(table)
    assert text.splitlines()[-2:] == ["| exact | **0.995** ± 0.001 (0.894) |", "| none |  |"]


def test_the_page_escapes_what_it_shows(tmp_path):
    experiment = msgspec.structs.replace(read_experiment("table2"), title="<script>alert(1)</script>")
    write_html([Section(experiment)], {}, tmp_path / "page.html", "t")
    assert "<script>" not in (tmp_path / "page.html").read_text()


def test_the_readme_keeps_everything_but_the_results(tmp_path):
    store = CellStore(tmp_path)
    fill(store, "links", lambda dataset, label, seed: 0.9)
    before = f"# Title\n\n{MARKS[0]}\nold\n{MARKS[1]}\n\nAfter.\n"
    after = with_headline(before, store)
    assert after.startswith("# Title")
    assert after.endswith("\n\nAfter.\n")
    assert "old\n" not in after
    assert "HEP-TH (hepth-collab)" in after
    with pytest.raises(DygcnError, match="no place for the table"):
        with_headline("# Title", store)


def test_quick_runs_end_to_end(tmp_path, data):
    """Real data, cut short: cheap methods of the table, a figure of every other kind."""
    out = tmp_path / "out"
    done = reproduce(
        ["table2", "table-orders"],
        out,
        quick=True,
        datasets=["as-733"],
        groups=["fastrp", "degree-product", "influence"],  # `.ci/run reproduce` has ours,
    )
    assert not done.missing
    with (out / "table2.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["method"] for row in rows} >= {"FastRP rerun", "degree product"}
    assert all(0 <= float(row["ours"]) <= 1 for row in rows if row["measure"] in ("auc", "f1"))
    assert (out / "table2.png").stat().st_size > 10_000
    page = (out / "index.html").read_text()
    assert page.count("data:image/png;base64,") == 2
    assert "Nothing was run" not in page
    write_markdown(done, tmp_path / "docs" / "results.md")
    text = (tmp_path / "docs" / "results.md").read_text()
    for picture in re.findall(r"\]\((images/[^)]*)\)", text):
        assert (tmp_path / "docs" / picture).exists()
    cells = sorted((out / "cells").glob("*/*.json"))
    stamps = [cell.stat().st_mtime_ns for cell in cells]
    again = reproduce(["table2"], out, quick=True, datasets=["as-733"], groups=["fastrp"])
    assert not again.unfinished
    assert [cell.stat().st_mtime_ns for cell in cells] == stamps  # nothing was run twice


def test_a_clone_alone_leaves_facebook_out(tmp_path, monkeypatch):
    monkeypatch.delenv("DYGCN_DATA", raising=False)
    done = reproduce(["table-orders"], tmp_path)
    assert set(done.missing) == {"facebook"}
    assert "DYGCN_DATA" in done.missing["facebook"]
    assert "Facebook" in json.dumps([section.left_out for section in done.sections])


def test_time_that_is_up_is_said(tmp_path):
    done = reproduce(["table-orders"], tmp_path, quick=True, minutes=0)
    assert done.unfinished == 1


def test_every_method_has_a_name():
    assert {"exact", "rolling", "spectral", "do-nothing", "fixed-weights", "retrained", "timers"} <= set(
        METHODS
    )
    assert len(METHODS) == len(set(METHODS.values()))


def test_numbers_of_a_step_without_links_are_left_out(tmp_path):
    store = CellStore(tmp_path)
    fill(store, "twelve", lambda dataset, label, seed: 0.9)
    cell = Cell("as-733", "dynwalks", 0)
    (tmp_path / cell.file).unlink()
    record = Record({name: [0.5, None, 0.7] for name in figures_of("cosine")})
    store.run(cell, lambda cell, notify: {"dynwalks": record}, quiet)
    found = {(f.dataset, f.row.label, f.measure): f.mean for f in find(read_experiment("twelve"), store)}
    assert found["as-733", "DynWalks", "new-warm"] == pytest.approx(np.mean([0.5, 0.7]))


def test_bold_is_whatever_may_be_the_best(tmp_path):
    """Under harder questions a greater mean alone wins nothing: it must be greater at most of the steps."""
    store, experiment = CellStore(tmp_path), read_experiment("harder")
    row = {row.label: row for row in experiment.rows}
    series = {
        "hashed": [0.9, 0.5, 0.9, 0.5, 0.9, 0.5],
        "hashed-do-nothing": [0.5, 0.9, 0.5, 0.9, 0.5, 0.7],
    }
    series |= {name: [0.4, 0.3, 0.4, 0.3, 0.4, 0.3] for name in TRIVIAL}
    for group, names in {"hashed": list(series)[:2], "trivial": TRIVIAL}.items():
        records = {
            name: Record({f"{by}.auc.never.uniform": series[name] for by in ("cosine", "score")})
            for name in names
        }
        store.run(Cell("college-msg", group, 0), lambda cell, notify, records=records: records, quiet)
    best = unbeaten(experiment, store, "college-msg", "never", False)
    assert row["hashed"] in best
    assert row["do nothing"] in best
    assert row["popularity"] not in best
    table = make_section(experiment, store).tables[0]
    shown = dict(zip(table.columns, table.rows[0], strict=True))
    assert shown["hashed"].best
    assert shown["do nothing"].best
    assert not shown["popularity"].best


@pytest.mark.parametrize("group", ["hashed", "retrained"])
def test_groups_of_ours_say_which_features_they_have(group, monkeypatch):
    """Their cells are of hashed features, whatever the default of `fit` becomes."""
    asked, right = [], ours.fit

    def watched(events, **options):
        asked.append(options.get("features"))
        return right(events, **options)

    monkeypatch.setattr(ours, "fit", watched)
    records = run_cell(Cell("as-733", group, 0, {"quick": True}), quiet)
    assert asked
    assert set(asked) == {"hashed"}
    figures = records["hashed" if group == "hashed" else next(iter(records))].figures
    assert "cosine.auc.never.uniform" in figures
