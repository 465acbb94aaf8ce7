"""Learning by descent: clipped gradients, one noisy coordinate after another, under one plan made beforehand."""
