"""Plain English: sentences that say when, read and written."""
