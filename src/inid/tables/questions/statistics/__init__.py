"""Counts, sums, means, variances, covariances and histograms, any number together.

`column_statistics` has one class for each statistic of columns and the registry of them, `layout` the sums they are
made of and what each row adds to them, `sensitivity` how far one person can move these; `plan` spends a promise on them
and `answers` turns noisy sums into statistics with intervals. `question` holds what is asked; `kind` is what the
registry knows of all this.
"""
