"""The folder of a service, divided among shards or not."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from dygcn.cluster.launching import launch
from dygcn.errors import OptionError
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.durable.storage.layout import CLUSTER_FILE
from dygcn.serving.service.service import open_in_one_process
from dygcn.serving.service.settings import ServiceSettings, Shards


def open_embedding(settings: ServiceSettings) -> DurableEmbedding:
    """Open the folder of a service as its settings say; a divided folder is opened as a cluster."""
    if settings.shards is None and not os.path.exists(Path(settings.folder) / CLUSTER_FILE):
        return open_in_one_process(settings)
    if settings.http.readers:
        raise OptionError("readers are for one process, and shards answer reads themselves; set readers to 0")
    how = msgspec.structs.asdict(settings.shards or Shards())
    kept = {name: getattr(settings, name) for name in ("snapshot_every", "keep_log")}
    return launch(settings.folder, how.pop("count"), **how, **kept)
