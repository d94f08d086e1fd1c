"""Runs single steps of an export in tests."""

from keras_attn.export._passes.graph import copy_of
from keras_attn.export._trace import conversion
from keras_attn.export._trace.trace_function import trace


def convert(function, signature, weights):
    """Traces and converts a function, see `trace`."""
    return conversion.convert(trace(function, signature, weights))


def replace_conversion(monkeypatch, name, model):
    """Makes an export function, such as "export_onnx", write a copy of a model, which is faster."""
    module = f"keras_attn.export._formats.{name}"
    monkeypatch.setattr(f"{module}.trace", lambda *_: None)
    monkeypatch.setattr(f"{module}.convert", lambda _: copy_of(model))
