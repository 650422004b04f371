"""The lake: finished messages as Parquet files by queue and day, and the commits that say which of them count."""
