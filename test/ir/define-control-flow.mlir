// RUN: pipeline-opt %s --define-control-flow | filecheck %s

// A declared branch becomes one around calls of its bodies; what no attribute marks stays.
// CHECK-LABEL: func.func @main
// CHECK:         call @control.cond_0
// CHECK:       func.func private @other(tensor<4xf32>) -> tensor<4xf32>
// CHECK:       func.func private @control.cond_0(%[[P:.*]]: tensor<i1>, %[[X:.*]]: tensor<4xf32>) -> tensor<4xf32>
// CHECK:         %[[B:.*]] = tensor.extract %[[P]]
// CHECK:         scf.if %[[B]]
// CHECK:           call @yes(%[[X]])
// CHECK:         } else {
// CHECK:           call @no(%[[X]])
func.func @main(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @control.cond_0(%p, %x) : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @yes(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func private @no(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.negf %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @other(tensor<4xf32>) -> tensor<4xf32>
func.func private @control.cond_0(tensor<i1>, tensor<4xf32>) -> tensor<4xf32> attributes {pipeline.control = "cond", pipeline.bodies = [@yes, @no], pipeline.counts = [1, 1]}
