"""What pages say of the score of a link, on made-up cells: every claim can turn to no."""

import pytest

from dygcn_lab.experiments.cells import CellStore
from dygcn_lab.experiments.plan import experiment_names, read_experiment
from dygcn_lab.experiments.results_page import MARKS, results_page, with_headline
from dygcn_lab.experiments.score_tables import (
    added_table,
    added_words,
    headline_table,
    trivial_table,
    trivial_words,
)
from dygcn_lab.experiments.score_verdicts import ASKED, score_verdicts
from dygcn_lab.experiments.sections import make_section
from dygcn_lab.experiments.walk_verdicts import fresh_words, walk_verdicts
from dygcn_lab.report.tables import markdown_table
from experiments.made_up import fill

UP_AND_DOWN = [0.6, 1.4, 0.6, 1.4, 0.6, 1.4]  # mean 1.0: above 0.99, and not surely
REACHED, ABOVE, NOT_BELOW, BANK = range(4)


def links(store, **others):
    """Fill the table of links: the score far ahead, but for rows and data sets that are told otherwise."""

    def mean_of(dataset, label, seed):
        found = others.get(dataset, {}).get(label)
        return found if found is not None else 0.99 if label.startswith("score") else 0.5

    fill(store, "links", mean_of)


def holds(store):
    return [verdict.holds for verdict in score_verdicts(store)]


@pytest.fixture
def store(tmp_path):
    return CellStore(tmp_path)


def test_a_score_that_is_ahead_everywhere_holds(store):
    links(store)
    verdicts = score_verdicts(store)
    assert [verdict.holds for verdict in verdicts] == [True] * 4
    assert verdicts[REACHED].found.startswith("as-733 0.990 (5 seeds), hepth-collab 0.990 (5 seeds)")


def test_a_trivial_row_that_is_ahead_is_seen(store):
    """Seeded: two sets lost are one too many."""
    ahead = {"popularity": 0.995}
    links(store, **{"digg-reply": ahead, "college-msg": ahead})
    assert holds(store)[ABOVE] is False
    assert "digg-reply (0.990; popularity 0.995: worse)" in score_verdicts(store)[ABOVE].found


def test_other_embeddings_with_the_same_score_are_rivals_of_their_own(store):
    ahead = {"DynWalks, same score": 0.995}
    links(store, **{"hepth-collab": ahead, "dblp-labelled": ahead})
    found = holds(store)
    assert found[NOT_BELOW] is False
    assert found[ABOVE] is True


def test_a_cosine_that_is_ahead_is_seen(store):
    ahead = {"cosine alone": 0.995}
    links(store, **{"hepth-collab": ahead, "dblp-labelled": ahead})
    assert holds(store)[ABOVE] is False


def test_not_surely_better_wins_nothing_and_loses_nothing(store):
    close = [value * 0.98 for value in UP_AND_DOWN]
    rows = {"popularity": close, "DynWalks, same score": UP_AND_DOWN}
    links(store, **dict.fromkeys(ASKED, rows))
    verdicts = score_verdicts(store)
    assert verdicts[ABOVE].found.startswith("0 of 11; not on as-733 (0.990; popularity 0.980: tied)")
    assert verdicts[NOT_BELOW].found == "11 of 11"  # ahead in the mean, but not surely


def test_all_links_are_held_against_a_list_of_pairs_on_every_set(store):
    links(store, **{"as-caida": {"EdgeBank, recency": 0.992}})
    assert holds(store)[BANK] is True
    links(store, **{"as-caida": {"EdgeBank, recency": 0.9935}})
    assert score_verdicts(store)[BANK].found == "10 of 11; not on as-caida (0.9900; 0.9935)"
    assert holds(store)[BANK] is False


def test_figures_that_were_asked_for_have_to_be_reached(store):
    links(store, **{"email-eu-core-temporal": {"score": 0.8748}})
    verdict = score_verdicts(store)[REACHED]
    assert verdict.holds is False
    assert verdict.found.endswith("below on email-eu-core-temporal (0.8748; asked 0.875)")


def test_claims_wait_for_their_rivals(store):
    assert holds(store) == [None] * 4
    links(store)
    (store.folder / "cit-hepth" / "headed-cleora.0.json").unlink()
    assert holds(store) == [True, True, None, True]
    assert score_verdicts(store)[2].found.endswith("Not run: Cleora, same score on cit-hepth")
    (store.folder / "cit-hepth" / "trivial.0.json").unlink()
    assert holds(store) == [True, *[None] * 3]


def test_where_vectors_add_nothing_is_said_first(store):
    def mean_of(dataset, label, seed):
        with_vectors = {"digg-reply": 0.5, "college-msg": 0.4, "as-caida": [0.4, 0.62] * 3}.get(dataset, 0.6)
        return 0.5 if label == "without vectors" else with_vectors

    fill(store, "parts", mean_of)
    text = added_words(store)
    assert (
        "nothing on as-caida (+0.010, tied), college-msg (-0.100, worse), digg-reply (+0.000, tied)" in text
    )
    assert "on the other 8 of 11 they add +0.100" in text
    page = results_page([], store, {})
    assert page.startswith(f"# Results\n\n{text}\n\n")
    rows = {row[0]: row[1] for row in added_table(store).rows}
    assert rows["cit-hepth"] == "**+0.100**"
    assert rows["college-msg"] == "-0.100, worse"


def test_where_vectors_always_add_is_said_too(store):
    fill(store, "parts", lambda dataset, label, seed: 0.5 if label == "without vectors" else 0.6)
    assert "To telling new links: they add on every set of 11, +0.100." in added_words(store)
    assert "nothing on" not in added_words(store)


def test_where_trivial_methods_win(store):
    links(store)
    assert "On no set, under no question" in trivial_words(store)
    assert not trivial_table(store).rows
    links(
        store,
        **{"digg-reply": {"popularity": 0.995, "EdgeBank": UP_AND_DOWN}, "as-733": {"cosine alone": 1.0}},
    )
    rows = trivial_table(store).rows
    assert len(rows) == len(read_experiment("links").measures)
    assert rows[0] == ["AUC, new-warm", "digg-reply", "EdgeBank", "1.000", "0.990", "0.0100", "no"]
    assert "AUC, new-warm: digg-reply (by up to 0.010; surely on 0)" in trivial_words(store)


def test_the_table_of_the_readme(store):
    rows = {"DynWalks, same score": 0.995, "DynWalks, cosine": 0.6, "popularity": UP_AND_DOWN}
    fill(store, "parts", lambda dataset, label, seed: 0.99)
    links(store, **{"hepth-collab": rows})
    table = headline_table(store)
    assert len(table.rows) == 11
    text = markdown_table(table).splitlines()
    assert text[3].startswith(
        "| HEP-TH (hepth-collab) | **0.990** | **0.995 DynWalks** | **1.000 popularity** |"
    )
    assert text[2].startswith("| AS (as-733) | **0.990** | 0.500 hashed | 0.500 cosine alone |")
    assert text[2].endswith("| +0.000, tied |")
    readme = with_headline(f"{MARKS[0]}\n{MARKS[1]}\n", store).splitlines()
    assert [line.count("|") for line in readme[1:-1]] == [5] * (2 + 4)
    assert "| HEP-TH (hepth-collab) | **0.990** | **0.995 DynWalks** | **1.000 popularity** |" in readme


def test_the_page_has_its_parts_in_order(store):
    links(store)
    sections = [make_section(read_experiment(name), store) for name in experiment_names()]
    page = results_page(sections, store, {})
    titles = [line[3:] for line in page.splitlines() if line.startswith("## ")]
    assert titles[:9] == [
        "At a glance",
        "How methods are judged",
        "What was asked, and what was found",
        "What keeps vectors fresh",
        "Figure: fresh vectors, step by step",
        "The score of a link",
        "Where trivial methods win",
        "What the vectors add",
        "What a vector database finds",
    ]


def test_a_page_without_cells_says_so(store):
    page = results_page([make_section(read_experiment("links"), store)], store, {})
    assert "To telling new links: not run." in page
    assert "## Where trivial methods win\n\nNot run." in page
    assert "**Fresh vectors.** Not run." in page
    assert "| yes |" not in page


def test_fresh_vectors_stand_beside_frozen_ones_and_rows_anew(store):
    figures = {"exact rule over old rows": 0.8, "rows anew and the exact rule": 0.805, "rows anew": 0.79}
    fill(store, "freshness", lambda dataset, label, seed: figures.get(label, 0.6))
    assert [verdict.holds for verdict in walk_verdicts(store)[:3]] == [True] * 3
    assert "above frozen vectors on 12 of 12, by 0.200 in the median. It is" in fresh_words(store)
    fill(store, "freshness", lambda dataset, label, seed: 0.9 if label == "nothing updated" else 0.8)
    assert "(not on as-733, hepth-collab, as-caida" in fresh_words(store)
    frozen, *_ = walk_verdicts(store)
    assert frozen.holds is False
    assert frozen.found.startswith("0 of 12; not on as-733 (0.800; nothing updated 0.900)")
