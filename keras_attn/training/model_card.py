import dataclasses


@dataclasses.dataclass(frozen=True)
class ModelCard:
    """Describes a model for the people who get an exported file.

    The exporter writes these strings to the metadata of the file. They are in the `settings` of a
    `keras_attn_runtime.Translator`.

    Args:
        source_language: string, a BCP 47 tag such as `"en"`. Defaults to `None`: not known.
        target_language: string, as above.
        license: string, an SPDX expression such as `"Apache-2.0"`. Defaults to `None`.
        data: string, the training data and their license. Defaults to `None`.
        recipe: string, how the model was trained, such as the command. Defaults to `None`.

    Raises:
        ValueError: a value is no string.

    Example:

    >>> ModelCard(source_language="en", target_language="de", license="Apache-2.0").entries()
    {'source_language': 'en', 'target_language': 'de', 'license': 'Apache-2.0'}
    """

    source_language: str | None = None
    target_language: str | None = None
    license: str | None = None
    data: str | None = None
    recipe: str | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not isinstance(value, (str, type(None))):
                raise ValueError(f"Expected {name} to be a string. Received: {name}={value!r}.")

    def entries(self) -> dict[str, str]:
        """Dictionary of the values that are known."""
        return {name: value for name, value in vars(self).items() if value is not None}
