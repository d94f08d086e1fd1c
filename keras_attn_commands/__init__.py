"""The commands of `keras-attn`, one module each.

They are a package of their own, because importing `keras_attn` imports Keras and its backend: a
module imports them in `run`, so that `--help` answers at once.

A module has `HELP` (one line), `DESCRIPTION`, `add_arguments(parser)` and `run(arguments)`, which
returns the exit status. `arguments.parser` is the parser of the command, for errors about
combinations of options.
"""
