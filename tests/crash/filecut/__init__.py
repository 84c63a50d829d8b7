"""A bench for power cuts in protocols that join files to the ledger: every write and every name of one process is
recorded, and the engine must wake up from every state in which a strict disk may be found.

The disk is `powercut.disk`; a story is told by a worker in a process of its own.
"""
