"""What pages say first of the score of a link: what vectors add, where trivial methods win, and one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dygcn_lab.evaluation import Paired
from dygcn_lab.experiments.cells import CellStore
from dygcn_lab.experiments.findings import MEASURES
from dygcn_lab.experiments.plan import Row, read_experiment
from dygcn_lab.experiments.score_verdicts import MINE, NEW, Compared, is_headed, is_headless, is_trivial
from dygcn_lab.experiments.sections import title_of
from dygcn_lab.report.tables import Table, Value

ADDED = {"new-warm": "telling new links"}  # measure -> to what vectors add, or do not
WHOLE, BARE = "whole", "without vectors"  # of the rows of `parts`
_SAME = ", same score"
NOWHERE = "On no set, under no question, is a row that learns nothing ahead of the score"


def added(store: CellStore) -> dict[str, dict[str, Paired]]:
    """Return data set -> measure -> the whole score minus the score without vectors."""
    parts = Compared(store, "parts")
    found: dict[str, dict[str, Paired]] = {}
    for dataset in parts.datasets:
        for measure in ADDED:
            if parts.means(dataset, measure, [WHOLE, BARE]) is not None:
                found.setdefault(dataset, {})[measure] = parts.against(dataset, measure, WHOLE, BARE)
    return found


def added_table(store: CellStore) -> Table:
    """Return what vectors add, a row a data set; bold where it is surely something."""
    rows: list[list[str | Value]] = []
    for dataset, each in added(store).items():
        cells = [_difference(each[measure]) if measure in each else "" for measure in ADDED]
        rows.append([title_of(dataset), *cells])
    return Table("Adds: whole minus without vectors", ["data", *(MEASURES[m] for m in ADDED)], rows)


def _difference(found: Paired) -> str:
    text = f"{found.difference:+.3f}"
    return f"**{text}**" if found.verdict == "better" else f"{text}, {found.verdict}"


def added_words(store: CellStore) -> str:
    """Say on which sets the vectors add nothing, question by question."""
    found, said = added(store), []
    for measure, what in ADDED.items():
        here = {name: each[measure] for name, each in found.items() if measure in each}
        some = [each.difference for each in here.values() if each.verdict == "better"]
        none = [f"{k} ({v.difference:+.3f}, {v.verdict})" for k, v in here.items() if v.verdict != "better"]
        if not here:
            said.append(f"To {what}: not run.")
        elif not none:
            said.append(f"To {what}: they add on every set of {len(here)}, {_span(some)}.")
        else:
            rest = f"; on the other {len(some)} of {len(here)} they add {_span(some)}" if some else ""
            said.append(f"To {what}: nothing on {', '.join(none)}{rest}.")
    beside = "The score of a link beside itself, fitted without vectors: recency, popularity and repetition"
    whole = f"({beside}; paired bootstrap over the steps; [table](#what-the-vectors-add).)"
    return " ".join(["**Where the vectors add nothing.**", *said, whole])


def _span(values: list[float]) -> str:
    low, high = (f"{value:+.3f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


@dataclass(frozen=True)
class Win:
    """A row that learns nothing and has a greater mean than the score."""

    dataset: str
    measure: str
    label: str
    theirs: float
    ours: float
    surely: bool


def trivial_wins(store: CellStore) -> tuple[list[Win], int]:
    """Return the best trivial row wherever it is ahead of the score, and on how many sets that was asked."""
    links, wins, seen = Compared(store, "links"), [], set()
    for measure in links.experiment.measures:
        for dataset in links.datasets:
            others = [row.label for row in links.rows(dataset) if is_trivial(row)]
            means = links.means(dataset, measure, [MINE, *others])
            if means is None:
                continue
            seen.add(dataset)
            best = max(others, key=means.__getitem__)
            if means[best] > means[MINE]:
                surely = links.against(dataset, measure, MINE, best).verdict == "worse"
                wins.append(Win(dataset, measure, best, means[best], means[MINE], surely))
    return wins, len(seen)


def trivial_table(store: CellStore) -> Table:
    """Return where trivial methods win, with which row and by how much."""
    rows: list[list[str | Value]] = [
        [
            *(MEASURES[win.measure], title_of(win.dataset), win.label),
            *(f"{win.theirs:.3f}", f"{win.ours:.3f}", f"{win.theirs - win.ours:.4f}"),
            "yes" if win.surely else "no",
        ]
        for win in trivial_wins(store)[0]
    ]
    return Table("", ["question", "data", "row", "its figure", "the score's", "apart", "surely"], rows)


def trivial_words(store: CellStore) -> str:
    """Say where rows that learn nothing are ahead of the score."""
    measures, (wins, seen) = read_experiment("links").measures, trivial_wins(store)
    head = "**Where trivial methods win.**"
    if seen == 0:
        return f"{head} Not run."
    link = "([table](#where-trivial-methods-win))"
    if not wins:
        return f"{head} {NOWHERE} {link}."
    said = [_listed(measure, wins) for measure in dict.fromkeys(win.measure for win in wins)]
    rest = [MEASURES[each] for each in measures if each not in {win.measure for win in wins}]
    nowhere = f" Nowhere: {'; '.join(rest)}." if rest else ""
    ahead = f"Of {seen} sets, the best row that learns nothing has a greater mean than the score on these"
    return f"{head} {ahead} {link}. {'; '.join(said)}.{nowhere}"


def _listed(measure: str, wins: Iterable[Win]) -> str:
    here = [win for win in wins if win.measure == measure]
    most = max(win.theirs - win.ours for win in here)
    names, surely = ", ".join(win.dataset for win in here), sum(win.surely for win in here)
    return f"{MEASURES[measure]}: {names} (by up to {most:.3f}; surely on {surely})"


def headline_table(store: CellStore) -> Table:
    """Return the table at the head of the page: a row a data set."""
    links, gains = Compared(store, "links"), added(store)
    rows: list[list[str | Value]] = []
    for dataset in links.datasets:
        cells = _side_by_side(links, dataset, NEW, (is_headed, is_headless))
        gain = gains.get(dataset, {}).get(NEW)
        cells.append("" if gain is None else _difference(gain))
        if any(cells):
            rows.append([title_of(dataset), *cells])
    columns = [
        "data",
        "new links, AUC: score",
        "best other with the same score",
        "best without a learned score",
    ]
    return Table("", [*columns, "vectors add to new links"], rows)


def short_table(store: CellStore, datasets: Sequence[str]) -> Table:
    """Return the table of the README: new links only, some data sets."""
    links = Compared(store, "links")
    rows: list[list[str | Value]] = []
    for dataset in datasets:
        cells = _side_by_side(links, dataset, NEW, (is_headed, is_headless))
        rows.append([title_of(dataset), *cells])
    columns = ["new links, AUC", "dygcn", "best other embedding, same score", "best without a learned score"]
    return Table("", columns, rows)


def _side_by_side(
    links: Compared, dataset: str, measure: str, kinds: tuple[Callable[[Row], bool], ...]
) -> list[str | Value]:
    """Return the score, and the best row of each kind; bold is whatever may be the best of them."""
    labels = [MINE]
    for kind in kinds:
        run = [
            row.label for row in links.rows(dataset) if kind(row) and links.seeds(dataset, row.label, measure)
        ]
        means = links.means(dataset, measure, [MINE, *run])
        if means is None or not run:
            return [""] * (1 + len(kinds))
        labels.append(max(run, key=means.__getitem__))
    means = links.means(dataset, measure, labels) or {}
    bold = links.unbeaten(dataset, measure, labels)
    return [
        Value(
            f"{means[name]:.3f}" + ("" if name == MINE else f" {name.removesuffix(_SAME)}"), best=name in bold
        )
        for name in labels
    ]
