// RUN: pipeline-opt %s --expand-scalar-functions | filecheck %s

// The rest of the argument by a product of integers, in one loop; unknown sizes are those of the operand.
// CHECK-LABEL: func.func @sine
// CHECK:         %[[X:.*]] = torch_c.to_builtin_tensor %arg0 : !torch.vtensor<[?,4],f32> -> tensor<?x4xf32>
// CHECK:         %[[N:.*]] = tensor.dim %[[X]]
// CHECK:         tensor.empty(%[[N]]) : tensor<?x4xf32>
// CHECK:         %[[R:.*]] = linalg.generic
// CHECK:           arith.bitcast %{{.*}} : f32 to i32
// CHECK:           arith.mului_extended
// CHECK:           linalg.yield
// CHECK:         torch_c.from_builtin_tensor %[[R]] : tensor<?x4xf32> -> !torch.vtensor<[?,4],f32>
func.func @sine(%arg0: !torch.vtensor<[?,4],f32>) -> !torch.vtensor<[?,4],f32> {
  %0 = torch.aten.sin %arg0 : !torch.vtensor<[?,4],f32> -> !torch.vtensor<[?,4],f32>
  return %0 : !torch.vtensor<[?,4],f32>
}

// In f64 the words are of 64 bits.
// CHECK-LABEL: func.func @cosine
// CHECK:         arith.mului_extended %{{.*}}, %{{.*}} : i64
func.func @cosine(%arg0: !torch.vtensor<[],f64>) -> !torch.vtensor<[],f64> {
  %0 = torch.aten.cos %arg0 : !torch.vtensor<[],f64> -> !torch.vtensor<[],f64>
  return %0 : !torch.vtensor<[],f64>
}
