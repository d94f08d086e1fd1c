import importlib.util


def require_originals() -> None:
    """Checks that PyTorch and transformers are installed, without importing them.

    Raises:
        ImportError: If PyTorch or transformers is not installed.
    """
    for name in ("torch", "transformers"):
        if importlib.util.find_spec(name) is None:
            raise ImportError(
                "Expected PyTorch and transformers, to run the original model. Received: "
                f"{name}, which is not installed. Install them with `pip install "
                "'.[verify]'` in a checkout."
            )
