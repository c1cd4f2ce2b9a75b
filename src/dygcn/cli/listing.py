"""The names of the commands, and one line on each: all that listing the commands imports."""

from __future__ import annotations

# A line is the first sentence of the command's own help; a test compares them.
COMMANDS = {
    "bench": "Measure what updates cost.",
    "evaluate": "Fit a method on the first half of DATASET's steps, follow the rest, and judge every step.",
    "fit": "Fit an embedding on EVENTS: Parquet, CSV or NDJSON with src, dst and optionally t, op, weight.",
    "info": "Check the folder DIR and print what it holds.",
    "nearest": "Print the k nodes nearest to ID, by cosine.",
    "refit": "Make the rows of the walk model in DIR anew, save to NEW, and say whether links gain by it.",
    "reproduce": "Rerun tables and figures of the paper (NAME: table2, figure-nc, ..., or all).",
    "restore": "Copy a durable BACKUP to a new FOLDER, check it, and begin a new epoch there.",
    "run": "Run what CONFIG.toml describes: sources in, vectors out, HTTP beside, until it is stopped.",
    "score": "Print how likely two nodes are linked next: log-odds, or the cosine if no score was learned.",
    "serve": "Serve the embedding in DIR over HTTP, durably, until it is stopped.",
    "token": "Make a token for NAME.",
    "update": "Apply EVENTS to the embedding in DIR and save it.",
    "vector": "Print the vectors of IDS, or write vectors to a Parquet file.",
}
