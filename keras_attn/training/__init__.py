"""Losses, metrics, schedules, callbacks and device strategies for training sequence models."""

from keras_attn.training._average_weights import AverageWeights
from keras_attn.training._best_checkpoint import BestCheckpoint
from keras_attn.training._bleu_callback import BleuCallback
from keras_attn.training._caption_batches import CaptionBatches, caption_texts
from keras_attn.training._carry_states import CarryStates
from keras_attn.training._clipped_adam import ClippedAdam
from keras_attn.training._compile_for_training import compile_for_training
from keras_attn.training._consecutive_windows import ConsecutiveWindows
from keras_attn.training._crossentropy_per_token import crossentropy_per_token
from keras_attn.training._enable_lora import enable_lora, merge_lora
from keras_attn.training._fit import fit
from keras_attn.training._history_file import HistoryFile
from keras_attn.training._image_format import ImageFormat
from keras_attn.training._inverse_square_root_schedule import InverseSquareRootSchedule
from keras_attn.training._loss_scale_optimizer import LossScaleOptimizer
from keras_attn.training._make_layout_map import make_layout_map
from keras_attn.training._make_strategy import make_strategy
from keras_attn.training._model_card import ModelCard
from keras_attn.training._place_parts import device_report, place_parts
from keras_attn.training._random_windows import RandomWindows, overlapping_windows
from keras_attn.training._read_captions import CaptionFiles, read_captions, read_images
from keras_attn.training._run_directory import RunDirectory
from keras_attn.training._scheduled_sampling import ScheduledSampling
from keras_attn.training._sequence_crossentropy import SequenceCrossentropy
from keras_attn.training._series_columns import SeriesColumns
from keras_attn.training._show_progress import ShowProgress
from keras_attn.training._token_metrics import Perplexity, TokenAccuracy, TokenCrossentropy
from keras_attn.training._warn_of_problems import WarnOfProblems

__all__ = [
    "AverageWeights",
    "BestCheckpoint",
    "BleuCallback",
    "CaptionBatches",
    "CaptionFiles",
    "CarryStates",
    "ClippedAdam",
    "ConsecutiveWindows",
    "HistoryFile",
    "ImageFormat",
    "InverseSquareRootSchedule",
    "LossScaleOptimizer",
    "ModelCard",
    "Perplexity",
    "RandomWindows",
    "RunDirectory",
    "ScheduledSampling",
    "SequenceCrossentropy",
    "SeriesColumns",
    "ShowProgress",
    "TokenAccuracy",
    "TokenCrossentropy",
    "WarnOfProblems",
    "caption_texts",
    "compile_for_training",
    "crossentropy_per_token",
    "device_report",
    "enable_lora",
    "fit",
    "make_layout_map",
    "make_strategy",
    "merge_lora",
    "overlapping_windows",
    "place_parts",
    "read_captions",
    "read_images",
]
