"""A service to be measured: `python -m dygcn_lab.costs.load_server DIR [READERS]` prints its address."""

from __future__ import annotations

import sys

from dygcn.serving.service.app import run_app
from dygcn.serving.service.service import Service
from dygcn.serving.service.settings import Http, ServiceSettings, check_settings
from dygcn_lab.testbed.subprocess_ready import tell


def main(folder: str, readers: int = 0) -> None:
    """Serve a folder until SIGTERM."""
    run_app(Service(check_settings(ServiceSettings(folder=folder, http=Http(port=0, readers=readers)))), tell)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
