"""The command line: one file a command."""

from dygcn.cli.main import main

__all__ = ["main"]
