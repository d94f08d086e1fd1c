"""Operations that differ between TensorFlow, JAX and PyTorch."""
