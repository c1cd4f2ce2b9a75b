"""The folders and services of the service's own tests."""

from tests.serving.service.conftest import folder, models, serve

__all__ = ["folder", "models", "serve"]
