"""Checks of paths and names that `keras_attn` and `keras_attn_commands` share.

The modules of this package import only the standard library. A command runs these checks before it
imports `keras_attn`, because importing Keras and its backend takes seconds.
"""
