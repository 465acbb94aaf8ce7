"""Counts, sums, means, variances, covariances and histograms, any number together.

`layout` lists the statistics and the sums they are made of, `sensitivity` how far one person can move these; `sums`
turns them into integer columns that every engine sums alike; `plan` spends a promise on them and `result` turns noisy
sums into answers with intervals. `question` holds what is asked, and `query` asks it of a table.
"""
