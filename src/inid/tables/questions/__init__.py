"""What can be asked of a table, one file or folder for each kind of question.

statistics  counts, sums, means, variances, covariances and histograms
marginals   many overlapping tables that agree with each other
ordered     distribution functions, quantiles and running totals
discovery   the keys of a column that nobody listed
choice      which of some groups is the largest
"""
