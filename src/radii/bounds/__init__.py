"""Bounds of a network's values over boxes and balls: intervals, CROWN, and their refinements.

In come networks and regions, out go tensors that no float32 value of the network leaves; nothing here knows a dataset
or a certificate. Every formula carries its rounding: change one only with a test that samples it.
"""
