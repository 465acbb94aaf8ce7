"""Which examples a step draws: `poisson_draw` proves what that costs, `poisson_loader` hands out the batches."""

from inid.dpsgd.sampling.batch_state import BatchState
from inid.dpsgd.sampling.cyclic_schedule import CyclicGroups, CyclicSchedule
from inid.dpsgd.sampling.poisson_draw import RandomPartition, StepPlaces, bernoulli, partition_examples, random_places
from inid.dpsgd.sampling.poisson_loader import PoissonLoader
