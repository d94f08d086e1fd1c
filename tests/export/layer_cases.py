"""Cases of `keras.layers`, see `operation_cases`."""

import keras
from keras import layers

from tests.export.operation_cases import MATRIX, Values, add, x

RATES = {"dropout": 0.2, "recurrent_dropout": 0.2}
VIDEO = (None, 3, 6, 6, 2)
VOLUME = (None, 4, 4, 4, 2)
PHOTO = (None, 6, 6, 3)
ALIASES = {
    f"{name}{rank}D": f"{other}{rank}D"
    for name, other in {
        "AvgPool": "AveragePooling",
        "MaxPool": "MaxPooling",
        "GlobalAvgPool": "GlobalAveragePooling",
        "GlobalMaxPool": "GlobalMaxPooling",
        "Convolution": "Conv",
    }.items()
    for rank in (1, 2, 3)
} | {
    f"{name}{rank}D{end}": f"{other}{rank}D{end}"
    for name, other, end, ranks in (
        ("Convolution", "Conv", "Transpose", (1, 2, 3)),
        ("SeparableConvolution", "SeparableConv", "", (1, 2)),
    )
    for rank in ranks
}


def layer(name, *arguments, inputs=(), label="", hard=False, call=None, **options):
    """Adds a case of a layer, which is created again for each model."""
    inputs = inputs or (x(),)

    def make():
        return getattr(layers, name)(*arguments, **options)

    def function(*tensors, made=[]):  # noqa: B006, one layer for all calls
        if not made:
            keras.utils.set_random_seed(0)
            made.append(make())
        return made[0](*tensors) if call is None else call(made[0], *tensors)

    function.make, function.call = make, call
    add(f"layers.{name}", function, *inputs, label=label, hard=hard)


def image(shape=PHOTO, draw="byte"):
    return (x(draw=draw, shape=shape),)


# Core

layer("Dense", 3)
layer("Dense", 3, activation="gelu", label="gelu")
layer("EinsumDense", "abc,cd->abd", output_shape=(None, 3), bias_axes="d")
layer("Activation", "relu")
layer("Activation", "mish", label="mish")
layer("Activation", "exponential", label="exponential")
layer("Identity", hard=True)
layer("Lambda", lambda a: a * 2)
layer("Masking")
layer("Embedding", 9, 4, inputs=(x("int32", "9 ids", MATRIX),))
layer("ReversibleEmbedding", 9, 4, inputs=(x("int32", "9 ids", MATRIX),))
layer(
    "ReversibleEmbedding",
    9,
    4,
    inputs=(x("int32", "9 ids", MATRIX),),
    label="reverse",
    call=lambda made, ids: made(made(ids), reverse=True),
)
layer("ActivityRegularization", l2=0.1)
layer("Permute", (2, 1))
layer("RepeatVector", 3, inputs=(x(shape=MATRIX),))
layer("Reshape", (-1, 2), label="-1")
layer("Reshape", (2, 2), inputs=(x(shape=MATRIX),))
layer("Flatten", inputs=(x(shape=(None, 3, 4)),))
layer("Pipeline", [layers.Dense(3), layers.Dense(2)])
layer("SpectralNormalization", layers.Dense(3))
layer("TimeDistributed", layers.Dense(3))
layer("TimeDistributed", layers.Dense(3), inputs=(x(shape=(None, 5, 4)),), label="fixed time")
layer("TimeDistributed", layers.Conv2D(2, 3), inputs=(x(shape=VIDEO),), label="Conv2D")

# Activations

for name in ("ELU", "LeakyReLU", "PReLU", "ReLU", "Softmax"):
    options = {"shared_axes": [1]} if name == "PReLU" else {}
    layer(name, hard=name != "Softmax", **options)
layer("ReLU", 4.0, 0.1, 0.5, hard=True, label="all arguments")
layer("Softmax", axis=1, label="axis=1")
layer(
    "Softmax",
    inputs=(x(), x("bool", "bool")),
    label="mask",
    call=lambda made, a, m: made(a, mask=m),
)

# Merging

for name in ("Add", "Average", "Concatenate", "Maximum", "Minimum", "Multiply", "Subtract"):
    layer(name, inputs=(x(), x()), hard=True, call=lambda made, *tensors: made(list(tensors)))
layer("Dot", axes=2, inputs=(x(), x()), call=lambda made, *tensors: made(list(tensors)))
layer(
    "Dot",
    axes=1,
    normalize=True,
    inputs=(x(shape=MATRIX), x(shape=MATRIX)),
    call=lambda made, *t: made(list(t)),
    label="normalize",
)

# Normalization

layer("BatchNormalization")
layer("LayerNormalization")
layer("LayerNormalization", axis=1, inputs=(x(shape=(None, 5, 4)),), label="axis=1")
layer("RMSNormalization")
layer("GroupNormalization", 2)
layer("UnitNormalization")
layer("Normalization", mean=1.0, variance=2.0)

# Regularization

for name, options in {
    "Dropout": (0.3,),
    "AlphaDropout": (0.3,),
    "GaussianDropout": (0.3,),
    "GaussianNoise": (0.3,),
    "SpatialDropout1D": (0.3,),
}.items():
    layer(name, *options)
layer("SpatialDropout2D", 0.3, inputs=image())
layer("SpatialDropout3D", 0.3, inputs=(x(shape=VOLUME),))

# Attention

two = (x(), x())
for name in ("Attention", "AdditiveAttention"):
    layer(name, inputs=two, call=lambda made, *tensors: made(list(tensors)))
layer(
    "Attention",
    inputs=two,
    call=lambda made, *t: made(list(t), use_causal_mask=True),
    label="causal",
)
layer("MultiHeadAttention", 2, 3, inputs=two)
layer(
    "MultiHeadAttention",
    2,
    3,
    inputs=two,
    label="causal",
    call=lambda made, a, b: made(a, b, use_causal_mask=True),
)
layer(
    "MultiHeadAttention",
    2,
    3,
    inputs=(*two, x("bool", "bool", (None, None, None))),
    label="mask",
    call=lambda made, a, b, m: made(a, b, attention_mask=m[:, :1, :1]),
)
layer(
    "MultiHeadAttention",
    2,
    3,
    attention_axes=(2,),
    inputs=(x(shape=(None, 3, 5, 4)),),
    label="attention_axes",
    call=lambda made, a: made(a, a),
)
layer("GroupQueryAttention", 4, 2, 2, inputs=two)

# Recurrent layers

for name in ("LSTM", "GRU", "SimpleRNN"):
    layer(name, 3)
    layer(name, 3, return_sequences=True, go_backwards=True, label="sequences, backwards")
    layer(name, 3, return_state=True, label="states")
    layer(name, 3, **RATES, label="dropout")
    layer(
        name,
        3,
        inputs=(x(), x("bool", "bool", (None, None))),
        label="mask",
        call=lambda made, a, m: made(a, mask=m),
    )
    layer(name, 3, activation="relu", label="relu")
    layer(name, 3, unroll=True, inputs=(x(shape=(None, 5, 4)),), label="unrolled")
layer("GRU", 3, reset_after=False, label="reset_after=False")
layer("LSTM", 3, use_bias=False, label="without a bias")
layer("Bidirectional", layers.LSTM(3))
layer("Bidirectional", layers.GRU(3, return_sequences=True, **RATES), label="GRU, dropout")
layer("RNN", layers.StackedRNNCells([layers.LSTMCell(3), layers.GRUCell(2)]), label="stacked")
layer("RNN", layers.SimpleRNNCell(3), label="SimpleRNNCell")
for rank, shape in ((1, (None, 3, 6, 2)), (2, VIDEO), (3, (None, 3, 4, 4, 4, 2))):
    layer(f"ConvLSTM{rank}D", 2, 3, inputs=(x(shape=shape),))
layer("ConvLSTM2D", 2, 3, inputs=(x(shape=VIDEO),), return_sequences=True, **RATES, label="dropout")

# Convolutions and pooling

GRIDS = {1: (None, 8, 3), 2: PHOTO, 3: VOLUME}
for rank, shape in GRIDS.items():
    grid = {"inputs": (x(shape=shape),)}
    moving = {"inputs": (x(shape=(None,) * (rank + 1) + shape[-1:]),)}
    for padding in ("valid", "same"):
        options = {"padding": padding, "label": padding, **grid}
        layer(f"Conv{rank}D", 2, 3, **options)
        layer(f"Conv{rank}D", 2, 3, strides=2, **{**options, "label": f"{padding}, strides"})
        layer(f"Conv{rank}DTranspose", 2, 3, **options)
        layer(
            f"Conv{rank}DTranspose", 2, 3, strides=2, **{**options, "label": f"{padding}, strides"}
        )
        layer(f"AveragePooling{rank}D", 2, **options)
        layer(f"MaxPooling{rank}D", 2, **options)
        if rank < 3:
            layer(f"DepthwiseConv{rank}D", 3, **options)
            layer(f"SeparableConv{rank}D", 2, 3, **options)
    if rank == 1:
        layer("Conv1D", 2, 3, padding="causal", label="causal", **grid)
    layer(f"Conv{rank}D", 2, 3, padding="same", label="dynamic", **moving)
    layer(f"Conv{rank}DTranspose", 2, 3, padding="same", strides=2, label="dynamic", **moving)
    layer(f"MaxPooling{rank}D", 2, padding="same", label="dynamic", **moving)
    layer(f"AveragePooling{rank}D", 2, padding="same", label="dynamic", **moving)
    layer(f"Conv{rank}D", 2, 2, dilation_rate=2, label="dilated", **grid)
    for kind in ("Average", "Max"):
        layer(f"Global{kind}Pooling{rank}D", **grid)
        layer(f"Adaptive{kind}Pooling{rank}D", 2, **grid)
    layer(f"Cropping{rank}D", 1, **grid)
    layer(f"ZeroPadding{rank}D", 1, **grid)
    layer(f"UpSampling{rank}D", 2, **grid)
layer(
    "GlobalAveragePooling1D",
    inputs=(x(), x("bool", "bool", (None, None))),
    label="mask",
    call=lambda made, a, m: made(a, mask=m),
)
for mode in ("bilinear", "bicubic"):
    layer("UpSampling2D", 2, interpolation=mode, inputs=image(), label=mode)
layer(
    "Conv2D",
    2,
    3,
    data_format="channels_last",
    groups=1,
    inputs=image(),
    activation="relu",
    label="relu",
)

# Preprocessing

layer("Rescaling", 1 / 255, inputs=image())
for mode in ("bilinear", "nearest", "bicubic", "lanczos3", "area"):
    layer("Resizing", 4, 5, interpolation=mode, inputs=image(), label=mode)
layer("Resizing", 4, 5, crop_to_aspect_ratio=True, inputs=image(), label="crop")
layer("CenterCrop", 4, 4, inputs=image())
layer("CategoryEncoding", 5, output_mode="multi_hot", inputs=(x("int32", "5 ids", MATRIX),))
layer(
    "CategoryEncoding",
    5,
    output_mode="one_hot",
    inputs=(x("int32", "5 ids", (None, 1)),),
    label="one hot",
)
layer(
    "CategoryEncoding", 5, output_mode="count", inputs=(x("int32", "5 ids", MATRIX),), label="count"
)
layer("Discretization", bin_boundaries=[-1.0, 0.0, 1.0])
layer(
    "HashedCrossing",
    5,
    inputs=(x("int32", "9 ids", (None,)), x("int32", "9 ids", (None,))),
    call=lambda made, *t: made(t),
)
layer("Hashing", 5, inputs=(x("int32", "9 ids", MATRIX),))
layer("IntegerLookup", vocabulary=[3, 5, 7], inputs=(x("int64", "9 ids", MATRIX),))
layer(
    "IntegerLookup",
    vocabulary=[3, 5, 7],
    output_mode="multi_hot",
    inputs=(x("int64", "9 ids", MATRIX),),
    label="multi hot",
)
layer(
    "IntegerLookup",
    vocabulary=[3, 5, 7],
    invert=True,
    inputs=(x("int64", "4 ids", MATRIX),),
    label="invert",
)
layer("StringLookup", vocabulary=["a", "b"], inputs=(Values(MATRIX, "string", "string"),))
layer(
    "StringLookup",
    vocabulary=["a", "b"],
    invert=True,
    inputs=(x("int64", "3 ids", MATRIX),),
    label="invert",
)
layer("TextVectorization", vocabulary=["a", "b"], inputs=(Values((None, 1), "string", "string"),))
layer(
    "MelSpectrogram",
    num_mel_bins=3,
    sequence_length=16,
    sequence_stride=8,
    fft_length=16,
    sampling_rate=100,
    max_freq=50,
    inputs=(x(shape=(None, 40)),),
)
layer(
    "STFTSpectrogram", frame_length=8, frame_step=4, fft_length=8, inputs=(x(shape=(None, 24, 1)),)
)
for name, arguments in {
    "AugMix": (),
    "AutoContrast": (),
    "ContrastLimitedAdaptiveHistogramEqualization": (),
    "CutMix": (),
    "Equalization": (),
    "MaxNumBoundingBoxes": (3,),
    "MixUp": (),
    "RandAugment": (),
    "RandomBrightness": (0.2,),
    "RandomColorDegeneration": (0.2,),
    "RandomColorJitter": (),
    "RandomContrast": (0.2,),
    "RandomCrop": (4, 4),
    "RandomElasticTransform": (),
    "RandomErasing": (),
    "RandomFlip": (),
    "RandomGaussianBlur": (),
    "RandomGrayscale": (),
    "RandomHue": (0.2,),
    "RandomInvert": (),
    "RandomPerspective": (),
    "RandomPosterization": (4,),
    "RandomRotation": (0.2,),
    "RandomSaturation": (0.2,),
    "RandomSharpness": (0.2,),
    "RandomShear": (0.2, 0.2),
    "RandomTranslation": (0.2, 0.2),
    "RandomZoom": (0.2,),
    "Solarization": (),
}.items():
    layer(name, *arguments, inputs=image())
