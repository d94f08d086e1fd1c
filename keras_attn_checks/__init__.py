"""Checks of paths and names that need neither Keras nor a backend.

`keras_attn` and `keras_attn_commands` both use them. The commands call them first, because
`import keras_attn` imports Keras and its backend, which takes seconds. These modules import only
the standard library.
"""
