"""A network as a list of operations: read from torch or ONNX, run, saved and exported.

Comes in: a module or a file. Goes out: a :class:`~radii.networks.program.Program`, the only form that bounds,
verification and margins know. An operation is one class under ``operations/`` that knows everything about itself.
"""
