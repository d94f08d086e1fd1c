"""Arguments of `enable_lora` that adapt all kernels of converted models."""

LORA = {
    "rank": 2,
    "lora_alpha": 3.0,
    "attention_kernels": ("query", "key", "value", "output"),
    "feed_forward_kernels": ("expansion", "contraction"),
}
