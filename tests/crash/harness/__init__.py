"""A bench for killing: a small application, processes to kill, and the questions asked of what they leave.

The questions (`oracles`) read files, rows and the bench's own journals from outside; they never ask the engine.
Everything here could test another application: give it stores whose results can be counted.
"""
