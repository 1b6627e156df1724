// RUN: pipeline-opt %s --from linalg --to iree | filecheck %s

// torch-mlir asserts that x of 1 / x is not zero, where eager gives infinity.
// CHECK:     linalg.generic
// CHECK-NOT: cf.assert
// CHECK:     arith.divf
#map = affine_map<(d0) -> (d0)>
func.func @main(%arg0: tensor<4xf32> {pipeline.input = "x"}) -> tensor<4xf32> attributes {pipeline.state_outputs = []} {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %0 = tensor.empty() : tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%arg0 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.cmpf one, %in, %zero : f32
    cf.assert %2, "unimplemented: tensor with zero element"
    %3 = arith.divf %one, %in : f32
    linalg.yield %3 : f32
  } -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
