"""Ordered attributes: distribution functions, quantiles and running totals from noisy prefixes (M9).

levels      the public levels of a column, in their order, and their exact counts, inside the engine
strategy    integer matrices in which independent noise makes every prefix accurate, and how far one row moves them
question, plan, kind              what is asked, what it costs, and what the registry knows
prefixes    from noisy numbers to prefixes, shares and quantiles, with intervals
"""
