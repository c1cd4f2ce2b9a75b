"""How an embedding is judged. `judge` asks the questions, every other module is one of them."""

from dygcn_lab.evaluation.judge import Figures, Judge, judge_method
from dygcn_lab.evaluation.method import Method, VectorMethod
from dygcn_lab.evaluation.paired import Paired, compare

__all__ = [
    "Figures",
    "Judge",
    "Method",
    "Paired",
    "VectorMethod",
    "compare",
    "judge_method",
]
