"""The exact nearest-neighbor engine behind the measurements."""
