"""Compares Keras, SavedModel and ONNX on the same sentences, and checks scores by teacher forcing.

    python benchmarks/parity.py RUN SAVED_MODEL ONNX --name multi30k-en-de-bahdanau

RUN is a run directory of `keras-attn train translation`; SAVED_MODEL and ONNX are its exports.
Keras and both exports translate all sentences of RUN/data/test.source. The trained model then
scores each hypothesis of Keras again, in one pass with teacher forcing.
"""

import json
from pathlib import Path

import keras
import numpy as np
import onnxruntime
import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers the operations of the SavedModel
from arguments import argument_parser, settings_of
from onnx_session import call_settings
from results_file import versions, write_results
from translation_side import pad

import keras_attn
from keras_attn.files import read_lines
from keras_attn.training import RunDirectory

BATCH = 50


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("saved_model", type=Path)
    parser.add_argument("onnx", type=Path)
    parser.add_argument("--name", required=True, help="name of the results file")
    args = parser.parse_args()
    training = json.loads((args.run_dir / "history.json").read_text())["arguments"]

    run = RunDirectory(args.run_dir)
    translator, source = run.load_model(), run.source_tokenizer
    search = translator.search
    loaded = tf.saved_model.load(str(args.saved_model))
    session = onnxruntime.InferenceSession(args.onnx, providers=["CPUExecutionProvider"])
    outputs = [output.name for output in session.get_outputs()]
    options = call_settings(session)
    keras_translate = tf.function(
        lambda source_ids: translator(source_ids, training=False),
        input_signature=[tf.TensorSpec((None, None), tf.int32)],
    )
    forms = {
        "keras": lambda ids: keras_translate(ids),
        "saved_model": lambda ids: loaded.signatures["ids"](
            source_ids=tf.constant(ids), **{name: tf.constant(v) for name, v in options.items()}
        ),
        "onnx": lambda ids: dict(
            zip(outputs, session.run(outputs, {"source_ids": ids, **options}), strict=True)
        ),
    }

    trainer = keras_attn.TrainingModel(translator.encoder, translator.decoder)
    sentences = source.encode(list(read_lines(args.run_dir / "data" / "test.source")))
    results = {name: [] for name in forms}
    score_differences = []
    for start in range(0, len(sentences), BATCH):
        source_ids = pad([ids + [source.end_token_id] for ids in sentences[start : start + BATCH]])
        for name, translate in forms.items():
            results[name] += hypotheses(translate(source_ids))
        score_differences += [
            abs(forced - log_prob)
            for forced, (_, _, log_prob) in zip(
                forced_log_probs(trainer, source_ids, results["keras"][start:], search),
                [best for row in results["keras"][start:] for best in row],
                strict=True,
            )
        ]

    rows = [compare(name, results["keras"], results[name]) for name in ("saved_model", "onnx")]
    rows.append(
        {
            "model": "teacher forcing",
            "hypotheses": len(score_differences),
            "largest_log_prob_difference": float(max(score_differences)),
        }
    )
    print(json.dumps(rows, indent=2))
    write_results(
        args.out / f"parity-{args.name}.json",
        rows,
        versions("keras", "tensorflow", "onnxruntime", "tf2onnx"),
        training["seed"],
        settings=settings_of(args),
        sentences=len(sentences),
    )


def hypotheses(outputs):
    """Returns for each sentence a list of `(ids without padding, score, log_prob)`, best first."""
    token_ids, scores, log_probs = (
        np.asarray(outputs[name]) for name in ("token_ids", "scores", "log_probs")
    )
    return [
        [
            (tuple(int(token) for token in ids if token), float(score), float(log_prob))
            for ids, score, log_prob in zip(*row, strict=True)
        ]
        for row in zip(token_ids, scores, log_probs, strict=True)
    ]


def forced_log_probs(trainer, source_ids, rows, search):
    """Returns the log probability of each hypothesis, computed in one pass over its tokens."""
    width = len(rows[0])
    targets = pad([ids for row in rows for ids, _, _ in row])  # (B*N, T)
    inputs = np.concatenate(
        [np.full((len(targets), 1), search.start_token_id, "int32"), targets[:, :-1]], axis=1
    )
    logits = trainer(
        {"source_ids": np.repeat(source_ids, width, axis=0), "target_ids": inputs}, training=False
    )
    log_probs = np.asarray(keras.ops.log_softmax(logits), "float64")  # (B*N, T, V)
    chosen = np.take_along_axis(log_probs, targets[:, :, None], axis=-1)[:, :, 0]  # (B*N, T)
    return np.sum(chosen * (targets != search.pad_token_id), axis=1)


def compare(name, expected, actual):
    same_best = [ours[0][0] == theirs[0][0] for ours, theirs in zip(expected, actual, strict=True)]
    same_all = [
        [ids for ids, _, _ in ours] == [ids for ids, _, _ in theirs]
        for ours, theirs in zip(expected, actual, strict=True)
    ]
    score_differences = [
        abs(one[1] - other[1])
        for ours, theirs in zip(expected, actual, strict=True)
        for one, other in zip(ours, theirs, strict=True)
        if one[0] == other[0]
    ]
    return {
        "model": name,
        "sentences": len(expected),
        "same_best_ids": sum(same_best),
        "same_ids_of_all_hypotheses": sum(same_all),
        "largest_score_difference": max(score_differences),
    }


if __name__ == "__main__":
    main()
