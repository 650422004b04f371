-- Where SQLite says it differently: one writer at a time needs no locks on rows.

-- fragment: locked

-- fragment: unless_locked

-- fragment: among_ids
id IN (SELECT value FROM carray(?1))
