"""`dygcn serve`: a durable embedding over HTTP."""

from __future__ import annotations

from typing import Literal

import click

from dygcn.cli.log_options import log_options
from dygcn.cli.printing import folder_argument, json_option


@click.command("serve")
@folder_argument
@click.option("--host", default="127.0.0.1", show_default=True, help="Any other address needs a token.")
@click.option("--port", default=8470, show_default=True, help="0: any free one.")
@click.option("--readers", default=0, show_default=True, help="Processes that listen and answer reads.")
@click.option("--tokens", type=click.Path(), help="A TOML file with [[http.tokens]]; see `dygcn token`.")
@click.option(
    "--source",
    "sources",
    multiple=True,
    help="redis://HOST:PORT/STREAM, nats://HOST:PORT/STREAM, kafka://HOST:PORT/TOPIC, or a file that grows.",
)
@click.option(
    "--keep-log",
    metavar="HOW-MUCH",
    help="Of the past, for as_of: a span (7d) or a size (2GB).  [default: what the folder says; 256MB]",
)
@click.option("--shards", type=int, help="Divide the graph among so many processes; see docs/scale.md.")
@click.option(
    "--shards-on",
    type=click.Choice(["ray", "here"]),
    default="ray",
    show_default=True,
    help="Where shards run: on a Ray cluster (RAY_ADDRESS, or a new one here), or in this process.",
)
@log_options
@json_option
def command(
    folder: str,
    host: str,
    port: int,
    readers: int,
    tokens: str | None,
    sources: tuple[str, ...],
    keep_log: str | None,
    shards: int | None,
    shards_on: Literal["ray", "here"],
    log_format: str | None,
    log_level: str | None,
    as_json: bool,
) -> None:
    """Serve the embedding in DIR over HTTP, durably, until it is stopped.

    Acknowledged events are on disk. SIGTERM applies the queued events, then ends the process.
    """
    # They need the extra `serve`, and --help does not.
    from dygcn.cli.serving import serve_folder  # noqa: PLC0415
    from dygcn.serving.service.settings import Shards  # noqa: PLC0415

    asked = None if shards is None and shards_on == "ray" else Shards(count=shards, on=shards_on)
    log = {"format": log_format, "level": log_level}
    serve_folder(folder, host, port, readers, tokens, sources, keep_log, asked, log, as_json)
