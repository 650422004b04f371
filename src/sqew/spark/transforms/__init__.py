"""Pure functions from DataFrame to DataFrame. The jobs put them together."""
