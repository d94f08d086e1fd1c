"""Groups of the API reference: each public name of both packages, once."""

import importlib

PACKAGES = (
    "keras_attn",
    "keras_attn.convert",
    "keras_attn.export",
    "keras_attn.files",
    "keras_attn.forecasting",
    "keras_attn.masks",
    "keras_attn.testing",
    "keras_attn.text",
    "keras_attn.training",
    "keras_attn.visualize",
    "keras_attn_runtime",
)

GROUPS = {
    "Attention": (
        "Layers that compute a context vector as a weighted average of values.",
        """
        keras_attn: BahdanauAttention LuongAttention ScaledDotProductAttention MultiHeadAttention
        CosineAttention LocationAttention LinearScoreAttention LocationSensitiveAttention
        CoverageAttention LocalAttention MonotonicAttention SoftAlignment IntraDecoderAttention
        IntraSentenceAttention CombinedAttention AttentionPooling SequencePooling
        AttentionMechanism StatefulAttention CacheView record_attention_scores
        keras_attn.masks: padding_mask causal_mask window_mask attention_mask masked_softmax
        masked_mean
        """,
    ),
    "RNN": (
        "Cells and layers for recurrent encoders and decoders.",
        """
        keras_attn: AttentionRNN AttentionRNNCell RNNCell RNNEncoder RNNDecoder StateBridge
        """,
    ),
    "Transformer": (
        "Blocks, encoders, decoders and positions.",
        """
        keras_attn: TransformerEncoder TransformerDecoder TransformerEncoderBlock
        TransformerDecoderBlock CausalLanguageModel FeedForward PatchEmbedding TiedMLMHead
        SinusoidalPositions LearnedPositions RotaryPositions LinearRotaryScaling
        Llama3RotaryScaling YarnRotaryScaling RelativePositionBias AlibiBias
        """,
    ),
    "Search": (
        "Greedy search, beam search and sampling, with any decoder.",
        """
        keras_attn: BeamDecoder GreedyDecoder SamplingDecoder AlternativesDecoder Search
        StepDecoder EnsembleDecoder FusedDecoder with_search LogitsRule RuleInput
        keras_attn.testing: check_layer check_decoder check_search
        """,
    ),
    "Models": (
        "Functions that build models, and the two models for training and generation.",
        """
        keras_attn: rnn_seq2seq transformer_seq2seq transformer_tiny transformer_base
        transformer_big TrainingModel GenerationModel ensemble_model EnsembleEncoder
        masked_language_model sequence_classifier decomposable_attention_classifier
        keras_attn.convert: from_transformers from_opennmt_tf verify Conversion ConversionError
        Verification
        """,
    ),
    "Text": (
        "Tokenizers, parallel corpora, batches of similar length, text files.",
        """
        keras_attn.text: SentencePieceTokenizer HuggingFaceTokenizer Tokenizer AddedToken
        SpecialTokenIds Language prepare_pairs PairCounts ParallelCorpus EncodedSentences
        word_starts LengthBucketedBatches mask_tokens read_labelled_texts LabelledTexts
        LabelledBatches generate_reviews read_documents encode_documents generate_dates
        keras_attn.files: read_lines write_lines atomic_replace PathLock separate_paths_problem
        """,
    ),
    "Training": (
        "Training that resumes, losses, metrics, schedules, callbacks, devices.",
        """
        keras_attn.training: fit compile_for_training RunDirectory ModelCard SeriesColumns
        ImageFormat SequenceCrossentropy crossentropy_per_token TokenAccuracy TokenCrossentropy
        Perplexity ClippedAdam InverseSquareRootSchedule LossScaleOptimizer AverageWeights
        BestCheckpoint BleuCallback HistoryFile ShowProgress WarnOfProblems CarryStates
        ScheduledSampling ConsecutiveWindows RandomWindows overlapping_windows CaptionBatches
        CaptionFiles read_captions read_images caption_texts enable_lora merge_lora make_strategy
        make_layout_map place_parts device_report
        keras_attn.visualize: plot_alignments plot_attention_grid plot_attention_over_image
        plot_forecast write_alignment_html
        """,
    ),
    "Forecasting": (
        "Forecasts of series of numbers, with intervals.",
        """
        keras_attn.forecasting: AutoregressiveForecaster ForecastLoss PathSampler DistributionHead
        GaussianHead StudentTHead QuantileHead PointHead forecast_training_model forecast_model
        Series read_series write_series generate_series split_windows forecast_windows
        covariate_scaling compute_calendar choose_season longer_seasons choose_horizon choose_window
        choose_lags choose_calendar score_forecasts mean_absolute_scaled_error sample_crps
        interval_coverage
        """,
    ),
    "Export": (
        "Files for servers and phones, compared with Keras before they are written.",
        """
        keras_attn.export: export export_onnx export_onnx_text export_onnx_steps
        export_functional_onnx export_forecaster_onnx export_litert export_litert_steps
        export_functional_litert export_forecaster_litert export_saved_model export_transformers
        export_ctranslate2 ExportReport ParityReport TransformersReport CTranslate2Report
        ExportError
        """,
    ),
    "Runtime": (
        "Runs exported files without Keras and TensorFlow.",
        """
        keras_attn_runtime: Translator GenerationResult Hypothesis TopToken StreamingTranslator
        Classifier Classification Forecaster SeriesForecast SeriesTable read_series_tables
        compute_calendar read_image SteppedModel CancelToken Cancelled DeadlineExceeded InputError
        ModelFileError ProviderError Glossary GlossaryEntry
        """,
    ),
}

PICTURES = {
    ("dates.png", "Attention weights of a date translator, one row per character"): (
        "plot_alignments write_alignment_html AttentionRNNCell"
    ),
    ("translation-bahdanau.png", "Attention weights of a translator from English to German"): (
        "BahdanauAttention"
    ),
    ("translation-coverage.png", "Attention weights of a translator from English to German"): (
        "CoverageAttention"
    ),
    ("translation-multi-head.png", "Mean weights of four heads in a translator"): (
        "MultiHeadAttention"
    ),
    ("attention.png", "Attention weights of 22 mechanisms, each on a task with letters"): (
        "AttentionMechanism LuongAttention LocalAttention MonotonicAttention CosineAttention"
    ),
    ("captioning.png", "The part of an image that each word of a caption attends to"): (
        "plot_attention_over_image"
    ),
    ("forecast.png", "A forecast with intervals, and its attention over the past"): (
        "plot_forecast PathSampler"
    ),
}
"""Names whose pages show a picture of `docs/`, by its file and its alternative text."""


INHERITED = {
    "AttentionMechanism": ("initial_state", "num_positions", "attend_step", "align"),
    "StatefulAttention": ("num_positions", "compute_weights"),
}
"""Methods of base classes without a page that the pages of subclasses list."""


def inherited_methods(name: str) -> str:
    """Returns the options that add inherited methods to the page of a name, or an empty string."""
    if name not in INHERITED:
        return ""
    return f"    options:\n      inherited_members: [{', '.join(INHERITED[name])}]\n"


def picture(name: str) -> str:
    """Returns the picture on the page of a name as Markdown, or an empty string."""
    for (file, alternative_text), names in PICTURES.items():
        if name in names.split():
            return f'\n![{alternative_text}](../../{file}){{ width="560" }}\n'
    return ""


def grouped_names() -> dict[str, list[tuple[str, str]]]:
    """Returns `(package, name)` of each entry by the title of its group."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for title, (_, text) in GROUPS.items():
        groups[title] = entries = []
        package = ""
        for word in text.split():
            if word.endswith(":"):
                package = word[:-1]
            else:
                entries.append((package, word))
    return groups


def public_names() -> list[tuple[str, str]]:
    """Returns `(package, name)` of each public name that is no package itself."""
    names = []
    for package in PACKAGES:
        module = importlib.import_module(package)
        names += [(package, name) for name in module.__all__ if f"{package}.{name}" not in PACKAGES]
    return names
