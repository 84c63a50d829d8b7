"""A machine that does to the ledger whatever callers, workers, clocks and deaths can do to it, in random order.

A second ledger in plain dictionaries says what must come out; planted wrong variants prove that it would be seen.
"""
