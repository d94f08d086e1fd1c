"""Checkpoint folders of tiny random models, written with NumPy or saved by transformers."""

import io
import json

import numpy as np

VOCABULARY_SIZE = 60
PAD = VOCABULARY_SIZE - 1

MARIAN_CONFIG = {
    "model_type": "marian",
    "architectures": ["MarianMTModel"],
    "vocab_size": VOCABULARY_SIZE,
    "d_model": 8,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 12,
    "decoder_ffn_dim": 12,
    "activation_function": "swish",
    "scale_embedding": True,
    "max_position_embeddings": 32,
    "pad_token_id": PAD,
    "eos_token_id": 0,
    "decoder_start_token_id": PAD,
    "share_encoder_decoder_embeddings": True,
    "is_encoder_decoder": True,
    "max_length": 6,
}
"""A `config.json` of a Marian model."""

OPUS_MT_KEYS = {
    "_name_or_path": "some/opus-mt-en-de",
    "_num_labels": 3,
    "activation_dropout": 0.0,
    "add_bias_logits": False,
    "add_final_layer_norm": False,
    "attention_dropout": 0.0,
    "bad_words_ids": [[PAD]],
    "bos_token_id": 0,
    "classif_dropout": 0.0,
    "classifier_dropout": 0.0,
    "decoder_layerdrop": 0.0,
    "decoder_vocab_size": VOCABULARY_SIZE,
    "dropout": 0.1,
    "encoder_layerdrop": 0.0,
    "extra_pos_embeddings": VOCABULARY_SIZE,
    "forced_eos_token_id": 0,
    "gradient_checkpointing": False,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"},
    "init_std": 0.02,
    "label2id": {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2},
    "max_length": 16,
    "normalize_before": False,
    "normalize_embedding": False,
    "num_beams": 4,
    "num_hidden_layers": 1,
    "static_position_embeddings": True,
    "transformers_version": "4.22.0",
    "use_cache": True,
}
"""The other keys of the `config.json` of published opus-mt models."""


def marian_weights(seed=0, vocabulary_size=VOCABULARY_SIZE, **changed):
    """Random weights of `MARIAN_CONFIG` under the names of transformers."""
    random = np.random.default_rng(seed)
    features, hidden = 8, 12
    shapes = {
        "model.shared.weight": (vocabulary_size, features),
        "final_logits_bias": (1, vocabulary_size),
    }
    for side, attentions in (
        ("encoder", ["self_attn"]),
        ("decoder", ["self_attn", "encoder_attn"]),
    ):
        layer = f"model.{side}.layers.0"
        linear = {f"{layer}.fc1": (hidden, features), f"{layer}.fc2": (features, hidden)}
        norms = ["final_layer_norm"]
        for attention in attentions:
            norms.append(f"{attention}_layer_norm")
            for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                linear[f"{layer}.{attention}.{part}"] = (features, features)
        for name, shape in linear.items():
            shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
        for name in norms:
            shapes |= {f"{layer}.{name}.{part}": (features,) for part in ("weight", "bias")}
    weights = {name: random.normal(size=shape) * 0.3 for name, shape in shapes.items()}
    weights |= changed
    return {name: np.asarray(value, "float32") for name, value in weights.items()}


def write_folder(folder, config=None, weights=None, generation_config=None):
    """Writes a checkpoint folder with safetensors, and returns its path."""
    from safetensors.numpy import save_file

    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(MARIAN_CONFIG if config is None else config))
    if generation_config is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation_config))
    weights = marian_weights() if weights is None else weights
    arrays = {name: np.ascontiguousarray(value) for name, value in weights.items()}
    save_file(arrays, folder / "model.safetensors")
    return folder


ENGLISH = ["the cat sleeps in the red house", "a dog eats the bone of the cat", "two cats sleep"]
GERMAN = ["die katze schläft im haus", "der hund frisst den knochen", "zwei katzen schlafen"]


def train_pieces(lines, vocab_size=40, **ids):
    """Trains a SentencePiece model. Returns its bytes."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 4),
        model_writer=model,
        vocab_size=vocab_size,
        hard_vocab_limit=False,
        minloglevel=2,
        **ids,
    )
    return model.getvalue()


def pieces_of(model):
    """Pieces of a SentencePiece model, in the order of their ids."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(id_) for id_ in range(processor.get_piece_size())]


def write_marian_tokenizers(folder):
    """Writes the tokenizer files of an opus-mt model. Returns the size of its vocabulary."""
    names = ["</s>", "<unk>", ">>fra<<"]
    for side, lines in (("source", ENGLISH), ("target", GERMAN)):
        model = train_pieces(lines, bos_id=-1, eos_id=0, unk_id=1)
        (folder / f"{side}.spm").write_bytes(model)
        names += [name for name in pieces_of(model) if name not in names]
    names.append("<pad>")
    vocabulary = {name: id_ for id_, name in enumerate(names)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    config = {"source_lang": "en", "target_lang": "de", "tokenizer_class": "MarianTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return len(names)


def random_sources(count=16, length=9, size=VOCABULARY_SIZE, end=0, pad=PAD, seed=0):
    """Ids of sources of different lengths, with an end token, padded on the right."""
    random = np.random.default_rng(seed)
    low = max(*(id_ for id_ in (end, pad) if id_ < size // 2), 2, 2) + 1
    ids = random.integers(low, size - 1, (count, length)).astype("int32")
    for row in ids:
        end_position = random.integers(1, length)
        row[end_position], row[end_position + 1 :] = end, pad
    return ids
