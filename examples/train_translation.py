"""Trains a model that translates texts.

    python examples/train_translation.py

This command trains the model in about two minutes to convert dates in four languages (see
`dates.py`). To train on parallel text files, run:

    python examples/train_translation.py --data DIR --source en --target de

DIR contains the files `train.en` and `train.de` (plain or `.gz`), `val.*` (or `valid.*`, or
`dev.*`) and `test*.*`. After the training, the run directory (`--run-dir`) contains:

    run.json                  kind, file names, special token ids
    model.keras               Keras model with encoder, attention, decoder and beam search
    source.spm, target.spm    the tokenizers (equal if the vocabulary is shared)
    test.source, test.target  the test set as text
    history.json              loss, perplexity and accuracy of each epoch

Export and run the model:

    keras-attn export onnx RUN translator.onnx
    keras-attn-runtime translate translator.onnx < RUN/test.source

If the training is interrupted, run the same command again to resume it. The command then reads
`options.json`, `state`, `epochs` and `corpus-*` in the run directory.
"""

import json
import math
import os
import shlex
import sys
import time
from contextlib import ExitStack

# Speed: on processors without VNNI, TensorFlow takes twice as long without this setting.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

import keras
from translation_data import (
    check_run_dir,
    copy_test_set,
    encode,
    find_files,
    train_tokenizers,
    write_dates,
)
from translation_options import ATTENTIONS, parse_arguments

import keras_attn
from keras_attn.files import PathLock, atomic_replace
from keras_attn.training import (
    AverageWeights,
    BestCheckpoint,
    InverseSquareRootSchedule,
    ModelCard,
    RunDirectory,
    ScheduledSampling,
    compile_for_training,
    fit,
    make_strategy,
)


def main():
    args = parse_arguments()
    args.run_dir.mkdir(parents=True, exist_ok=True)
    with ExitStack() as locks:
        try:
            locks.enter_context(PathLock(args.run_dir, "run"))
        except RuntimeError as error:
            raise SystemExit(str(error)) from error
        try:
            train(args)
        except OSError as error:  # for example a full disk
            raise SystemExit(f"Stopped: {' '.join(str(error).split())}") from error


def train(args):
    """Trains a translator and writes it to the run directory."""
    if args.bfloat16:
        multiply_in_bfloat16()
    files = find_files(args) if args.data else {}
    check_run_dir(files, args)
    if not args.data:
        files = write_dates(args.run_dir / "data", args.seed)
    copy_test_set(files, args.run_dir)
    source_tokenizer, target_tokenizer = train_tokenizers(files, args)
    card = ModelCard(args.source, args.target, recipe=recipe()) if args.data else None
    run = RunDirectory.create(
        args.run_dir, "generation", source_tokenizer, target_tokenizer, model_card=card
    )
    training, validation = encode(files, source_tokenizer, target_tokenizer, args)

    with make_strategy(args.strategy).scope():
        encoder, decoder = make_model(
            args, source_tokenizer.vocabulary_size, target_tokenizer.vocabulary_size
        )
        search = keras_attn.BeamDecoder(
            decoder,
            beam_width=args.beam_width,
            num_hypotheses=args.beam_width,
            max_length=args.max_length,
            length_penalty=args.length_penalty,
            return_alignments=args.model == "transformer" or args.attention != "none",
            name="search",
        )
        learner = decoder
        if args.scheduled_sampling:
            rising = keras.optimizers.schedules.PolynomialDecay(
                0.0, args.epochs * training.steps_per_epoch, args.scheduled_sampling
            )
            learner = ScheduledSampling(decoder, rising, seed=args.seed)
        trainer = keras_attn.TrainingModel(encoder, learner)
        translator = keras_attn.GenerationModel(encoder, search)
        compile_for_training(
            trainer,
            learning_rate=make_schedule(args, training.steps_per_epoch),
            label_smoothing=args.label_smoothing,
            beta_2=args.beta_2,
        )

    print(f"{trainer.count_params():,} weights, {training.steps_per_epoch} steps per epoch")
    clock = Clock()
    average = AverageWeights(args.run_dir / "epochs", num_epochs=args.average)
    best = BestCheckpoint(run, saved_model=translator)
    history = fit(
        trainer,
        training,
        epochs=args.epochs,
        directory=args.run_dir / "state",
        validation_data=validation,
        callbacks=[average, best, clock],
        verbose=2,
        # These schedules depend on the number of epochs, so they may differ from the saved state.
        on_mismatch="warn" if args.decay or args.scheduled_sampling else "error",
    )
    average.apply()
    run.save_model(translator)
    minutes, cpu_minutes = (seconds / 60 for seconds in clock.get_state())
    report = {
        "minutes": minutes,
        "cpu_minutes": cpu_minutes,
        "arguments": {**vars(args), "epochs": len(history.epoch)},
        "history": history.history,
    }
    with atomic_replace(args.run_dir / "history.json") as partial:
        partial.write_text(json.dumps(report, indent=2, default=str))
    print(f"Trained for {minutes:.1f} minutes: {run.model_path}")


def recipe():
    """Returns the command line of the training."""
    return f"train_translation.py {' '.join(map(shlex.quote, sys.argv[1:]))}"


class Clock(keras.callbacks.Callback):
    """Counts the seconds and CPU seconds of a training, including interrupted runs."""

    def __init__(self):
        super().__init__()
        self.set_state([0.0, 0.0])

    def get_state(self):
        """Returns the state for `fit`."""
        return [time.monotonic() - self.started[0], time.process_time() - self.started[1]]

    def set_state(self, seconds):
        """Restores a state that `get_state` returned."""
        self.started = [time.monotonic() - seconds[0], time.process_time() - seconds[1]]


def multiply_in_bfloat16():
    """Makes TensorFlow multiply in bfloat16 during training. Weights and sums remain float32."""
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"auto_mixed_precision_onednn_bfloat16": True})
    # Speed: computing the largest logit of each token takes ten times as long in bfloat16.
    os.environ.setdefault("TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_CLEARLIST_REMOVE", "Max")


def make_model(args, source_vocabulary_size, target_vocabulary_size):
    """Creates the encoder and the decoder."""
    shared = {
        "embedding_dim": args.embedding_dim,
        "num_layers": args.layers,
        "dropout": args.dropout,
        "share_embeddings": not args.separate_vocabularies,
        "seed": args.seed,
    }
    if args.model == "transformer":
        return keras_attn.transformer_seq2seq(
            source_vocabulary_size,
            target_vocabulary_size,
            num_heads=args.heads,
            intermediate_dim=args.intermediate_dim,
            attention_dropout=args.attention_dropout,
            activation_dropout=args.activation_dropout,
            positions=args.positions,
            # Sampled segmentations can be longer by a quarter. Add 1 for the start token.
            max_length=math.ceil(1.25 * args.max_length) + 1,
            **shared,
        )
    keras.utils.set_random_seed(args.seed)  # before attention layers sample seeds for their weights
    attention = ATTENTIONS[args.attention]
    return keras_attn.rnn_seq2seq(
        source_vocabulary_size,
        target_vocabulary_size,
        attention=attention(args.units) if callable(attention) else attention,
        cell=args.cell,
        units=args.units,
        input_feeding=not args.no_input_feeding,
        **shared,
    )


def make_schedule(args, steps_per_epoch):
    """Creates an inverse square root schedule. With `--decay`, it decreases linearly to 0."""
    decay = {}
    if args.decay:
        total_steps = args.epochs * steps_per_epoch
        decay = {"total_steps": total_steps, "decay_steps": math.ceil(args.decay * total_steps)}
    return InverseSquareRootSchedule(args.learning_rate, args.warmup_steps, **decay)


if __name__ == "__main__":
    main()
