"""Tokenizers, corpora and batches of token ids."""

from keras_attn._models.word_starts import word_starts
from keras_attn.text._added_tokens import AddedToken
from keras_attn.text._encode_documents import encode_documents
from keras_attn.text._encoded_sentences import EncodedSentences
from keras_attn.text._generated_dates import generate_dates
from keras_attn.text._generated_reviews import generate_reviews
from keras_attn.text._hugging_face_tokenizer import HuggingFaceTokenizer
from keras_attn.text._labelled_batches import LabelledBatches
from keras_attn.text._language import Language
from keras_attn.text._length_bucketed_batches import LengthBucketedBatches
from keras_attn.text._mask_tokens import mask_tokens
from keras_attn.text._parallel_corpus import ParallelCorpus
from keras_attn.text._prepare_pairs import PairCounts, prepare_pairs
from keras_attn.text._read_documents import read_documents
from keras_attn.text._read_labelled_texts import LabelledTexts, read_labelled_texts
from keras_attn.text._sentencepiece_tokenizer import SentencePieceTokenizer
from keras_attn.text._tokenizer import SpecialTokenIds, Tokenizer

__all__ = [
    "AddedToken",
    "EncodedSentences",
    "HuggingFaceTokenizer",
    "LabelledBatches",
    "LabelledTexts",
    "Language",
    "LengthBucketedBatches",
    "PairCounts",
    "ParallelCorpus",
    "SentencePieceTokenizer",
    "SpecialTokenIds",
    "Tokenizer",
    "encode_documents",
    "generate_dates",
    "generate_reviews",
    "mask_tokens",
    "prepare_pairs",
    "read_documents",
    "read_labelled_texts",
    "word_starts",
]
