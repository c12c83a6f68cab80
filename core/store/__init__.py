"""The store: one SQLite database in the state directory. The only place that knows SQL."""
