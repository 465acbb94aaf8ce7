"""The same statistics, period after period, under one promise, with noise that is correlated over time.

Start reading at `stream`.

    stream         Stream: open, release a period, show
    plan           plan_stream: errors of periods, totals and windows, before anything is spent
    strategies     matrices of whole numbers by which rows are made of periods, and what they spend
    choosing       which strategy is taken
    period_query   the question, asked of one period's rows; who is in them
    row_leases     the one charge in the ledger, and its leases of rows
    stream_file    the stream's own secret file
    period_sums    sums over periods from released rows, and their intervals
    results        what may be published
"""
