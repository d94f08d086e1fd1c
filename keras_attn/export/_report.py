import dataclasses


@dataclasses.dataclass
class ExportReport:
    """Result of an export. `str(report)` is a summary.

    The exports of functional models and forecasters return an `ExportReport`. The other exports
    return a subclass with more results: `ParityReport`, `CTranslate2Report` or
    `TransformersReport`.

    Args:
        largest_difference: Float, largest difference between a number from the exported file and
            the same number from Keras. Defaults to `0.0`.

    Example:

    >>> from keras_attn.export import ExportReport
    >>> report = ExportReport(largest_difference=2e-6)
    >>> str(report)
    'Compared with Keras: largest difference 2.0e-06.'
    """

    largest_difference: float = dataclasses.field(default=0.0, kw_only=True)

    def summary(self) -> str:
        """Returns the sentences that the command `keras-attn export` prints."""
        return f"Compared with Keras: largest difference {self.largest_difference:.1e}."

    def __str__(self) -> str:
        return self.summary()
