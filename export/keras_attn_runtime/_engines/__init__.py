"""The engines that run exported files: ONNX Runtime and LiteRT, behind one interface."""
