"""The command line."""

from dygcn.cli.main import main

__all__ = ["main"]
