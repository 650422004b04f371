"""A store against a model of it that is too simple to be wrong."""
