"""What the settings of every sink have in common."""

from dygcn._addresses import Settings, check_name, check_seconds, public_address, secrets_of, without

DAY, YEAR = 86_400.0, 31_536_000.0

__all__ = [
    "DAY",
    "YEAR",
    "Settings",
    "check_name",
    "check_seconds",
    "public_address",
    "secrets_of",
    "without",
]
