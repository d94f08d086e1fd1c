"""Runs single steps of an export in tests."""

from keras_attn.export._passes.graph import copy_of
from keras_attn.export._trace import conversion
from keras_attn.export._trace.trace_function import trace


def convert(function, signature, weights):
    """Traces and converts a function, see `trace`."""
    return conversion.convert(trace(function, signature, weights))


def record_conversions(monkeypatch, name):
    """Returns a list to which an export function, such as "export_onnx", appends what it converts.

    `replace_conversion` with a recorded model exports it again, with other options.
    """
    conversions = []

    def convert_and_record(traced):
        conversions.append(conversion.convert(traced))
        return copy_of(conversions[-1])

    monkeypatch.setattr(f"keras_attn.export._formats.{name}.convert", convert_and_record)
    return conversions


def replace_conversion(monkeypatch, name, model):
    """Makes an export function, such as "export_onnx", write a copy of a model, which is faster."""
    module = f"keras_attn.export._formats.{name}"
    monkeypatch.setattr(f"{module}.trace", lambda *_: None)
    monkeypatch.setattr(f"{module}.convert", lambda _: copy_of(model))
