# Only what keras_attn and keras_attn_runtime use: LiteRT has no type information.
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

class Details(TypedDict):
    name: str
    index: int
    shape: npt.NDArray[np.int32]
    shape_signature: npt.NDArray[np.int32]
    dtype: type[np.generic]

class SignatureRunner:
    def __call__(self, **kwargs: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]: ...
    def get_input_details(self) -> dict[str, Details]: ...
    def get_output_details(self) -> dict[str, Details]: ...

class Interpreter:
    def __init__(
        self,
        model_path: str | None = None,
        model_content: bytes | None = None,
        *,
        num_threads: int | None = None,
    ) -> None: ...
    def get_signature_list(self) -> dict[str, dict[str, list[str]]]: ...
    def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner: ...
