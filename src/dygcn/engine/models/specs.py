"""Rules by name, and what the program asks of a rule beside the state that it keeps (`propagation.rule`).

A rule is found by its name in `RULES`. Its module is imported, and registers it, when it is first asked for:
nobody else has to know which rules there are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar, cast

from dygcn.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dygcn.engine.graph import Graph
    from dygcn.engine.models.choices import Choices
    from dygcn.engine.models.folder import Tensors
    from dygcn.engine.models.model import Model
    from dygcn.engine.models.state import Outcome, State
    from dygcn.engine.propagation import Rule
    from dygcn.engine.records import EventBatch, Float32, Nodes

RULES = {"exact": "dygcn.engine.models.exact", "rolling": "dygcn.paper", "spectral": "dygcn.paper"}
"""Name -> the module that registers the rule."""


class Reading(Protocol):
    """Reads vectors of one state."""

    def vectors(self, nodes: Nodes) -> Float32:
        """Return the vectors of nodes, (n, dim)."""


class Fitting(Protocol):
    """A module that fits a rule."""

    def check(self, choices: Choices) -> None:
        """Raise an OptionError for an option that belongs to another rule."""

    def fit(
        self,
        batch: EventBatch,
        parts: Sequence[EventBatch],
        choices: Choices,
        progress: Callable[[int, int, str], None] | None = None,
    ) -> State:
        """Return the fitted state, all events played: `batch`, which `parts` are the training steps of."""

    def steady_recipe(self) -> object | None:
        """Return a recipe with the options on that make the rule hold; None: it holds without any."""


class RuleSpec(ABC):
    """What a model says of its rule: the settings that only this rule has, and what follows from them.

    Parameters are fields of the class, class variables what all models of the rule have in common.
    """

    name: ClassVar[str]
    fitting: ClassVar[str]
    """Name of the module that fits the rule, of the shape of `Fitting`."""
    from_graph: ClassVar[bool]
    """Whether the state follows from model and graph: then it can be computed anew, and no border between
    batches shows in it."""
    nodes_stay: ClassVar[bool]
    """Whether a node that lost its last edge stays in the graph."""
    features: ClassVar[tuple[str, ...]]
    """What `Model.features` may be."""
    more_weights: ClassVar[tuple[str, ...]] = ()
    """Names of the matrices behind W_0..W_K."""

    @classmethod
    def weight_names(cls, orders: int) -> tuple[str, ...]:
        """Return the names of the matrices."""
        return (*(f"W{k}" for k in range(orders + 1)), *cls.more_weights)

    @abstractmethod
    def new_rule(self, model: Model) -> Rule:
        """Return the state of an empty graph."""

    @abstractmethod
    def reading(self, model: Model, rule: Rule, graph: Graph) -> Reading:
        """Return what reads the vectors of a state."""

    @abstractmethod
    def read_state(self, model: Model, tensors: Tensors, nodes: int, owners: int) -> Tensors:
        """Take what `Rule.image` returned out of the tensors of a saved graph.

        Parameters
        ----------
        nodes, owners
            How many nodes the graph has, and how many of these have features of their own.

        Raises
        ------
        ValueError
            If it does not fit.
        """

    # ---- a rule without settings of its own, whose state nobody has to look at, needs nothing of this ----

    def settings(self) -> dict[str, Any] | None:
        """Return what the manifest of a folder says of the rule alone, in types that JSON has."""
        return None

    def tensors(self) -> Tensors:
        """Return what the file of the model holds for the rule alone."""
        return {}

    @classmethod
    def read(cls, settings: object, tensors: Tensors, orders: int, shape: tuple[int, int]) -> Self:
        """Take back what `settings` and `tensors` returned.

        Parameters
        ----------
        tensors
            Those of the model that were not taken yet; what belongs to the rule is taken out.
        shape
            Of each of the model's matrices.

        Raises
        ------
        ValueError
            If no model of this rule has these.
        """
        if settings is not None:
            raise ValueError(f"settings of another rule than {cls.name!r}")
        return cls()

    def after_update(self, state: State, outcome: Outcome, version: int) -> Callable[[], Outcome] | None:
        """Look at the state after an update, which is whole; warn, if it is to be warned of.

        Returns
        -------
        callable or None
            A change of the state that is due. It is made while the state is `changing`, and returns what
            the update and it did together.
        """
        return None

    def restart(self, state: State, base: object) -> Callable[[], Outcome]:
        """Prepare a fresh base, computed or brought by the user; return what puts it into the state."""
        raise OptionError(f"the {self.name} rule never drifts, so it has nothing to restart")

    def describe(self) -> dict[str, str]:
        """Return what is worth printing of the settings."""
        return {}


S = TypeVar("S", bound=RuleSpec)
_registered: dict[str, type[RuleSpec]] = {}


def register(spec: type[S]) -> type[S]:
    """Register a rule under its name."""
    _registered[spec.name] = spec
    return spec


def find_spec(name: str) -> type[RuleSpec]:
    """Return the rule of a name.

    Examples
    --------
    >>> find_spec("spectral").weight_names(orders=1)
    ('W0', 'W1', 'Ws')
    """
    if name not in _registered:
        import_module(RULES[name])
    return _registered[name]


def find_fitting(name: str) -> Fitting:
    """Return the module that fits a rule."""
    return cast("Fitting", import_module(find_spec(name).fitting))
