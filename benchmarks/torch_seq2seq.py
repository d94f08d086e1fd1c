"""The model of `keras_attn.rnn_seq2seq`, written for PyTorch."""

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class TorchSeq2Seq(nn.Module):
    """Bidirectional LSTM encoder, and LSTM decoder with attention and input feeding.

    Source, target and output share one embedding. The second bias of PyTorch's LSTM, which Keras
    does not have, stays zero.

    Args:
        vocabulary_size: int.
        embedding_dim: int, also the size of the attention vector.
        units: int, units of the decoder and of each direction of the encoder.
        dropout: float in [0, 1).
        attention: `"bahdanau"` or `"luong"` (general score).
    """

    def __init__(self, vocabulary_size, embedding_dim, units, dropout, attention="bahdanau"):
        super().__init__()
        self.attention = attention
        self.embedding = nn.Embedding(vocabulary_size, embedding_dim)
        self.encoder = nn.LSTM(embedding_dim, units, batch_first=True, bidirectional=True)
        self.bridge = nn.ModuleList([nn.Linear(4 * units, units) for _ in range(2)])
        self.key_layer = nn.Linear(2 * units, units, bias=False)
        if attention == "bahdanau":
            self.query_layer = nn.Linear(units, units, bias=False)
            self.score_vector = nn.Parameter(torch.empty(units))
        self.cell = nn.LSTMCell(2 * embedding_dim, units)
        self.attention_layer = nn.Linear(3 * units, embedding_dim, bias=False)
        self.dropout = nn.Dropout(dropout)
        for name, parameter in self.named_parameters():
            if "bias_hh" in name:
                nn.init.zeros_(parameter)
                parameter.requires_grad_(False)

    def load_weights(self, path):
        """Loads the weights of `weights_for_pytorch` from an `.npz` file."""
        with np.load(path) as arrays:
            self.load_state_dict({name: torch.from_numpy(arrays[name]) for name in arrays.files})

    def forward(self, source_ids, target_ids):
        """Returns logits `(B, T, V)` of ids `(B, S)` and `(B, T)`, padded with 0 on the right."""
        memory, state = self.encode(source_ids)
        vectors = []
        for step_inputs in self.dropout(self.embedding(target_ids)).unbind(dim=1):
            state = self.step(step_inputs, state, memory)
            vectors.append(state[-1])
        outputs = self.dropout(torch.stack(vectors, dim=1))  # (B, T, E)
        return outputs @ self.embedding.weight.t()  # (B, T, V)

    def encode(self, source_ids):
        """Encodes the source.

        Returns:
            Tuple of the memory and the initial state of the decoder. The memory is a tuple of keys
            `(B, S, U)`, values `(B, S, 2U)` and the additive mask of the scores `(B, 1, S)`. The
            state is a tuple of h and c of the cell `(B, U)` and the attention vector `(B, E)`.
        """
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
        penalty = torch.zeros(mask.shape).masked_fill(~mask, float("-inf"))  # (B, S)
        memory = self.key_layer(values), values, penalty.unsqueeze(1)

        # h of the forward and backward direction, then c of both.
        joined = torch.cat([part for pair in state for part in pair], dim=1)  # (B, 4U)
        h, c = (torch.tanh(layer(joined)) for layer in self.bridge)  # (B, U)
        return memory, (h, c, values.new_zeros(len(values), self.embedding.embedding_dim))

    def step(self, inputs, state, memory):
        """Runs one step of the decoder.

        Args:
            inputs: embedded tokens `(B * K, E)`, K rows for each sentence.
            state, memory: as returned by `encode`, but the state has K rows for each sentence.

        Returns:
            The new state; its last part, the attention vector, is the output of the step.
        """
        h, c, vector = state
        keys, values, penalty = memory
        h, c = self.cell(torch.cat([inputs, vector], dim=1), (h, c))
        queries = h.view(len(keys), -1, h.shape[1])  # (B, K, U)
        if self.attention == "bahdanau":
            hidden = self.query_layer(queries).unsqueeze(2) + keys.unsqueeze(1)  # (B, K, S, U)
            scores = torch.tanh(hidden) @ self.score_vector  # (B, K, S)
        else:
            scores = torch.bmm(queries, keys.transpose(1, 2))  # (B, K, S)
        contexts = torch.bmm(torch.softmax(scores + penalty, dim=2), values)  # (B, K, 2U)
        joined = torch.cat([h, contexts.flatten(0, 1)], dim=1)  # (B * K, 3U)
        return h, c, torch.tanh(self.attention_layer(joined))
