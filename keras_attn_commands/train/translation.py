"""`keras-attn train translation`: trains a model that translates texts."""

import dataclasses
import math
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import keras

import keras_attn
from keras_attn.files import read_lines, write_lines
from keras_attn.text import (
    LengthBucketedBatches,
    PairCounts,
    ParallelCorpus,
    SentencePieceTokenizer,
    generate_dates,
    prepare_pairs,
)
from keras_attn.text._generated_dates import Split
from keras_attn.training import (
    AverageWeights,
    BestCheckpoint,
    BleuCallback,
    InverseSquareRootSchedule,
    ModelCard,
    RunDirectory,
    ScheduledSampling,
    ShowProgress,
    WarnOfProblems,
    compile_for_training,
    make_strategy,
)
from keras_attn_checks.evenly_spaced import evenly_spaced
from keras_attn_commands.train import run_files
from keras_attn_commands.train.dry_run import print_estimate
from keras_attn_commands.train.memory import report_memory
from keras_attn_commands.train.run_training import run_training
from keras_attn_commands.train.setting_checks import reject_settings_of_other_models
from keras_attn_commands.train.setting_warnings import warn_of_vocabulary, warn_of_warmup
from keras_attn_commands.train.settings import Warn
from keras_attn_commands.train.translation_data import warn_of_data
from keras_attn_commands.train.translation_defaults import data_defaults, fill, training_defaults
from keras_attn_commands.train.translation_settings import (
    MAY_CHANGE,
    OF_MODELS,
    TranslationSettings,
)

DATES: dict[Split, int] = {"train": 30_000, "valid": 1000, "test": 2000}
"""Dict from splits to the numbers of generated dates."""
DATA_SETTINGS = "source target tokenizer vocabulary_size separate_vocabularies max_length".split()
"""Settings of data and tokenizers."""
PREPARED = "data corpus-train corpus-valid source.spm target.spm".split()
"""What `prepare` writes to a run directory."""
ATTENTIONS: dict[str, Any] = {
    "none": None,
    "bahdanau": "bahdanau",
    "luong": "luong",
    "multi-head": lambda units: keras_attn.MultiHeadAttention(4, units // 4),
    "sparsemax": lambda units: keras_attn.BahdanauAttention(units, probability_fn="sparsemax"),
    "local": lambda units: keras_attn.LocalAttention(keras_attn.LuongAttention("general")),
    "coverage": keras_attn.CoverageAttention,
    "location-sensitive": keras_attn.LocationSensitiveAttention,
}


def train(settings: TranslationSettings, command: str, warn: Warn) -> None:
    """Trains a translator and writes it to the run directory.

    Args:
        settings: `TranslationSettings`. Settings that are `None` are chosen from the data.
        command: String, the command line, for the model card.
        warn: Function that shows the text of a warning.
    """
    reject_settings_of_other_models(settings, OF_MODELS)
    with run_files.locked(settings.run_dir):
        prepared = prepare(settings, warn)
        run_files.begin_training(
            settings, prepared.checksums, prepared.reasons, MAY_CHANGE, keep=PREPARED
        )
        _train_model(settings, prepared, command, warn)


@dataclasses.dataclass
class Prepared:
    """Data of a training, and the reasons for its settings."""

    tokenizers: tuple[SentencePieceTokenizer, SentencePieceTokenizer]
    training: LengthBucketedBatches
    validation: LengthBucketedBatches
    reasons: dict[str, str]
    checksums: dict[str, str]


def prepare(settings: TranslationSettings, warn: Warn) -> Prepared:
    """Prepares the data in the run directory, and sets the settings that are `None`."""
    run_dir, folder = settings.run_dir, settings.run_dir / "data"
    with tempfile.TemporaryDirectory(dir=run_dir, prefix="data-") as temporary:
        new_folder = Path(temporary, "data")
        counts = read_data(settings, new_folder)
        warn_of_data(new_folder, counts, warn)
        reasons = fill(settings, data_defaults(settings, counts["train"].pairs))
        checksums = run_files.checksums(new_folder)
        # Nothing of an earlier training is changed before its settings and data are compared.
        run_files.check_earlier_training(settings, checksums, MAY_CHANGE, DATA_SETTINGS)
        if not (run_dir / run_files.STORED).exists():  # from now on, the directory is a training's
            run_files.store_settings(settings, checksums, reasons)
        shutil.rmtree(folder, ignore_errors=True)
        new_folder.rename(folder)
    tokenizers = _train_tokenizers(settings, folder, warn)
    corpora = [_encode(settings, folder, split, tokenizers, warn) for split in ("train", "valid")]

    def batches(corpus, tokens, **options):
        return LengthBucketedBatches(corpus, tokens, seed=settings.seed, **options)

    def steps_of(tokens):
        return batches(corpora[0], tokens).steps_per_epoch

    reasons |= fill(settings, training_defaults(settings, len(corpora[0]), steps_of))
    options = {}
    if settings.subword_sampling:
        options = {"tokenizers": tokenizers, "sampling_alpha": settings.subword_sampling}
    tokens = settings.tokens_per_batch
    training = batches(corpora[0], tokens, **options)
    warn_of_warmup(settings.warmup_steps, settings.epochs * training.steps_per_epoch, warn)
    validation = batches(corpora[1], tokens, shuffle=False)
    return Prepared(tokenizers, training, validation, reasons, checksums)


def read_data(settings: TranslationSettings, folder: Path) -> dict[Split, PairCounts]:
    """Writes clean parallel files to a directory, and returns the numbers of pairs."""
    if settings.data is not None:
        counts = prepare_pairs(settings.data, folder, settings.source, settings.target)
    else:
        folder.mkdir(exist_ok=True)
        counts: dict[Split, PairCounts] = {}
        for split, count in DATES.items():
            sources, targets = generate_dates(count, settings.seed, split)
            write_lines(folder / f"{split}.source", sources)
            write_lines(folder / f"{split}.target", targets)
            counts[split] = PairCounts(count, origin="generated dates")
    for split, count in counts.items():
        print(f"{split}: {count.pairs:,} pairs from {count.origin}", flush=True)
    return counts


def _train_tokenizers(settings, folder, warn):
    """Trains and saves the tokenizers of source and target, or loads saved tokenizers."""
    paths = [settings.run_dir / f"{side}.spm" for side in ("source", "target")]
    if not all(path.exists() for path in paths):
        texts = [[folder / "train.source"], [folder / "train.target"]]
        sides = texts if settings.separate_vocabularies else [texts[0] + texts[1]]
        trained = [
            SentencePieceTokenizer.train(files, settings.vocabulary_size, settings.tokenizer)
            for files in sides
        ]
        for path, tokenizer in zip(paths, (trained[0], trained[-1]), strict=True):
            tokenizer.save(path)
    source, target = map(SentencePieceTokenizer.load, paths)
    if settings.tokenizer != "char":
        size = min(source.vocabulary_size, target.vocabulary_size)
        warn_of_vocabulary(size, settings.vocabulary_size, warn)
    return source, target


def _encode(settings, folder, split, tokenizers, warn):
    """Returns the corpus of a split, which is encoded once."""
    source_tokenizer, target_tokenizer = tokenizers
    corpus = ParallelCorpus.encode(
        folder / f"{split}.source",
        folder / f"{split}.target",
        source_tokenizer,
        target_tokenizer,
        settings.max_length,
        settings.max_length,
        settings.run_dir / f"corpus-{split}",
    )
    if corpus.dropped_long:
        warn(
            f"{corpus.dropped_long:,} of {len(corpus) + corpus.dropped_long:,} pairs of {split} "
            f"are longer than --max-length {settings.max_length} tokens and left out."
        )
    return corpus


def _train_model(settings, prepared, command, warn):
    """Trains the model of a prepared run, or continues its training."""
    if settings.bfloat16:
        _multiply_in_bfloat16()
    run_dir = settings.run_dir
    tokenizers = prepared.tokenizers
    with make_strategy(settings.strategy).scope():
        trainer, translator = _make_models(settings, prepared)
    steps = prepared.training.steps_per_epoch
    print(f"{trainer.count_params():,} weights, {steps:,} steps in an epoch")
    report_memory(
        trainer,
        settings.tokens_per_batch * tokenizers[1].vocabulary_size,
        "fewer --tokens-per-batch, a smaller --vocabulary-size or a smaller model",
        warn,
    )
    if settings.dry_run:
        epoch = steps, prepared.validation.steps_per_epoch
        print_estimate(trainer, prepared.training.stream(), *epoch, settings.epochs, evaluates=True)
        return
    card = None
    if settings.data is not None:
        card = ModelCard(settings.source, settings.target, recipe=command)
    run = RunDirectory.create(run_dir, "generation", *tokenizers, model_card=card)
    target_tokens = int(prepared.training.corpus.target.lengths.sum())
    progress = ShowProgress(target_tokens / steps, "target tokens")
    average = AverageWeights(run_dir / "epochs", num_epochs=settings.average)
    vocabulary_size = tokenizers[1].vocabulary_size
    callbacks = [
        average,
        _make_bleu(settings, translator, tokenizers),
        WarnOfProblems(vocabulary_size, settings.warmup_steps, warn),
        BestCheckpoint(run, saved_model=translator),
    ]
    run_training(
        settings,
        trainer,
        prepared.training,
        callbacks,
        progress,
        validation_data=prepared.validation,
        # These schedules depend on the number of epochs, so they may differ from the state.
        on_mismatch="warn" if settings.decay or settings.scheduled_sampling else "error",
    )
    average.apply()
    run.save_model(translator)
    export = run_files.export_command()
    print(
        f"Wrote {run.model_path}\nNext:\n"
        f"  keras-attn evaluate {run_dir}\n"
        f"  {export} onnx {run_dir} translator.onnx\n"
        f"  keras-attn-runtime translate translator.onnx < {run_dir}/data/test.source"
    )


def _make_models(settings, prepared):
    """Returns the compiled model for the training, and the model with the search."""
    encoder, decoder = _make_model(
        settings,
        *(tokenizer.vocabulary_size for tokenizer in prepared.tokenizers),
    )
    search = keras_attn.BeamDecoder(
        decoder,
        beam_width=settings.beam_width,
        num_hypotheses=settings.beam_width,
        max_length=settings.max_length,
        length_penalty=settings.length_penalty,
        return_alignments=settings.model == "transformer" or settings.attention != "none",
        name="search",
    )
    steps = settings.epochs * prepared.training.steps_per_epoch
    learner = decoder
    if settings.scheduled_sampling:
        schedules: Any = keras.optimizers.schedules
        rising = schedules.PolynomialDecay(0.0, steps, settings.scheduled_sampling)
        learner = ScheduledSampling(decoder, rising, seed=settings.seed)
    decay = {}
    if settings.decay:
        decay = {"total_steps": steps, "decay_steps": math.ceil(settings.decay * steps)}
    trainer = compile_for_training(
        keras_attn.TrainingModel(encoder, learner),
        learning_rate=InverseSquareRootSchedule(
            settings.learning_rate, settings.warmup_steps, **decay
        ),
        label_smoothing=settings.label_smoothing,
        beta_2=settings.beta_2,
    )
    return trainer, keras_attn.GenerationModel(encoder, search)


def _make_model(settings, source_vocabulary_size, target_vocabulary_size):
    """Creates the encoder and the decoder."""
    shared = {
        "embedding_dim": settings.embedding_dim,
        "num_layers": settings.layers,
        "dropout": settings.dropout,
        "share_embeddings": not settings.separate_vocabularies,
        "seed": settings.seed,
    }
    if settings.model == "transformer":
        return keras_attn.transformer_seq2seq(
            source_vocabulary_size,
            target_vocabulary_size,
            num_heads=settings.heads,
            intermediate_dim=settings.intermediate_dim,
            attention_dropout=settings.attention_dropout,
            activation_dropout=settings.activation_dropout,
            positions=settings.positions,
            # Sampled segmentations can be longer by a quarter. Add 1 for the start token.
            max_length=math.ceil(1.25 * settings.max_length) + 1,
            **shared,
        )
    keras.utils.set_random_seed(settings.seed)  # before attention layers sample seeds
    attention: Any = ATTENTIONS[settings.attention]
    if callable(attention):
        attention = attention(settings.units)
    return keras_attn.rnn_seq2seq(
        source_vocabulary_size,
        target_vocabulary_size,
        attention=attention,
        cell=settings.cell,
        units=settings.units,
        input_feeding=settings.input_feeding,
        **shared,
    )


def _make_bleu(settings, translator, tokenizers):
    """Returns the callback that evaluates a part of the validation pairs, evenly distributed."""
    folder = settings.run_dir / "data"
    sides = [list(read_lines(folder / f"valid.{side}")) for side in ("source", "target")]
    rows = evenly_spaced(settings.evaluated, len(sides[0]))
    sources, references = ([side[row] for row in rows] for side in sides)
    return BleuCallback(
        lambda texts: translator.generate(texts, *tokenizers),
        sources,
        references,
        time_share=0.1,
        num_samples=3,
    )


def _multiply_in_bfloat16():
    """Makes TensorFlow multiply in bfloat16 during training. Weights and sums remain float32."""
    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            "Expected TensorFlow for --bfloat16. Received: KERAS_BACKEND="
            f"{keras.backend.backend()}. Remove the option."
        )
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"auto_mixed_precision_onednn_bfloat16": True})
    # Speed: computing the largest logit of each token takes ten times as long in bfloat16.
    os.environ.setdefault("TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_CLEARLIST_REMOVE", "Max")
