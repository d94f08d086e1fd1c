"""From features to tokens or to one vector: logits, masked tokens, pooling."""
