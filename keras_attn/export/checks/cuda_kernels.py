"""Operators for which ONNX Runtime has CUDA kernels."""

_FLOATS = ("FLOAT", "FLOAT16")
_NUMBERS = (*_FLOATS, "INT32", "INT64")
_BYTES = ("INT8", "UINT8")
_ALL = (*_NUMBERS, *_BYTES, "BOOL")

_TYPES = {
    _ALL: """
        Cast Compress Concat Constant ConstantOfShape Expand Flatten Gather GatherElements Identity
        If Loop Reshape ReverseSequence ScatterElements ScatterND Shape Size Slice Split Squeeze
        Transpose Trilu Unsqueeze""",
    (*_NUMBERS, *_BYTES): "Abs Add Div Mul ReduceMin Sign Sub",
    (*_NUMBERS, "INT8"): "Neg",
    (*_NUMBERS, "UINT8"): "Where",
    (*_NUMBERS, "UINT8", "BOOL"): "NonZero",
    (*_NUMBERS, "BOOL"): "Equal",
    _NUMBERS: """
        CumSum Greater GreaterOrEqual Less LessOrEqual Max Min Mod Pow ReduceMax ReduceSum Tile
        TopK""",
    (*_FLOATS, "INT64", "BOOL"): "GatherND",
    (*_FLOATS, "INT64", *_BYTES): "Clip",
    (*_FLOATS, "INT32", "UINT8"): "Resize",
    (*_FLOATS, "INT64"): "OneHot",
    (*_FLOATS, "INT32"): "ReduceL2 ReduceMean ReduceProd",
    (*_FLOATS, "BOOL"): "Pad",
    ("FLOAT", "INT32", "INT64"): "EyeLike Range",
    _FLOATS: """
        ArgMax ArgMin AveragePool BatchNormalization Ceil Conv ConvTranspose Cos DepthToSpace Elu
        Erf Exp Floor GRU Gemm GlobalAveragePool GlobalMaxPool HardSigmoid HardSwish IsNaN LSTM
        LayerNormalization LeakyRelu Log LogSoftmax MatMul MaxPool PRelu QuantizeLinear RNN
        Reciprocal ReduceSumSquare Relu Round Selu Sigmoid Sin Softmax Softplus Softsign
        SpaceToDepth Sqrt Sum
        Tanh ThresholdedRelu""",
    ("FLOAT",): "IsInf",
    ("BOOL",): "And Not Or Xor",
    ("INT8",): "MatMulInteger",
    ("INT4",): "DequantizeLinear",
    (): """
        Acos Acosh Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cosh
        Det DynamicQuantizeLinear Sinh Tan Unique""",
}

CUDA_KERNELS = {name: types for types, names in _TYPES.items() for name in names.split()}
"""Maps an operator to the element types for which ONNX Runtime has a CUDA kernel. The element type
is the type of the first input, or of the input in `TYPED_INPUT`. The table covers the operators of
opsets 18 and 21 and the element types that an exported file may contain.

Source: docs/OperatorKernels.md of microsoft/onnxruntime, main branch in March 2026 (commit 001d12d,
between 1.24 and 1.25)."""

TYPED_INPUT = {"OneHot": 2, "Where": 1}
"""Index of the input whose type selects the kernel, if it is not the first input."""

FILLS = ("ConstantOfShape", "Expand", "Range", "Tile")
"""Operators whose CUDA kernels read a shape on the CPU and fill a tensor on the GPU."""
