from types import ModuleType


def import_runtime() -> ModuleType:
    """Imports `keras_attn_runtime`, which reads CSV files and computes calendar columns.

    Training and exported files use the same code, so that a model reads the same numbers in both.
    The other functions of this package do not need it.
    """
    try:
        import keras_attn_runtime
    except ImportError as error:
        raise ImportError(
            f"Expected the package keras-attn-runtime, which reads CSV files. Received: {error}. "
            "Install it with `pip install ./export` in a checkout of keras-attn."
        ) from error
    return keras_attn_runtime
