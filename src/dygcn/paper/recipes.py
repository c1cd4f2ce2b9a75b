"""How the paper's rules are fitted: as published by default, and the options that make them hold."""

from __future__ import annotations

from dataclasses import dataclass, field

from dygcn.engine.models.checks import number, one_of, whole
from dygcn.errors import OptionError
from dygcn.paper.options import LOSSES, BaseRecipe, Watch, check_options
from dygcn.paper.plans import RuleOptions

STARTS = ("glorot", "identity")


@dataclass(frozen=True)
class RollingRecipe:
    """Everything that can be chosen for the rolling and the spectral rule.

    The defaults are the paper's text, where it says something. `RollingRecipe.steady` has our options on.

    Parameters
    ----------
    options
        How messages are aggregated and what acts on the result: `RuleOptions`.
    loss
        ``"dot"`` (eq. neg), or ``"cosine"`` with a learned temperature and bias.
    rollout
        Steps on its own output in training. 1 starts from the base at each step, as in the paper.
    bound
        Greatest spectral norm of a matrix (of W_s half of it, since the pass has norm 2); None: no bound.
    start
        First matrices: ``"glorot"`` (uniform), or ``"identity"`` (W_0 keeps, W_k adds little, W_s halves).
    ahead
        0: the vectors after step t reconstruct the graph at t, as in the paper; 1: the next one.
    link_weight, task_weight
        Weights of the paper's loss and of the cross-entropy on labels, where `fit` was given some.
    rounds, rate, pairs
        Steps of Adam, their size, and linked pairs (and negatives) in each.
    base
        How the base is trained: `BaseRecipe`.
    watch
        What is looked at while updates run: `Watch`.

    Examples
    --------
    >>> RollingRecipe().options.aggregation, RollingRecipe.steady().options.aggregation
    ('sum', 'mean')
    """

    options: RuleOptions = field(default_factory=RuleOptions)
    loss: str = "dot"
    rollout: int = 1
    bound: float | None = None
    start: str = "glorot"
    ahead: int = 0
    link_weight: float = 1.0
    task_weight: float = 1.0
    rounds: int = 300
    rate: float = 1e-3
    pairs: int = 4096
    base: BaseRecipe = field(default_factory=BaseRecipe)
    watch: Watch = field(default_factory=Watch)

    def __post_init__(self) -> None:
        for name, kind in (("options", RuleOptions), ("base", BaseRecipe), ("watch", Watch)):
            if not isinstance(getattr(self, name), kind):
                raise OptionError(f"{name} is {getattr(self, name)!r}; allowed is a {kind.__name__}")
        check_options(self.options)
        one_of("loss", self.loss, LOSSES)
        one_of("start", self.start, STARTS)
        whole("rollout", self.rollout, 1)
        whole("ahead", self.ahead, 0, 1)
        whole("rounds", self.rounds, 0)
        whole("pairs", self.pairs, 1, 1 << 24)
        number("rate", self.rate, 0)
        if self.bound is not None:
            number("bound", self.bound, 0)
        for name in ("link_weight", "task_weight"):
            if getattr(self, name):
                number(name, getattr(self, name), 0)

    @classmethod
    def steady(cls, rollout: int = 5) -> RollingRecipe:
        """Return the options that make a long run hold; every one of them is ours, not the paper's."""
        return cls(
            options=RuleOptions("mean", "none", "rest", level=True),
            loss="cosine",
            rollout=rollout,
            bound=1.0,
            start="identity",
            rounds=100,
            rate=3e-3,
            base=BaseRecipe("sum", "relu", "none", "cosine", once=False, rate=1e-2, warm=30, unit=True),
            watch=Watch(band=(0.1, 10.0)),
        )
