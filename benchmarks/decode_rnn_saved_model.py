"""SavedModel side of `decode_rnn.py`, which starts this script."""

import tensorflow as tf
import translation_side


def main():
    settings = translation_side.read_settings()
    tf.config.threading.set_intra_op_parallelism_threads(settings["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(settings["threads"])
    loaded = tf.saved_model.load(settings["saved_model"])

    def translate(source_ids):
        outputs = loaded.signatures["ids"](
            source_ids=tf.constant(source_ids),
            max_length=tf.constant(settings["max_length"]),
            length_penalty=tf.constant(settings["length_penalty"]),
        )
        names = ("token_ids", "lengths", "scores")
        return translation_side.best_hypotheses(*(outputs[name].numpy() for name in names))

    translation_side.measure(translate, settings, {"tensorflow": tf.__version__})


if __name__ == "__main__":
    main()
