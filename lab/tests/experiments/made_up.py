"""Made-up cells: figures that a test chooses, in the folder where real ones lie."""

import msgspec

from dygcn_lab.experiments.cells import CellResult, Record
from dygcn_lab.experiments.findings import MEASURES, figure_name
from dygcn_lab.experiments.plan import Row, cell_of, read_experiment

STEPS = 6


def quiet(done, total, what):
    pass


def figures_of(by):
    """Name every figure that a row which is judged by the cosine or the score has."""
    return [figure_name(Row("", "", "", by=by), measure) for measure in MEASURES]


def series(mean):
    return mean if isinstance(mean, list) else [mean] * STEPS


def made_up(mean, by=("cosine", "score")):
    return Record({name: series(mean) for each in by for name in figures_of(each)})


def fill(store, name, mean_of):
    """Put made-up cells of an experiment into a folder; a mean may be a list, one figure a step."""
    experiment, cells = read_experiment(name), {}
    for dataset in experiment.datasets:
        for row in experiment.rows_of(dataset):
            for seed in range(row.seeds):
                cell = cell_of(row, dataset, seed)
                done = store.read(cell)
                records = cells.setdefault(cell.file, (cell, {} if done is None else dict(done.records)))[1]
                mean = mean_of(dataset, row.label, seed)
                old = records[row.record].figures if row.record in records else {}
                records[row.record] = Record({**old, **made_up(mean, (row.by,)).figures})
    for file, (cell, records) in cells.items():  # not by `run`, which reads all sources for each of them
        result = CellResult(
            cell.dataset, cell.group, cell.seed, cell.settings, records, "2000-01-01", 0.0, {}
        )
        (store.folder / file).parent.mkdir(parents=True, exist_ok=True)
        (store.folder / file).write_bytes(msgspec.json.encode(result))
