"""One graph in several processes: shards that own slots of nodes.

For graphs that do not fit one machine, and for more changes than one takes; see docs/scale.md first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dygcn._extras import late_names

if TYPE_CHECKING:
    from dygcn.cluster.embedding import ClusterEmbedding
    from dygcn.cluster.launching import launch
else:
    __getattr__, __dir__ = late_names(
        __name__, {"ClusterEmbedding": "dygcn.cluster.embedding", "launch": "dygcn.cluster.launching"}
    )

__all__ = ["ClusterEmbedding", "launch"]
