"""The common part of the settings of sinks."""

from typing import Literal, TypeAlias

from dygcn.serving.addresses import Settings, check_name, check_seconds, public_address, secrets_of, without

DAY, YEAR = 86_400.0, 31_536_000.0
OnOtherHistory: TypeAlias = Literal["rewrite", "refuse"]
"""Action if a sink holds rows of an older history than ours, or of a copy that diverged.

``"rewrite"`` writes all rows again and then deletes those of the other history; ``"refuse"`` does not change
the sink and reports it in ``/v1/status``. Rows of a newer history are never replaced.
"""

__all__ = [
    "DAY",
    "YEAR",
    "OnOtherHistory",
    "Settings",
    "check_name",
    "check_seconds",
    "public_address",
    "secrets_of",
    "without",
]
