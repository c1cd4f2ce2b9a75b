"""The names of the commands with one line each, so that listing them imports no command."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

# A line is the first sentence of the command's own help; a test compares them.
COMMANDS = {
    "dead-letters": "List, replay or discard events that could not be applied, of a folder or a service.",
    "evaluate": "Fit on the first 70 % of EVENTS, ask about later ones, and print who foretells them best.",
    "explain": "Print what each neighbour of ID adds to its vector, order by order.",
    "fit": "Fit an embedding on EVENTS: Parquet, CSV or NDJSON with src, dst and optionally t, op, weight.",
    "forget": "Remove IDS from graph, model, log, snapshots and dead letters of DIR, and print a receipt.",
    "info": "Check the folder DIR and print its settings, counts and digest.",
    "nearest": "Print the k nodes nearest to each ID, by cosine.",
    "recommend": "Print the k nodes that ID is likeliest to link with, by the learned score.",
    "refit": "Make new rows for the walk model in DIR, save to NEW, and print whether they predict better.",
    "restore": "Copy a durable BACKUP to a new FOLDER, check it, and begin a new epoch there.",
    "run": "Run the sources, the embedding, the sinks and HTTP of CONFIG.toml until it is stopped.",
    "score": "Print how likely two nodes are linked next: log-odds, or the cosine if no score was learned.",
    "serve": "Serve the embedding in DIR over HTTP, durably, until it is stopped.",
    "token": "Make a token for NAME.",
    "update": "Apply EVENTS to the embedding in DIR and save it.",
    "vector": "Print the vectors of IDS, or write vectors to a file.",
    "what-if": "Print who would move, and how far, if edges were added or removed; DIR does not change.",
}
LAB = "dygcn-lab"
LAB_COMMANDS = {
    "bench": "Measure what updates cost.",
    "judge": "Fit a method on the first half of DATASET's steps, follow the rest, and judge every step.",
    "reproduce": "Rerun tables and figures of the paper (NAME: table2, figure-nc, ..., or all).",
    "soak": "Put every promise to the test, one after the other.",
}
"""Commands of the laboratory. `dygcn --help` lists them even if it is not installed."""
GROUP = "dygcn.commands"
"""The group of entry points for commands of other distributions."""


def joined() -> dict[str, EntryPoint]:
    """Return the entry points of other distributions' commands, by name, without importing any."""
    return {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in COMMANDS}
