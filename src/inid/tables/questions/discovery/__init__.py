"""Keys that nobody listed: one noisy count per key decides whether the key appears, and is its answer.

thresholds  how high a noisy count must be, so that a key which only one person has stays hidden but for delta
kind        `discover(...)`: what is asked of a column, the count of every key that is there, inside the engine
plan, result      what it costs, and what comes back
"""
