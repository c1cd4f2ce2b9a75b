"""The names of the commands, and one line on each: all that listing the commands imports."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

# A line is the first sentence of the command's own help; a test compares them.
COMMANDS = {
    "fit": "Fit an embedding on EVENTS: Parquet, CSV or NDJSON with src, dst and optionally t, op, weight.",
    "info": "Check the folder DIR and print what it holds.",
    "nearest": "Print the k nodes nearest to ID, by cosine.",
    "refit": "Make the rows of the walk model in DIR anew, save to NEW, and say whether links gain by it.",
    "restore": "Copy a durable BACKUP to a new FOLDER, check it, and begin a new epoch there.",
    "run": "Run what CONFIG.toml describes: sources in, vectors out, HTTP beside, until it is stopped.",
    "score": "Print how likely two nodes are linked next: log-odds, or the cosine if no score was learned.",
    "serve": "Serve the embedding in DIR over HTTP, durably, until it is stopped.",
    "token": "Make a token for NAME.",
    "update": "Apply EVENTS to the embedding in DIR and save it.",
    "vector": "Print the vectors of IDS, or write vectors to a Parquet file.",
}
LAB = "dygcn-lab"
LAB_COMMANDS = {
    "bench": "Measure what updates cost.",
    "evaluate": "Fit a method on the first half of DATASET's steps, follow the rest, and judge every step.",
    "reproduce": "Rerun tables and figures of the paper (NAME: table2, figure-nc, ..., or all).",
    "soak": "Put every promise to the test, one after the other.",
}
"""What the laboratory adds. `dygcn --help` names these commands with and without it."""
GROUP = "dygcn.commands"
"""Other distributions name their commands in this group of entry points."""


def joined() -> dict[str, EntryPoint]:
    """Return the commands that other distributions bring, by name; none of them is imported."""
    return {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in COMMANDS}
