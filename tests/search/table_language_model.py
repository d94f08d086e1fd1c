"""A language model whose logits are looked up in a table, like those of a `TableDecoder`."""

import keras
import numpy as np
from keras import ops

from tests.search.table_decoder import TableDecoder


@keras.saving.register_keras_serializable(package="tests")
class TableLanguageModel(TableDecoder):
    """Language model with one table `(N, vocabulary)` for all batch entries, without prompts."""

    reads_prompts = True

    def __init__(self, table, forbids_tokens=False, **kwargs):
        super().__init__(forbids_tokens, **kwargs)
        self.table = np.array(table, "float32").tolist()
        self.vocabulary_size = np.shape(table)[1]

    def prepare_memory(self, encoder_outputs, encoder_mask=None, encoder_state=None):
        batch, length = ops.shape(encoder_outputs)
        assert length == 0
        table = ops.convert_to_tensor(self.table, dtype="float32")
        return {"tables": ops.zeros((batch, 1, 1), dtype="float32") + table}

    def get_config(self):
        return {**super().get_config(), "table": self.table}
