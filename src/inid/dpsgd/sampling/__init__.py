"""Which examples a step draws, and how they come as batches of one public size. Start reading in `poisson_loader`.

poisson_loader   batches by Poisson sampling, padded
poisson_draw     who is drawn, and at which place of a batch; both are secret
dealt_positions  who may be drawn in which process and group: dealt once, in secret
cyclic_sampling  groups of examples that take turns, for correlated noise: the claim, and why
turns            the numbers of the steps of such a run, and the rounds in which they are paid for
checked_loader   whether a data loader names examples, each once
collating        rows of a collated batch, brought to their places
collate_checks   whether a collate function keeps examples apart
drawn_batch      what was handed out, and what of it was used
"""
