// RUN: pipeline-opt %s --expand-scalar-functions | filecheck %s

// The rest of the argument by a product of integers, in one loop; unknown sizes are those of the operand.
// CHECK-LABEL: func.func @sine
// CHECK:         %[[X:.*]] = torch_c.to_builtin_tensor %arg0 : !torch.vtensor<[?,4],f32> -> tensor<?x4xf32>
// CHECK:         %[[N:.*]] = tensor.dim %[[X]]
// CHECK:         tensor.empty(%[[N]]) : tensor<?x4xf32>
// CHECK:         %[[R:.*]] = linalg.generic
// CHECK:           arith.bitcast %{{.*}} : f32 to i32
// CHECK:           arith.extui %{{.*}} : i32 to i64
// CHECK:           linalg.yield
// CHECK:         torch_c.from_builtin_tensor %[[R]] : tensor<?x4xf32> -> !torch.vtensor<[?,4],f32>
func.func @sine(%arg0: !torch.vtensor<[?,4],f32>) -> !torch.vtensor<[?,4],f32> {
  %0 = torch.aten.sin %arg0 : !torch.vtensor<[?,4],f32> -> !torch.vtensor<[?,4],f32>
  return %0 : !torch.vtensor<[?,4],f32>
}

// In f64 the words are of 64 bits.
// CHECK-LABEL: func.func @cosine
// CHECK:         arith.muli %{{.*}}, %{{.*}} : i64
func.func @cosine(%arg0: !torch.vtensor<[],f64>) -> !torch.vtensor<[],f64> {
  %0 = torch.aten.cos %arg0 : !torch.vtensor<[],f64> -> !torch.vtensor<[],f64>
  return %0 : !torch.vtensor<[],f64>
}

// As many digits of the quotient at a time as a word holds. Integers are left to torch-mlir.
// CHECK-LABEL: func.func @remainder
// CHECK:         scf.while
// CHECK:           arith.remui
// CHECK:         torch.aten.remainder.Tensor %arg2, %arg3
func.func @remainder(%arg0: !torch.vtensor<[3],f64>, %arg1: !torch.vtensor<[3],f64>, %arg2: !torch.vtensor<[3],si64>, %arg3: !torch.vtensor<[3],si64>) -> (!torch.vtensor<[3],f64>, !torch.vtensor<[3],si64>) {
  %0 = torch.aten.remainder.Tensor %arg0, %arg1 : !torch.vtensor<[3],f64>, !torch.vtensor<[3],f64> -> !torch.vtensor<[3],f64>
  %1 = torch.aten.remainder.Tensor %arg2, %arg3 : !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64> -> !torch.vtensor<[3],si64>
  return %0, %1 : !torch.vtensor<[3],f64>, !torch.vtensor<[3],si64>
}

// Rounds of additions, rotations and exclusive ors: one loop with two results.
// CHECK-LABEL: func.func @threefry
// CHECK:         %[[R:.*]]:2 = linalg.generic
// CHECK-COUNT-20: arith.shrui
// CHECK-NOT:     arith.shrui
// CHECK:         linalg.yield %{{.*}}, %{{.*}} : i32, i32
func.func @threefry(%arg0: !torch.vtensor<[3],si32>, %arg1: !torch.vtensor<[3],si32>) -> (!torch.vtensor<[3],si32>, !torch.vtensor<[3],si32>) {
  %0:2 = torch.operator "torch.pipeline.threefry"(%arg0, %arg0, %arg1, %arg1) : (!torch.vtensor<[3],si32>, !torch.vtensor<[3],si32>, !torch.vtensor<[3],si32>, !torch.vtensor<[3],si32>) -> (!torch.vtensor<[3],si32>, !torch.vtensor<[3],si32>)
  return %0#0, %0#1 : !torch.vtensor<[3],si32>, !torch.vtensor<[3],si32>
}
