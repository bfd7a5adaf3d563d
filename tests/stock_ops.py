"""Ops that exports may use, all of them in TensorFlow Serving 2.20.

Each was looked up in the op registry of TensorFlow 2.20.0 on 2026-11-22, with the
attributes of the nodes. Look up an op there before you add it: a server refuses a
version whose graph has an op that it does not know.
"""

CORE_OPS = frozenset(
    """
    AddN AddV2 All Any Assert AssignVariableOp BatchMatMulV2 BiasAdd BroadcastTo
    Cast ConcatV2 Const Cos Cumsum DenseBincount DisableCopyOnRead Empty EnsureShape
    Equal ExpandDims Fill FloorDiv FloorMod GatherV2 Greater GreaterEqual Identity
    If InplaceUpdate IsNan Less LessEqual Log LogicalAnd LogicalNot LogicalOr
    LowerBound MatMul Max Maximum Mean MergeV2Checkpoints Min Minimum Mul Neg NoOp
    NotEqual OnesLike Pack Pad PadV2 PartitionedCall Placeholder
    PlaceholderWithDefault Pow Prod RaggedGather RaggedRange RaggedTensorToTensor
    Range ReadVariableOp RealDiv ReduceJoin Relu Reshape RestoreV2 ReverseSequence
    Rsqrt SaveV2 Select SelectV2 Shape ShardedFilename Sin Size Softmax
    SparseSoftmaxCrossEntropyWithLogits SplitV SquaredDifference Squeeze
    StatefulPartitionedCall StatelessWhile StaticRegexFullMatch StaticRegexReplace
    StopGradient StridedSlice StringJoin StringLength StringSplitV2 StringStrip Sub
    Substr Sum TensorListFromTensor TensorListGetItem TensorListReserve
    TensorListSetItem TensorListStack TensorScatterUpdate Tile TopKV2 Transpose
    UnicodeTranscode Unpack VarHandleOp Where While ZerosLike
    """.split()
)
# From TensorFlow Text 2.20.1.
TOKENIZER_OPS = frozenset({"SentencepieceOp", "SentencepieceTokenizeOp"})
