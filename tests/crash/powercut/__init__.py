"""A bench for power cuts: a recording file layer below SQLite, a model of a disk that keeps only what was synced, and
questions asked of every state in which such a disk can wake up.

The part that records runs the ledger; the part that recovers and asks is another process with another SQLite.
"""
