"""Training of robust and certified classifiers."""
