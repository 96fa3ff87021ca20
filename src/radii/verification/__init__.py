"""Complete verification: a property is proved, refuted by an input, or left open within limits.

In come ONNX networks and VNN-LIB properties, or a network and a ball; out go verdicts, counterexamples and proof
files. ``checker`` reads proofs with nothing of the code that found them.
"""
