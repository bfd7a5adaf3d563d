"""Ops that exports may use, all of them in TensorFlow Serving 2.20.

Each was looked up in the op registry of TensorFlow 2.20.0, with the attributes of the
nodes. Look up an op there before you add it: a server refuses a version whose graph
has an op that it does not know.
"""

CORE_OPS = frozenset(
    """
    Abs AddN AddV2 All Any ArgMax Assert AssignVariableOp BatchMatMulV2 BiasAdd Bitcast
    BitwiseXor BroadcastTo Cast ConcatV2 Const Cos Cumsum DenseBincount
    DisableCopyOnRead Empty EnsureShape Equal Exp ExpandDims Fill FloorDiv FloorMod
    GatherV2 Greater GreaterEqual HashTableV2 Identity If InplaceUpdate IsFinite
    IsNan Less LessEqual Log Log1p LogSoftmax LogicalAnd LogicalNot LogicalOr
    LookupTableFindV2 LookupTableImportV2 LowerBound MatMul Max Maximum Mean
    MergeV2Checkpoints Min Minimum Mul Neg NoOp NotEqual OneHot OnesLike Pack Pad
    PadV2 PartitionedCall
    Placeholder PlaceholderWithDefault Pow Prod RaggedGather RaggedRange
    RaggedTensorToTensor Range ReadVariableOp RealDiv ReduceJoin Relu Reshape
    RestoreV2 ReverseSequence RightShift Round Rsqrt SaveV2 ScatterNd Select SelectV2
    Shape ShardedFilename Sin Size Softmax SparseSoftmaxCrossEntropyWithLogits
    SplitV SquaredDifference Squeeze StatefulPartitionedCall StatelessWhile
    StaticRegexFullMatch StaticRegexReplace StopGradient StridedSlice StringJoin
    StringLength StringSplitV2 StringStrip Sub Substr Sum TensorListFromTensor
    TensorListGetItem TensorListReserve TensorListSetItem TensorListStack
    TensorScatterUpdate Tile TopKV2 Transpose UnicodeTranscode Unpack
    UnsortedSegmentSum VarHandleOp Where While ZerosLike
    """.split()
)
# With kernels only where TensorFlow uses oneDNN: those of int8 exports.
ONEDNN_OPS = frozenset({"QuantizedMatMulWithBiasAndDequantize"})
# From TensorFlow Text 2.20.1.
TOKENIZER_OPS = frozenset({"SentencepieceOp", "SentencepieceTokenizeOp"})
