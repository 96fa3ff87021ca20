"""An independent checker of proofs: numpy, scipy and onnx, and nothing of what made the proof."""
