"""How an embedding is judged. `judge` asks the questions, every other module is one of them."""

from dygcn.evaluation.judge import Figures, Judge, judge_method
from dygcn.evaluation.links import auc, link_auc
from dygcn.evaluation.method import Method, VectorMethod
from dygcn.evaluation.paired import Paired, compare

__all__ = [
    "Figures",
    "Judge",
    "Method",
    "Paired",
    "VectorMethod",
    "auc",
    "compare",
    "judge_method",
    "link_auc",
]
