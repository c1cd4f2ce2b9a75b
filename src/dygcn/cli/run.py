"""`dygcn run`: sources, a live embedding, sinks and HTTP in one process."""

from __future__ import annotations

import click

from dygcn.cli.printing import json_option
from dygcn.cli.serving import serve_file


@click.command("run")
@click.argument("config", metavar="CONFIG.toml", type=click.Path())
@json_option
def command(config: str, as_json: bool) -> None:
    """Run what CONFIG.toml describes: sources in, vectors out, HTTP beside, until it is stopped."""
    serve_file(config, as_json)
