"""Plain English for times to fire: parsing it, and describing a rule in it."""
