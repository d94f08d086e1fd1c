"""Layers from features to logits or to one vector: projection, masked-LM head, pooling."""
