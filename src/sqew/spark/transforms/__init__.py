"""Pure functions from DataFrame to DataFrame, or on Arrow's tables. The jobs combine them."""
