"""What every plan of a query shares."""

from inid.planning import Certificate, NoisePlan
from inid.promises import Budget

__all__ = ["PlanOfQuery"]


class PlanOfQuery:
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
