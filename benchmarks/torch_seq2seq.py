"""The model of `keras_attn.rnn_seq2seq` with Bahdanau attention, written for PyTorch."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class TorchSeq2Seq(nn.Module):
    """Bidirectional LSTM encoder; LSTM decoder with additive attention and input feeding.

    One embedding for source, target and output. The second bias of PyTorch's LSTM, which Keras
    does not have, is held at zero.

    Args:
        vocabulary_size: int.
        embedding_dim: int, also the size of the attention vector.
        units: int, of the decoder and of each direction of the encoder.
        dropout: float in [0, 1).
    """

    def __init__(self, vocabulary_size, embedding_dim, units, dropout):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, embedding_dim)
        self.encoder = nn.LSTM(embedding_dim, units, batch_first=True, bidirectional=True)
        self.bridge = nn.ModuleList([nn.Linear(4 * units, units) for _ in range(2)])
        self.key_layer = nn.Linear(2 * units, units, bias=False)
        self.query_layer = nn.Linear(units, units, bias=False)
        self.score_vector = nn.Parameter(torch.empty(units))
        self.cell = nn.LSTMCell(2 * embedding_dim, units)
        self.attention_layer = nn.Linear(3 * units, embedding_dim, bias=False)
        self.dropout = nn.Dropout(dropout)
        for name, parameter in self.named_parameters():
            if "bias_hh" in name:
                nn.init.zeros_(parameter)
                parameter.requires_grad_(False)

    def forward(self, source_ids, target_ids):
        """Logits `(B, T, V)` of ids `(B, S)` and `(B, T)`, both padded with 0 on the right."""
        mask = source_ids != 0  # (B, S)
        packed = pack_padded_sequence(
            self.dropout(self.embedding(source_ids)),
            mask.sum(dim=1),
            batch_first=True,
            enforce_sorted=False,
        )
        packed, state = self.encoder(packed)
        outputs, _ = pad_packed_sequence(packed, batch_first=True)
        values = self.dropout(outputs)  # (B, S, 2U)
        keys = self.key_layer(values)  # (B, S, U)
        penalty = torch.zeros(mask.shape).masked_fill(~mask, float("-inf"))  # (B, S)

        # Forward and backward h, then forward and backward c.
        joined = torch.cat([part for pair in state for part in pair], dim=1)  # (B, 4U)
        h, c = (torch.tanh(layer(joined)) for layer in self.bridge)  # (B, U)
        inputs = self.dropout(self.embedding(target_ids))  # (B, T, E)
        vector = inputs.new_zeros(inputs.shape[0], inputs.shape[2])  # (B, E)
        vectors = []
        for step_inputs in inputs.unbind(dim=1):
            h, c = self.cell(torch.cat([step_inputs, vector], dim=1), (h, c))
            hidden = torch.tanh(self.query_layer(h).unsqueeze(1) + keys)  # (B, S, U)
            weights = torch.softmax(hidden @ self.score_vector + penalty, dim=1)  # (B, S)
            context = torch.bmm(weights.unsqueeze(1), values).squeeze(1)  # (B, 2U)
            vector = torch.tanh(self.attention_layer(torch.cat([h, context], dim=1)))  # (B, E)
            vectors.append(vector)
        outputs = self.dropout(torch.stack(vectors, dim=1))  # (B, T, E)
        return outputs @ self.embedding.weight.t()  # (B, T, V)
