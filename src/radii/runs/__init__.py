"""Steps, the store of their runs, and the executors that perform them."""
