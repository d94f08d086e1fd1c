from os import PathLike
from typing import TYPE_CHECKING

from keras_attn.export._export_error import ExportError

if TYPE_CHECKING:
    import onnx

ALLOWED_OPERATORS = frozenset(
    """
    Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization
    BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast Ceil Clip Compress Concat Constant
    ConstantOfShape Conv ConvTranspose Cos Cosh CumSum DepthToSpace DequantizeLinear Det Div
    DynamicQuantizeLinear Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements
    GatherND Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual HardSigmoid HardSwish
    Identity If IsInf IsNaN LSTM LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax
    Loop MatMul MatMulInteger Max MaxPool Min Mod Mul Neg NonZero Not OneHot Or PRelu Pad Pow
    QuantizeLinear
    RNN Range Reciprocal ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare Relu Reshape Resize ReverseSequence Round ScatterElements ScatterND Selu
    Shape Sigmoid Sign Sin Sinh Size Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt
    Squeeze Sub Sum Tan Tanh ThresholdedRelu Tile TopK Transpose Trilu Unique Unsqueeze Where
    Xor
    """.split()
)
"""Operators of the standard domain that an exported file may contain. Excluded are Einsum (slow in
all runtimes), random operators (an export is deterministic), strings and sequences."""


def check_model(model: "onnx.ModelProto", path: str | PathLike[str] | None = None) -> None:
    """Raises an error for an invalid model and for operators that some ONNX runtimes lack.

    Args:
        model: `onnx.ModelProto`.
        path: Path of the file of the model, or `None`. External weights are in the same directory.

    Raises:
        ExportError: If an operator is not in `ALLOWED_OPERATORS` or not in the standard domain, or
            `onnx.checker` finds the model invalid.
    """
    import onnx

    from keras_attn.export._passes.graph import nested_graphs

    foreign = sorted(
        {
            f"{node.domain or 'ai.onnx'}:{node.op_type}"
            for graph in nested_graphs(model.graph)
            for node in graph.node
            if node.domain not in ("", "ai.onnx") or node.op_type not in ALLOWED_OPERATORS
        }
    )
    if foreign:
        raise ExportError(
            "Expected only operators that keras_attn exports. Received: a model with the operators "
            f"{foreign}. Replace the layers that use these operators."
        )
    try:
        onnx.checker.check_model(model if path is None else path, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ExportError(f"onnx.checker refuses the converted model: {error}") from error
