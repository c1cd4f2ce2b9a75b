"""What the settings of every sink have in common."""

from typing import Literal, TypeAlias

from dygcn.serving.addresses import Settings, check_name, check_seconds, public_address, secrets_of, without

DAY, YEAR = 86_400.0, 31_536_000.0
OnOtherHistory: TypeAlias = Literal["rewrite", "refuse"]
"""What is done where a sink holds rows of an older history than ours, or of a copy that went another way.

``"rewrite"`` writes all rows again and then takes out those of the other history; ``"refuse"`` leaves the
sink as it is and says so in ``/status``. Rows of a newer history are never replaced.
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
