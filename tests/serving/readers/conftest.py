"""The fixtures of the service."""

from tests.serving.service.conftest import folder, models

__all__ = ["folder", "models"]
