"""Layers that map features to logits or pool them: projection, masked-LM head, pooling."""
