"""Small tokenizers of Hugging Face, as the content of a `tokenizer.json`."""

LINES = ["the cat sleeps in the red house", "a dog eats the bone", "zwei Vögel singen im Baum"]
SPECIAL = ["<s>", "<pad>", "</s>"]  # the ids 0, 1 and 2, as in BART


def byte_level(size=300):
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers

    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(LINES * 3, trainer)
    return tokenizer.to_str().encode()


def word_piece():
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers

    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = [*SPECIAL, "[UNK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=90, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(LINES * 3, trainer)
    return tokenizer.to_str().encode()
