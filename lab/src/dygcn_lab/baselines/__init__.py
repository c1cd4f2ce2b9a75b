"""Methods that others published, written anew from their papers: what an embedding of ours is compared with.

None of them borrows from our engine. Each is a `dygcn_lab.evaluation.Method`; `BASELINES` knows them by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from dygcn_lab.evaluation.method import Method

__all__ = ["BASELINES", "Spec"]


@dataclass(frozen=True, slots=True)
class Spec:
    """A baseline: what it is, where it is from, how it is made."""

    module: str
    method: str
    description: str
    reference: str
    slow: bool = False  # seconds a step, not a fraction of one
    vectors: bool = True  # has vectors, so that it takes a seed and a size

    def factory(self, seed: int, dim: int = 100, **options: float) -> Method:
        """Return a new one.

        `seed`: of everything that is drawn; `dim`: size of the vectors; `options`: settings of the method;
        see its class.

        Examples
        --------
        >>> BASELINES["degree-product"].factory(seed=0)
        <dygcn_lab.baselines.degrees.DegreeProduct object at ...>
        """
        method = getattr(import_module(f"{__name__}.{self.module}"), self.method)
        made: Method = method(seed=seed, dim=dim, **options) if self.vectors else method(**options)
        return made


BASELINES: dict[str, Spec] = {
    "degree-product": Spec(
        "degrees",
        "DegreeProduct",
        "popular nodes link: the product of the two degrees",
        "Barabási and Albert, Science 1999",
        vectors=False,
    ),
    "common-neighbours": Spec(
        "neighbours",
        "CommonNeighbours",
        "friends of friends link: the number of common neighbours",
        "Liben-Nowell and Kleinberg, CIKM 2003",
        vectors=False,
    ),
    "resource-allocation": Spec(
        "neighbours",
        "ResourceAllocation",
        "common neighbours, each worth one over its degree",
        "Zhou, Lü and Zhang, European Physical Journal B 2009",
        vectors=False,
    ),
    "popularity": Spec(
        "activity",
        "Popularity",
        "busy nodes link: events at both ends, half forgotten after three steps",
        "Daniluk and Dąbrowski, arXiv:2309.15730, 2023",
        vectors=False,
    ),
    "degree-contact": Spec(
        "activity",
        "DegreeContact",
        "degrees of both ends, less the time since their last events",
        "ours: the score of the exact rule without cosine and without fitted numbers",
        vectors=False,
    ),
    "edgebank": Spec(
        "edgebank",
        "EdgeBank",
        "pairs that were ever in contact",
        "Poursafaei, Huang, Pelrine and Rabbany, NeurIPS 2022",
        vectors=False,
    ),
    "edgebank-window": Spec(
        "edgebank",
        "EdgeBankWindow",
        "pairs that were in contact in the last steps",
        "Poursafaei, Huang, Pelrine and Rabbany, NeurIPS 2022",
        vectors=False,
    ),
    "edgebank-recency": Spec(
        "edgebank",
        "EdgeBankRecency",
        "pairs by their last contact, then by popularity",
        "after Poursafaei, Huang, Pelrine and Rabbany, NeurIPS 2022",
        vectors=False,
    ),
    "gcn": Spec(
        "gcn",
        "GcnRetrained",
        "two GCN layers on degrees, trained anew at every step",
        "Kipf and Welling, ICLR 2017",
        slow=True,
    ),
    "graphsage": Spec(
        "graphsage",
        "GraphSage",
        "two mean layers on degrees, trained once, then a forward pass a step",
        "Hamilton, Ying and Leskovec, NeurIPS 2017",
    ),
    "timers": Spec(
        "timers",
        "Timers",
        "SVD of the adjacency matrix, updated, restarted when an error bound says so",
        "Zhang, Cui, Pei, Wang and Zhu, AAAI 2018",
    ),
    "dne": Spec(
        "dne",
        "Dne",
        "LINE, then SGD on new and on most influenced nodes alone",
        "Du, Wang, Song, Lu and Wang, IJCAI 2018",
    ),
    "dynwalks": Spec(
        "dynwalks",
        "DynWalks",
        "DeepWalk, then walks from a tenth of the nodes a step",
        "Hou, Zhang, Tang and He, arXiv:1907.11968, 2019",
        slow=True,
    ),
    "fastrp": Spec(
        "fastrp",
        "FastRp",
        "a random projection of powers of the transition matrix, again at every step",
        "Chen, Sultan, Tian, Chen and Skiena, CIKM 2019",
    ),
    "cleora": Spec(
        "cleora",
        "Cleora",
        "hashed vectors, averaged over neighbours and normalised, again at every step",
        "Rychalska, Bąbel, Gołuchowski, Michałowski and Dąbrowski, ICONIP 2021",
    ),
}
