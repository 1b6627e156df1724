// RUN: pipeline-opt %s --keep-nan-comparisons | filecheck %s
// RUN: pipeline-opt %s --pass-pipeline='builtin.module(keep-nan-comparisons,func.func(canonicalize))' | filecheck %s --check-prefix=CANONICAL

// CHECK-LABEL: func.func @equal
// CHECK:         %[[R:.*]] = torch.aten.le.Tensor %arg0, %arg0
// CHECK:         return %[[R]]
// Without the pass, canonicalization folds it to a constant.
// CANONICAL-LABEL: func.func @equal
// CANONICAL:         torch.aten.le.Tensor
func.func @equal(%arg0: !torch.vtensor<[3],f32>) -> !torch.vtensor<[3],i1> {
  %0 = torch.aten.eq.Tensor %arg0, %arg0 : !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32> -> !torch.vtensor<[3],i1>
  return %0 : !torch.vtensor<[3],i1>
}

// CHECK-LABEL: func.func @unequal
// CHECK:         %[[L:.*]] = torch.aten.le.Tensor %arg0, %arg0
// CHECK:         torch.aten.logical_not %[[L]]
func.func @unequal(%arg0: !torch.vtensor<[3],bf16>) -> !torch.vtensor<[3],i1> {
  %0 = torch.aten.ne.Tensor %arg0, %arg0 : !torch.vtensor<[3],bf16>, !torch.vtensor<[3],bf16> -> !torch.vtensor<[3],i1>
  return %0 : !torch.vtensor<[3],i1>
}

// Integers have no NaN, and two different tensors nothing to keep.
// CHECK-LABEL: func.func @untouched
// CHECK:         torch.aten.eq.Tensor %arg0, %arg0
// CHECK:         torch.aten.eq.Tensor %arg1, %arg2
func.func @untouched(%arg0: !torch.vtensor<[3],si64>, %arg1: !torch.vtensor<[3],f32>, %arg2: !torch.vtensor<[3],f32>) -> (!torch.vtensor<[3],i1>, !torch.vtensor<[3],i1>) {
  %0 = torch.aten.eq.Tensor %arg0, %arg0 : !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64> -> !torch.vtensor<[3],i1>
  %1 = torch.aten.eq.Tensor %arg1, %arg2 : !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32> -> !torch.vtensor<[3],i1>
  return %0, %1 : !torch.vtensor<[3],i1>, !torch.vtensor<[3],i1>
}
