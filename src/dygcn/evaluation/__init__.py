"""How an embedding is judged."""

from dygcn.evaluation.links import auc, f1_at_median, link_auc, link_scores, strangers_for
from dygcn.evaluation.snapshots import Snapshots

__all__ = ["Snapshots", "auc", "f1_at_median", "link_auc", "link_scores", "strangers_for"]
