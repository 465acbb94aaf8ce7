"""What every plan of a query shares."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from inid.planning import Certificate, NoisePlan
from inid.promises import Budget

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from inid.report import PlanSummary

__all__ = ["PlanOfQuery"]


class PlanOfQuery(ABC):
    """What every plan of a query shares.

    Attributes:
        noise: The certified plan of all released numbers.
    """

    noise: NoisePlan

    @property
    def budget(self) -> Budget:
        """The promise."""
        return self.noise.budget

    @property
    def mechanism(self) -> str:
        """The kind of noise."""
        return self.noise.mechanism

    @property
    def certificate(self) -> Certificate:
        """The proof that the noise keeps the promise."""
        return self.noise.certificate

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the expected error of each statistic, beside an equal split and its tolerance.

        Args:
            ax: Axes of matplotlib to draw on; those of a new figure by default.

        Raises:
            MissingExtraError: matplotlib is not installed.

        >>> import inid, pandas
        >>> t = inid.tables.Table(pandas.DataFrame({"age": [31.0, 44.0]}), bounds={"age": (0, 100)})
        >>> [text.get_text() for text in t.query(mean=["age"]).plan(inid.PureDP(1.0)).plot().get_yticklabels()]
        ['mean(age)']
        """
        from inid.tables.plots import plot_summary

        return plot_summary(self._summary(), ax)

    @abstractmethod
    def _summary(self) -> "PlanSummary":
        """The plan line by line."""
