"""How an embedding is judged."""

from dygcn.evaluation.links import auc, link_auc, strangers_for
from dygcn.evaluation.snapshots import Snapshots

__all__ = ["Snapshots", "auc", "link_auc", "strangers_for"]
