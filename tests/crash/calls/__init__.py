"""Every file call and every SQL call of an operation, by number: a process dies at it, or it fails once.

The calls are those of our own Python and those of SQLite underneath; they are seen where they enter the system. The
questions asked afterwards are the bench's own (`harness`), and those of `outcome`.
"""
