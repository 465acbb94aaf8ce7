"""Generalised additive models: a shape function for each column, and tables for some pairs, from noisy sums by cell."""
