"""Damage done to checkpoints, by the million: to their records, and to the files and rows of whole workspaces.

What is asked: damage is refused in a sentence of its own, and harms no other job.
"""
