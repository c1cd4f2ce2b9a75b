"""Reader processes with a bug: `python -m dygcn_lab.soak.promises.seeded_reader` in place of real ones."""

from __future__ import annotations

import numpy as np

from dygcn.engine.records import Int64, Nodes
from dygcn.live.shared import reading
from dygcn.serving.readers.process import main
from dygcn.serving.service import reader_processes


def no_check_after_the_read() -> None:
    """In the writer: have readers that do not look whether somebody wrote meanwhile."""
    reader_processes._MODULE = "dygcn_lab.soak.promises.seeded_reader"


def _never(view: reading._View, nodes: Nodes) -> int:
    return 0


def _nothing(view: reading._View, nodes: Nodes) -> Int64:
    return np.zeros(len(nodes), np.int64)


if __name__ == "__main__":
    setattr(reading._View, "latest", _never)  # noqa: B010 - a method, for types
    setattr(reading._View, "stamps", _nothing)  # noqa: B010
    main()
