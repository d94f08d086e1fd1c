import dataclasses


@dataclasses.dataclass(frozen=True)
class ModelCard:
    """Describes a model for the users of an exported file.

    The export functions write the values to the metadata of the file. In `keras_attn_runtime`, the
    attribute `settings` of a `Translator` contains the values.

    Args:
        source_language: String, a BCP 47 tag such as `"en"`. Defaults to `None`: unknown.
        target_language: String, a BCP 47 tag. Defaults to `None`: unknown.
        license: String, an SPDX license expression such as `"Apache-2.0"`. Defaults to `None`:
            unknown.
        data: String, the training data and their license. Defaults to `None`: unknown.
        recipe: String, how the model was trained, for example the command. Defaults to `None`:
            unknown.

    Raises:
        ValueError: If a value is not a string.

    Example:

    >>> from keras_attn.training import ModelCard
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
                raise ValueError(
                    f"Expected {name} to be a string. Received: {name}={value!r}. Omit {name} if "
                    "its value is unknown."
                )

    def entries(self) -> dict[str, str]:
        """Returns a dict of the known values."""
        return {name: value for name, value in vars(self).items() if value is not None}
