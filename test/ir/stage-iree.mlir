// RUN: pipeline-opt %s --from linalg --to iree | filecheck %s

// A weight is a parameter named after the model's tensor; a tied one is read once per function.
// bool is stored as bytes and complex as two floats: IREE reads no other form from a weights file.
// CHECK-DAG: util.global private @weight_0 = #flow.parameter.named<"model"::"fc.weight"> : tensor<4x4xf32>
// CHECK-DAG: util.global private @[[MASK:.*]] = #flow.parameter.named<"model"::"mask"> : tensor<4xi8>
// CHECK-DAG: util.global private @[[Z:.*]] = #flow.parameter.named<"model"::"z"> : tensor<2x2xf32>
// CHECK-DAG: util.global private @[[CACHE:.*]] = #flow.parameter.named<"model"::"cache"> : tensor<4x4xf32>

// The state stays an argument, whose storage the last result takes; weights are arguments no more.
// CHECK:       func.func @main(%arg0: tensor<4x4xf32>, %arg1: tensor<4x4xf32> {iree.abi.output = 4 : index}) -> (tensor<4x4xf32>, tensor<4xi1>
// CHECK-SAME:    iree.reflection = {pipeline.manifest = "{}"}
// CHECK:         call @read_weight_0() : () -> tensor<4x4xf32>
func.func @main(%arg0: tensor<4x4xf32> {pipeline.input = "x"}, %arg1: tensor<4x4xf32> {pipeline.state = "cache"}, %arg2: tensor<4x4xf32> {pipeline.weight = "fc.weight"}, %arg3: tensor<4xi1> {pipeline.weight = "mask"}, %arg4: tensor<2xcomplex<f32>> {pipeline.weight = "z"}, %arg5: tensor<0x3xf32> {pipeline.weight = "nothing"}) -> (tensor<4x4xf32>, tensor<4xi1>, tensor<2xcomplex<f32>>, tensor<0x3xf32>, tensor<4x4xf32>) attributes {pipeline.state_outputs = ["cache"]} {
  %0 = arith.addf %arg0, %arg2 : tensor<4x4xf32>
  %1 = arith.addf %arg1, %0 : tensor<4x4xf32>
  return %0, %arg3, %arg4, %arg5, %1 : tensor<4x4xf32>, tensor<4xi1>, tensor<2xcomplex<f32>>, tensor<0x3xf32>, tensor<4x4xf32>
}

// Another entry point that only reads the state: the argument keeps its own storage.
// CHECK:       func.func @read(%arg0: tensor<4x4xf32>) -> tensor<4x4xf32>
func.func @read(%arg0: tensor<4x4xf32> {pipeline.state = "cache"}) -> tensor<4x4xf32> attributes {pipeline.state_outputs = []} {
  %0 = arith.mulf %arg0, %arg0 : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// An argument is used once more at the end: IREE computes in an argument's memory after its last use, and
// the caller's tensor must not change. One that the model changes itself may be used so.
// CHECK:       func.func @keep(%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xf32>)
// CHECK-NOT:     util.optimization_barrier %[[Y]]
// CHECK:         util.optimization_barrier %[[X]] : tensor<4xf32>
// CHECK-NOT:     util.optimization_barrier %[[Y]]
// CHECK:         return
func.func @keep(%arg0: tensor<4xf32> {pipeline.input = "x"}, %arg1: tensor<4xf32> {pipeline.input = "y", pipeline.changed}) -> (tensor<4xf32>, tensor<4xf32>) attributes {pipeline.state_outputs = []} {
  %0 = arith.negf %arg0 : tensor<4xf32>
  %1 = arith.addf %arg0, %arg1 : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// CHECK:       func.func private @read_{{.*}}() -> tensor<0x3xf32>
// CHECK:         tensor.empty() : tensor<0x3xf32>
// CHECK:       func.func @initial_state() -> tensor<4x4xf32>
