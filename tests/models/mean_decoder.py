import keras
from keras import ops

from keras_attn._decoders.step_decoder import StepDecoder


@keras.saving.register_keras_serializable(package="tests")
class MeanDecoder(StepDecoder):
    """A fast decoder for tests: adds the mean of the source to the embedding of the last token."""

    embedding_dim = 4

    def build(self, token_ids_shape, encoder_outputs_shape, *shapes):
        self.kernel = self.add_weight((10, self.embedding_dim), "normal", name="kernel")

    def call(self, token_ids, encoder_outputs, encoder_mask=None, encoder_state=None):
        memory = self.prepare_memory(encoder_outputs)
        return self.project(ops.take(self.kernel, token_ids, axis=0) + memory["mean"][:, None])

    def prepare_memory(self, encoder_outputs, encoder_mask=None, encoder_state=None):
        return {"mean": ops.mean(encoder_outputs, axis=1)}

    def initial_state(self, memory, beam_width=1, alignments=False, max_length=None):
        return {}

    def step(self, token_ids, state, memory):
        return self.project(ops.take(self.kernel, token_ids, axis=0) + memory["mean"]), state

    def project(self, vectors):
        return ops.matmul(vectors, ops.transpose(self.kernel))
