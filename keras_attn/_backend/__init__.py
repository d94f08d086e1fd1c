"""Operations that are different on TensorFlow, JAX and PyTorch."""
