import keras

from keras_attn.training.replicas import num_replicas, sum_over_replicas


@keras.saving.register_keras_serializable(package="keras_attn")
class ClippedAdam(keras.optimizers.Adam):
    """Adam that clips the true gradient of the global batch.

    It is `keras.optimizers.Adam`, with the same arguments (Kingma and Ba 2015,
    https://arxiv.org/abs/1412.6980), without two faults it has on TensorFlow. Keras clips on each
    replica of a strategy, before the gradients are added up; here the sum is clipped, so training
    on two devices equals training on one. And Keras squares the gradients of an embedding for each
    occurrence of a token, in the global norm and in the second moment; here the occurrences are
    added up first. Global norm clipping: Pascanu et al. 2013, https://arxiv.org/abs/1211.5063,
    algorithm 1.

    Example:

    >>> optimizer = ClippedAdam(learning_rate=0.001, global_clipnorm=1.0)
    """

    # Keras calls it once per step with all gradients, and offers no public place for this.
    def _clip_gradients(self, grads):
        replicas = num_replicas()
        grads = [_dense(gradient) for gradient in grads]
        if replicas == 1 or not (self.clipnorm or self.global_clipnorm or self.clipvalue):
            return super()._clip_gradients(grads)
        clipped = super()._clip_gradients(sum_over_replicas(grads))
        # Keras adds up the replicas' gradients after this.
        return [gradient / replicas for gradient in clipped]


def _dense(gradient):
    """Adds up the slices that the gradient of an embedding consists of on TensorFlow."""
    if keras.backend.backend() != "tensorflow":
        return gradient
    import tensorflow as tf

    return tf.convert_to_tensor(gradient)
