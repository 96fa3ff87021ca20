"""Complete verification: a property of a network is proved, or refuted by an input; see :func:`verify`."""
