"""From Keras to ONNX: what is traced, and how its operators are converted."""
