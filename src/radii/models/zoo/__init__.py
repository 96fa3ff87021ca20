"""The architectures that radii offers by name."""
