"""Many overlapping tables at once, with the least noise that any Gaussian mechanism can have (M1 to M8).

Independent noise on the cells of overlapping tables is not optimal; independent, non-identical noise in a basis of
*residuals* is, among all Gaussian mechanisms. Every table is a sum of blocks, one for each subset of its attributes;
overlapping tables share blocks, so their answers agree with each other by construction.

    basis       the integer basis of one attribute, and what it makes of a table (M1)
    workload    which tables are asked and which blocks they are made of (M2, M3)
    allocation  how the budget is shared between the blocks (M4, M5)
    sensitivity the ellipsoid in which one person's residuals lie, proved in rationals (M6, M7)
    table_statistics  counts, means and sums by tables, and the grids of their columns (M8)
    exact_tables      the exact tables, made inside the engine
    question, plan, result, kind     what is asked, what it costs, what comes back, and what the registry knows
    answers     from noisy residuals to tables (M3); least_squares for Laplace noise (M10); tidy
"""
