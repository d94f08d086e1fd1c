class ConversionError(ValueError):
    """A checkpoint cannot be converted exactly. The message contains the reason and advice.

    Args:
        *messages: Strings, one for each problem in the checkpoint.

    Attributes:
        messages: Tuple of these strings.
    """

    def __init__(self, *messages: str) -> None:
        self.messages = messages
        text = " ".join(messages)
        if len(messages) > 1:
            numbered = (f"({number}) {text}" for number, text in enumerate(messages, start=1))
            text = (
                "Expected a checkpoint that can be converted exactly. Received: "
                f"{len(messages)} problems. {' '.join(numbered)}"
            )
        super().__init__(text)
