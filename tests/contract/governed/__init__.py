"""The governor inside the ledger, beside a model of what there is and who waits: acts, checks, planted faults."""
