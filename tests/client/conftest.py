"""The fixtures of the service."""

from tests.serving.service.conftest import folder, models, serve

__all__ = ["folder", "models", "serve"]
