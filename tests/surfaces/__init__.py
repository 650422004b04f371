"""The same cases on `Queue`, `Client`, `AsyncClient`, HTTP and the command line, on both stores."""
