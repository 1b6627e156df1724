// RUN: pipeline-opt %s --pass-pipeline='builtin.module(cse,keep-nan-comparisons,func.func(canonicalize))' --print-before=keep-nan-comparisons --print-after=canonicalize 2>&1 >/dev/null | filecheck %s
// RUN: not pipeline-opt %s --keep-nan-comparisons --print-after=cse 2>&1 | filecheck %s --check-prefix=ABSENT
// RUN: not pipeline-opt %s --pass-pipeline='builtin.module(func.func(cse,keep-nan-comparisons))' 2>&1 | filecheck %s --check-prefix=NESTED

// CHECK-NOT: IR before cse
// CHECK:     IR before keep-nan-comparisons
// CHECK:     torch.aten.eq.Tensor
// CHECK-NOT: IR after keep-nan-comparisons
// CHECK:     IR after func.func(canonicalize
// CHECK:     torch.aten.le.Tensor
// ABSENT: no pass 'cse' runs here; these do: keep-nan-comparisons
// NESTED: error: keep-nan-comparisons works on whole modules and cannot run inside 'func.func(...)'
func.func @equal(%arg0: !torch.vtensor<[3],f32>) -> !torch.vtensor<[3],i1> {
  %0 = torch.aten.eq.Tensor %arg0, %arg0 : !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32> -> !torch.vtensor<[3],i1>
  return %0 : !torch.vtensor<[3],i1>
}
