"""Losses, metrics, schedules, callbacks and device strategies for training sequence models."""

from keras_attn.training._average_weights import AverageWeights
from keras_attn.training._best_checkpoint import BestCheckpoint
from keras_attn.training._bleu_callback import BleuCallback
from keras_attn.training._carry_states import CarryStates
from keras_attn.training._clipped_adam import ClippedAdam
from keras_attn.training._compile_for_training import compile_for_training
from keras_attn.training._consecutive_windows import ConsecutiveWindows
from keras_attn.training._crossentropy_per_token import crossentropy_per_token
from keras_attn.training._enable_lora import enable_lora, merge_lora
from keras_attn.training._fit import fit
from keras_attn.training._image_format import ImageFormat
from keras_attn.training._inverse_square_root_schedule import InverseSquareRootSchedule
from keras_attn.training._layout_map import layout_map
from keras_attn.training._linear_crossentropy import linear_crossentropy
from keras_attn.training._loss_scale_optimizer import LossScaleOptimizer
from keras_attn.training._model_card import ModelCard
from keras_attn.training._place_parts import device_report, place_parts
from keras_attn.training._run_directory import RunDirectory
from keras_attn.training._scheduled_sampling import ScheduledSampling
from keras_attn.training._sequence_crossentropy import SequenceCrossentropy
from keras_attn.training._series_columns import SeriesColumns
from keras_attn.training._strategy import strategy
from keras_attn.training._token_metrics import Perplexity, TokenAccuracy, TokenCrossentropy
from keras_attn.training._training_checkpoint import TrainingCheckpoint

__all__ = [
    "AverageWeights",
    "BestCheckpoint",
    "BleuCallback",
    "CarryStates",
    "ClippedAdam",
    "ConsecutiveWindows",
    "ImageFormat",
    "InverseSquareRootSchedule",
    "LossScaleOptimizer",
    "ModelCard",
    "Perplexity",
    "RunDirectory",
    "ScheduledSampling",
    "SequenceCrossentropy",
    "SeriesColumns",
    "TokenAccuracy",
    "TokenCrossentropy",
    "TrainingCheckpoint",
    "compile_for_training",
    "crossentropy_per_token",
    "device_report",
    "enable_lora",
    "fit",
    "layout_map",
    "linear_crossentropy",
    "merge_lora",
    "place_parts",
    "strategy",
]
