"""Fixtures that tests of the laboratory share with those of the product."""

from tests.conftest import data

__all__ = ["data"]
