"""Counts, sums, means, variances, covariances and histograms, any number together.

`column_statistics` has one class for each statistic of columns and the registry of them, `layout` the sums they are
made of, `sensitivity` how far one person can move these; `sums`
turns them into integer columns that every engine sums alike; `plan` spends a promise on them and `answers` turns noisy
sums into statistics with intervals. `question` holds what is asked; `kind` is what the registry knows of all this.
"""
