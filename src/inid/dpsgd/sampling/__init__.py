"""Which examples a step draws, and how they come as batches of one public size. Start reading in `poisson_loader`.

poisson_loader   batches by Poisson sampling, padded
poisson_draw     who is drawn, and at which place of a batch; both are secret
cyclic_sampling  groups of examples that take turns, for correlated noise
collating        rows of a collated batch, brought to their places
collate_checks   whether a collate function keeps examples apart
drawn_batch      what was handed out, and what of it was used
"""
