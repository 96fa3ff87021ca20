"""The claims themselves, grouped by paper; each module has a tuple ``CLAIMS``."""
