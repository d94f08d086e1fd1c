"""Losses, metrics, schedules, callbacks and device strategies for training sequence models."""

from keras_attn.training.average_weights import AverageWeights
from keras_attn.training.best_checkpoint import BestCheckpoint
from keras_attn.training.bleu_callback import BleuCallback
from keras_attn.training.carry_states import CarryStates
from keras_attn.training.clipped_adam import ClippedAdam
from keras_attn.training.compile_for_training import compile_for_training
from keras_attn.training.consecutive_windows import ConsecutiveWindows
from keras_attn.training.crossentropy_per_token import crossentropy_per_token
from keras_attn.training.enable_lora import enable_lora, merge_lora
from keras_attn.training.fit import fit
from keras_attn.training.image_format import ImageFormat
from keras_attn.training.inverse_square_root_schedule import InverseSquareRootSchedule
from keras_attn.training.layout_map import layout_map
from keras_attn.training.linear_crossentropy import linear_crossentropy
from keras_attn.training.loss_scale_optimizer import LossScaleOptimizer
from keras_attn.training.model_card import ModelCard
from keras_attn.training.place_parts import device_report, place_parts
from keras_attn.training.run_directory import RunDirectory
from keras_attn.training.scheduled_sampling import ScheduledSampling
from keras_attn.training.sequence_crossentropy import SequenceCrossentropy
from keras_attn.training.series_columns import SeriesColumns
from keras_attn.training.strategy import strategy
from keras_attn.training.token_metrics import Perplexity, TokenAccuracy, TokenCrossentropy
from keras_attn.training.training_checkpoint import TrainingCheckpoint

__all__ = [
    "AverageWeights",
    "BestCheckpoint",
    "BleuCallback",
    "CarryStates",
    "ClippedAdam",
    "ConsecutiveWindows",
    "InverseSquareRootSchedule",
    "LossScaleOptimizer",
    "ImageFormat",
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
