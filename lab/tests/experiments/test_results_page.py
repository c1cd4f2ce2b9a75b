"""What the docs and the README say is what the cells of the repository say."""

from functools import cache
from pathlib import Path

import pytest

from dygcn_lab.experiments.cells import CellStore
from dygcn_lab.experiments.findings import find
from dygcn_lab.experiments.plan import experiment_names, read_experiment
from dygcn_lab.experiments.results_page import results_page, with_headline, with_history
from dygcn_lab.experiments.score_verdicts import score_verdicts
from dygcn_lab.experiments.sections import make_section
from dygcn_lab.experiments.verdicts import hashed_verdicts, verdict_table
from dygcn_lab.experiments.walk_verdicts import walk_verdicts

ROOT = Path(__file__).parents[3]
STORE = CellStore(ROOT / "results" / "cells")


def test_the_page_of_results_is_written_from_the_cells():
    sections = [make_section(read_experiment(name), STORE) for name in experiment_names()]
    images = ROOT / "docs" / "images" / "results"
    pictures = {
        name: f"images/results/{name}.png" for name in experiment_names() if (images / f"{name}.png").exists()
    }
    assert len(pictures) == len(sections)
    assert results_page(sections, STORE, pictures) == (ROOT / "docs" / "results.md").read_text()


def test_the_table_of_the_readme_is_written_from_the_cells():
    text = (ROOT / "README.md").read_text()
    assert with_headline(text, STORE) == text


def test_every_far_number_of_table_2_has_its_sentence():
    for found in find(read_experiment("table2"), STORE):
        if found.far and found.measure == "auc":
            assert found.row.why.get(found.dataset) or found.row.why.get("all"), (
                found.row.label,
                found.dataset,
            )


def test_no_machine_is_named_in_the_cells():
    for file in STORE.folder.glob("*/*.json"):
        text = file.read_text()
        assert "/work" not in text
        assert "/tmp" not in text


def test_all_methods_ran_on_the_papers_sets_and_the_cheap_ones_on_twelve():
    table = {(f.dataset, f.row.label) for f in find(read_experiment("table2"), STORE)}
    for dataset in read_experiment("table2").datasets:
        for row in read_experiment("table2").rows_of(dataset):
            assert (dataset, row.label) in table
    twelve = {(f.dataset, f.row.label) for f in find(read_experiment("twelve"), STORE)}
    for dataset in read_experiment("twelve").datasets:
        for row in read_experiment("twelve").rows_of(dataset):
            assert (dataset, row.label) in twelve


@cache
def claims():
    return verdict_table([*walk_verdicts(STORE), *score_verdicts(STORE), *hashed_verdicts(STORE)]).rows


@pytest.mark.parametrize("claim", range(16))
def test_claims_say_what_the_cells_say(claim):
    """A claim that no longer holds must be seen when it is written, not found by a reader.

    One that is open says what was not run.
    """
    asked, found, holds = claims()[claim]
    assert holds in ("yes", "no") or "Not run: " in found, (asked, found)


def test_the_tables_of_the_history_are_written_from_the_cells():
    text = (ROOT / "docs" / "maintainers" / "claimed-before.md").read_text()
    assert with_history(text, STORE) == text


@pytest.mark.parametrize("name", ["harder", "links", "parts"])
def test_harder_questions_were_asked_of_every_row(name):
    experiment = read_experiment(name)
    found = {(f.dataset, f.row.label, f.measure) for f in find(experiment, STORE)}
    for dataset in experiment.datasets:
        for row in experiment.rows_of(dataset):
            if name == "links" and row.group not in ("score", "trivial"):
                continue  # other embeddings take hours on large graphs; verdicts name what was not run
            assert (dataset, row.label, "never") in found


def test_amherst_is_judged_without_its_times():
    """Its time is the order of node ids: no row that looks at contacts may stand beside the cosine there."""
    rows = read_experiment("harder").rows_of("fb100-amherst41")
    assert {row.record for row in rows if row.by == "score"} == {
        "common-neighbours",
        "resource-allocation",
        "degree-product",
    }


GONE = (  # what docs/maintainers/claimed-before.md lists, as it stood
    "its score |",
    "/ new ones",
    "are the only ones that look at when a node was last active",
    "best AUC of all methods",
    "best or tied",
    "beats do nothing, fixed weights, degree product and DynWalks",
    "the harder, more useful question",
    "memory is worth more than anything else",
    "Vectors that hold still keep a frozen classifier good",
    "says whether two nodes belong together",
    "on others the cosine does the work",
    "wider than the output helps on new links",
    "A method that does not beat the first is not worth its update",
    "the higher, the likelier",
    "a newcomer has a vector at once",
)


@pytest.mark.parametrize("sentence", GONE)
def test_sentences_that_did_not_hold_are_gone(sentence):
    """The page of history names them; nothing else may say them."""
    files = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").glob("*.md")]
    files += [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.toml"), *(ROOT / "src").rglob("*.md")]
    said = [file.name for file in files if file.name != "claimed-before.md" and sentence in file.read_text()]
    assert not said
