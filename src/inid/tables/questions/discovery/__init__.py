"""Keys that nobody listed: one noisy count per key decides whether the key appears, and is its answer.

thresholds  how high a noisy count must be, so that a key which only one person has stays hidden but for delta
request     `discover(...)`: what is asked of a column
key_counts  the exact count of every key that is there, inside the engine
question, plan, result, kind      what is asked, what it costs, what comes back, and what the registry knows
"""
