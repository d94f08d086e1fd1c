"""What differs between TensorFlow, JAX and PyTorch."""
