"""OpenNMT-tf settings: Transformer arguments, and the configuration file."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_attn.convert._conversion_error import ConversionError, Problems
from keras_attn.convert._search_settings import SearchSettings
from keras_attn.convert._settings import (
    Setting,
    Settings,
    irrelevant,
    mapped,
    refused,
    refused_unless,
)
from keras_attn_checks.message import Argument, Message

PAD, START, END = 0, 1, 2
"""Ids for `<blank>`, `<s>` and `</s>`, the same in all vocabularies."""

CONFIGS = ("data.yml", "config.yml")
"""Names of configuration files, searched in the checkpoint folder."""

_TRAINING = irrelevant("only used in training")
_OUTPUTS = irrelevant("selects outputs that the converted model does not have")
_WORDS = "inputs that are not embeddings of words"

ARGUMENTS: dict[str, Setting] = {
    "source_inputter": refused(_WORDS, None, "WordEmbedder"),
    "target_inputter": refused(_WORDS, None, "WordEmbedder"),
    "num_layers": mapped("num_layers of encoder and decoder", 6),
    "num_units": mapped("size of the vectors", 512),
    "num_heads": mapped("num_heads", 8),
    "ffn_inner_dim": mapped("intermediate_dim", 2048),
    "dropout": mapped("dropout, for training", 0.1),
    "attention_dropout": mapped("attention_dropout, for training", 0.1),
    "ffn_dropout": mapped("activation_dropout, for training", 0.1),
    "ffn_activation": mapped("activation", "relu"),
    "mha_bias": mapped("biases of the attention", True),
    "position_encoder_class": mapped("positions", "SinusoidalPositionEncoder"),
    "share_embeddings": mapped("the embeddings that are shared", "NONE"),
    "share_encoders": irrelevant("only used with several sources"),
    "maximum_relative_position": refused(
        "relative positions of keys and values, which the attention of this library does not have",
        None,
    ),
    "attention_reduction": irrelevant("selects which attention weights are returned"),
    "pre_norm": mapped("normalize_first", True),
    "output_layer_bias": mapped("bias of the output layer", True),
}
"""`opennmt.models.Transformer` arguments."""

_PARAMS: dict[str, Setting] = {
    "beam_width": mapped("beam_width; 1 is greedy search"),
    "maximum_decoding_length": mapped("max_length", 250),
    "minimum_decoding_length": mapped("min_length", 0),
    "sampling_topk": mapped("top_k of SamplingDecoder; 1 is no sampling, 0 is all tokens", 1),
    "sampling_temperature": mapped("temperature, with sampling", 1.0),
    "length_penalty": refused_unless(
        "a length penalty of a different form; accept it, and set length_penalty_form='gnmt' and "
        "length_penalty at the export",
        lambda value, settings: value in (None, 0) or settings["params/beam_width"] == 1,
    ),
    "coverage_penalty": refused_unless(
        "a coverage penalty of a different form; accept it, and set coverage_penalty at the export",
        lambda value, settings: value in (None, 0) or settings["params/beam_width"] == 1,
    ),
    "num_hypotheses": mapped("num_hypotheses; 0 is beam_width", 1),
    "decoding_noise": refused("noise in the results", None, []),
    "replace_unknown_target": refused(
        "copies words of the source to the results; accept it, and pass replace_unknown=True to "
        "generate or to the runtime",
        *(None, False),
    ),
    "decoding_subword_token": irrelevant("only used with noise"),
    "decoding_subword_token_is_spacer": irrelevant("only used with noise"),
    "tflite_output_size": irrelevant("only used by files of TensorFlow Lite"),
    "dropout": mapped("dropout, attention_dropout and activation_dropout, for training"),
    **dict.fromkeys(
        (
            "average_loss_in_time",
            "contrastive_learning",
            "decay_params",
            "decay_step_duration",
            "decay_type",
            "freeze_layers",
            "guided_alignment_type",
            "guided_alignment_weight",
            "label_smoothing",
            "learning_rate",
            "mask_loss_outliers",
            "max_margin_eta",
            "minimum_learning_rate",
            "optimizer",
            "optimizer_params",
            "regularization",
            "scheduled_sampling_k",
            "scheduled_sampling_read_probability",
            "scheduled_sampling_type",
            "start_decay_steps",
        ),
        _TRAINING,
    ),
}

_DATA: dict[str, Setting] = {
    "source_vocabulary": mapped("vocabulary of the sources"),
    "target_vocabulary": mapped("vocabulary of the targets"),
    "vocabulary": mapped("vocabulary of both sides"),
    "source_tokenization": mapped("tokenizer of the sources"),
    "target_tokenization": mapped("tokenizer of the targets"),
    "tokenization": mapped("tokenizer of both sides"),
    "source_sequence_controls": mapped("start_token_id and end_token_id of the sources"),
    "target_sequence_controls": refused_unless(
        "targets without start or end token", lambda value, _: _has_both(value)
    ),
    "sequence_controls": refused("start and end tokens of sources and targets", None, {}),
    "source_embedding": irrelevant("initial values for training"),
    "target_embedding": irrelevant("initial values for training"),
    "embedding": irrelevant("initial values for training"),
    "export_vocabulary_assets": _OUTPUTS,
    **dict.fromkeys(
        (
            "eval_features_file",
            "eval_labels_file",
            "example_weights",
            "tagging_scheme",
            "train_alignments",
            "train_features_file",
            "train_files_weights",
            "train_labels_file",
        ),
        _TRAINING,
    ),
}

_INFER: dict[str, Setting] = {
    "batch_size": irrelevant("does not change results"),
    "batch_type": irrelevant("does not change results"),
    "length_bucket_width": irrelevant("does not change results"),
    "n_best": mapped("num_hypotheses"),
    "with_alignments": _OUTPUTS,
    "with_scores": _OUTPUTS,
}

CONFIGURATION: dict[str, Setting] = {
    "auto_config": mapped("default of params/beam_width: 4 if true, 1 if false", True),
    "model_dir": irrelevant("the folder is an argument of the conversion"),
    "train": _TRAINING,
    "eval": _TRAINING,
    "score": _OUTPUTS,
    **{f"params/{name}": setting for name, setting in _PARAMS.items()},
    **{f"data/{name}": setting for name, setting in _DATA.items()},
    **{f"infer/{name}": setting for name, setting in _INFER.items()},
}
"""Keys in the configuration, such as `data.yml`."""


def read_config(path: Path | None) -> Settings:
    """Reads a YAML configuration.

    Args:
        path: `Path`, the file, or `None` for the defaults.

    Returns:
        `Settings` with keys such as `"params/beam_width"`.

    Raises:
        ConversionError: If the file is missing, or is not an OpenNMT-tf configuration.
        ImportError: If PyYAML is not installed.
    """
    if path is None:
        return Settings("the configuration", {}, CONFIGURATION, True)
    if not path.is_file():
        raise ConversionError(
            Message(
                "Expected the path of a configuration. Received: ",
                Argument("config", str(path)),
                ", which does not exist. Check the path.",
            )
        )
    content = read_yaml(path)
    flat: dict[str, Any] = {}
    for section, values in content.items():
        if section in ("params", "data", "infer") and isinstance(values, Mapping):
            flat |= {f"{section}/{name}": value for name, value in values.items()}
        elif values is not None:
            flat[str(section)] = values
    return Settings(path.name, flat, CONFIGURATION, True)


def read_yaml(path: Path) -> Mapping[str, Any]:
    """Returns the mapping in a YAML file."""
    try:
        yaml: Any = importlib.import_module("yaml")
    except ImportError as error:
        raise ImportError(
            f"Expected PyYAML, to read {str(path)!r}. Received: {error}. Install it with `pip "
            "install '.[convert]'` in a checkout."
        ) from error
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ConversionError(
            f"Expected YAML in {str(path)!r}. Received: {reason}. Correct the file."
        ) from error
    if not isinstance(content, Mapping):
        raise ConversionError(
            f"Expected a mapping in {str(path)!r}. Received: {type(content).__name__}. Pass the "
            "configuration of OpenNMT-tf, with sections such as data and params."
        )
    return content


def opennmt_search(settings: Settings) -> SearchSettings:
    """Maps OpenNMT-tf inference settings to a search.

    By default, OpenNMT-tf uses no length penalty, and beam search ends when no open hypothesis can
    become better than the best finished one. The converted search follows the same rule,
    `stop="exact"`. There is one difference. In OpenNMT-tf, finished hypotheses occupy places in the
    beam. Open hypotheses with a higher score can displace them, although an open hypothesis' score
    decreases with each further token. The converted search keeps all finished hypotheses, as
    CTranslate2 does.

    Args:
        settings: `Settings` from the configuration.

    Returns:
        `SearchSettings`.

    Raises:
        ConversionError: If no keras_attn search finds the same results.
    """
    beams = settings["params/beam_width"]
    beams = (4 if settings["auto_config"] else 1) if beams is None else int(beams)
    top_k = int(settings["params/sampling_topk"])
    arguments: dict[str, Any] = {
        "start_token_id": START,
        "end_token_id": END,
        "pad_token_id": PAD,
        "suppressed_token_ids": [],
        "min_length": int(settings["params/minimum_decoding_length"]),
        "max_length": int(settings["params/maximum_decoding_length"]),
        "relative_max_length": None,
    }
    problems = Problems()
    with problems.collect():
        if top_k != 1 and beams > 1:
            raise ConversionError(
                f"Expected params/beam_width in {settings.file} to be 1 with sampling. Received: "
                f"params/beam_width={beams}, params/sampling_topk={top_k}. Change one of these."
            )
    hypotheses = settings["infer/n_best"]
    hypotheses = int(settings["params/num_hypotheses"] if hypotheses is None else hypotheses)
    hypotheses = hypotheses or beams
    with problems.collect():
        if hypotheses > beams:
            raise ConversionError(
                f"Expected params/num_hypotheses in {settings.file} of at most params/beam_width="
                f"{beams}. Received: {hypotheses}. Change one of these."
            )
    problems.raise_all()
    if top_k != 1:
        temperature = float(settings["params/sampling_temperature"])
        arguments |= {"top_k": top_k or None, "temperature": temperature}
        return SearchSettings("SamplingDecoder", arguments)
    if beams == 1:
        return SearchSettings("GreedyDecoder", arguments)
    arguments |= {"beam_width": beams, "num_hypotheses": hypotheses}
    arguments |= {"stop": "exact", "length_penalty_form": "none"}
    return SearchSettings("BeamDecoder", arguments)


def source_controls(class_name: str, settings: Settings) -> Mapping[str, Any]:
    """Returns whether sources have a start token and an end token.

    The automatic configuration for ScalingNmt models adds an end token.

    Args:
        class_name: String, model name in the catalog.
        settings: `Settings` from the configuration.

    Returns:
        Dict from `"start"` and `"end"` to bools. A missing key means `False`.
    """
    controls = settings["data/source_sequence_controls"]
    if controls is None and class_name.startswith("ScalingNmt"):
        return {"end": settings["auto_config"]}
    return controls or {}


def _has_both(controls):
    return not controls or (bool(controls.get("start")) and bool(controls.get("end")))
