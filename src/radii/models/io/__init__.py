"""Models in files: bundles, exports, and networks of other tools."""
