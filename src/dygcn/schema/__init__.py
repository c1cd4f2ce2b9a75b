"""The JSON of the service: one declaration for the service, its clients and the command line."""

VERSION = 2
"""Raised when a field or parameter of the API gets another name or meaning; the OpenAPI page shows it."""
