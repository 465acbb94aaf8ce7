"""Synthetic rows: three Gaussian steps of fixed cost, and rows that follow from what they release.

columns       public levels of columns: keys, or bins of numbers
blocks        residuals of columns and pairs, and the proof of the set in which one person moves them
three_steps   what each step releases
kind          the question; plan, measured, result: its plan and what it gives
coded         the same without a table, for estimators
row_maker     makes rows, of a result or of a record (stored_rows)
model         from released numbers to rows: shrinkage, mixture, particles, raking, thinning, over a level_space
"""
