"""The model of `keras_attn.transformer_seq2seq`, written with PyTorch layers."""

import torch
from torch import nn


class TorchTransformer(nn.Module):
    """Pre-norm `nn.TransformerEncoder` and `nn.TransformerDecoder` with one embedding.

    Source, target and output share the embedding. The layers call PyTorch's
    `scaled_dot_product_attention`. Dropout is applied at the same places as in the model of
    keras_attn: to the embedded inputs, to the attention weights, inside the feed-forward network,
    and before each residual sum.

    Args:
        vocabulary_size, embedding_dim, num_layers, num_heads, intermediate_dim: ints.
        dropout: float in [0, 1).
        max_length: int, maximum length of a sequence.
    """

    def __init__(
        self,
        vocabulary_size,
        embedding_dim,
        num_layers,
        num_heads,
        intermediate_dim,
        dropout,
        max_length=512,
    ):
        super().__init__()
        block = {
            "d_model": embedding_dim,
            "nhead": num_heads,
            "dim_feedforward": intermediate_dim,
            "dropout": dropout,
            "batch_first": True,
            "norm_first": True,
        }
        self.embedding = nn.Embedding(vocabulary_size, embedding_dim)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(**block),
            num_layers,
            norm=nn.LayerNorm(embedding_dim),
            enable_nested_tensor=False,  # has an effect only without gradients
        )
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(**block), num_layers, norm=nn.LayerNorm(embedding_dim)
        )
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("positions", sinusoids(max_length, embedding_dim), persistent=False)

    def forward(self, source_ids, target_ids):
        """Returns logits `(B, T, V)` of ids `(B, S)` and `(B, T)`, padded with 0 on the right."""
        padding = source_ids == 0  # (B, S), True for padding
        memory = self.encoder(self.embed(source_ids), src_key_padding_mask=padding)  # (B, S, D)
        causal = nn.Transformer.generate_square_subsequent_mask(target_ids.shape[1])  # (T, T)
        outputs = self.decoder(
            self.embed(target_ids),
            memory,
            tgt_mask=causal,
            tgt_is_causal=True,  # attention uses its causal form instead of the mask
            memory_key_padding_mask=padding,
        )  # (B, T, D)
        return outputs @ self.embedding.weight.t()  # (B, T, V)

    def embed(self, ids):
        vectors = self.embedding(ids)  # (B, T, D)
        scaled = vectors * vectors.shape[-1] ** 0.5
        return self.dropout(scaled + self.positions[: ids.shape[1]])


def sinusoids(max_length, features):
    """Returns `(max_length, features)`, with sines in even columns and cosines in odd columns."""
    exponents = torch.arange(0, features, 2) / features
    angles = torch.arange(max_length)[:, None] * 10000.0**-exponents  # (L, D/2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
