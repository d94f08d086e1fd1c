"""Tracing of Keras models and conversion of their operators to ONNX."""
