"""`dygcn serve`: a durable embedding over HTTP."""

from __future__ import annotations

import click

from dygcn.cli.printing import folder_argument, json_option


@click.command("serve")
@folder_argument
@click.option("--host", default="127.0.0.1", show_default=True, help="Any other address needs a token.")
@click.option("--port", default=8470, show_default=True, help="0: any free one.")
@click.option("--tokens", type=click.Path(), help="A TOML file with [[tokens]]; see `dygcn token`.")
@click.option(
    "--source",
    "sources",
    multiple=True,
    help="redis://HOST:PORT/STREAM, nats://HOST:PORT/STREAM, kafka://HOST:PORT/TOPIC, or a file that grows.",
)
@json_option
def command(
    folder: str, host: str, port: int, tokens: str | None, sources: tuple[str, ...], as_json: bool
) -> None:
    """Serve the embedding in DIR over HTTP, durably, until it is stopped.

    Acknowledged events are on disk. SIGTERM applies the queued events, then ends the process.
    """
    from dygcn.cli.serving import serve_folder  # noqa: PLC0415 - needs the extra `serve`, and --help does not

    serve_folder(folder, host, port, tokens, sources, as_json)
