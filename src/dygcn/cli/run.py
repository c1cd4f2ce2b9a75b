"""`dygcn run`: sources, a live embedding, sinks and HTTP in one process."""

from __future__ import annotations

import click

from dygcn.cli.log_options import log_options
from dygcn.cli.printing import json_option


@click.command("run")
@click.argument("config", metavar="CONFIG.toml", type=click.Path())
@log_options
@json_option
def command(config: str, log_format: str | None, log_level: str | None, as_json: bool) -> None:
    """Run the sources, the embedding, the sinks and HTTP of CONFIG.toml until it is stopped."""
    from dygcn.cli.serving import serve_file  # noqa: PLC0415 - needs the extra `serve`, and --help does not

    serve_file(config, {"format": log_format, "level": log_level}, as_json)
