// RUN: pipeline-opt %s --pass-pipeline='builtin.module(define-control-flow)' | filecheck %s

func.func private @yes(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
func.func private @no(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
func.func private @less(tensor<i64>, tensor<?xf32>, tensor<4xf32>) -> tensor<i1>
func.func private @grow(tensor<i64>, tensor<?xf32>, tensor<4xf32>) -> (tensor<i64>, tensor<?xf32>)
func.func private @step(tensor<4xf32>, tensor<2x4xf32>) -> (tensor<4xf32>, tensor<2xi1>)

func.func private @branch(tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  attributes {pipeline.control = "cond", pipeline.bodies = [@yes, @no], pipeline.counts = [1, 1]}
func.func private @repeat(tensor<i64>, tensor<3xf32>, tensor<4xf32>) -> (tensor<i64>, tensor<?xf32>)
  attributes {pipeline.control = "while_loop", pipeline.bodies = [@less, @grow], pipeline.counts = [2, 1]}
func.func private @fold(tensor<4xf32>, tensor<?x2x4xf32>) -> (tensor<4xf32>, tensor<?x2xi1>)
  attributes {pipeline.control = "scan", pipeline.bodies = [@step], pipeline.counts = [1, 1, 0]}

// CHECK-LABEL: func.func private @branch
// CHECK: %[[TRUE:.*]] = tensor.extract %{{.*}}[] : tensor<i1>
// CHECK: scf.if %[[TRUE]]
// CHECK: func.call @yes
// CHECK: else
// CHECK: func.call @no

// What a loop carries has the types of its results.
// CHECK-LABEL: func.func private @repeat
// CHECK: tensor.cast %{{.*}} : tensor<3xf32> to tensor<?xf32>
// CHECK: scf.while
// CHECK: %[[MORE:.*]] = func.call @less
// CHECK: %[[GO:.*]] = tensor.extract %[[MORE]][] : tensor<i1>
// CHECK: scf.condition(%[[GO]])
// CHECK: func.call @grow

// CHECK-LABEL: func.func private @fold
// CHECK: %[[LENGTH:.*]] = tensor.dim
// CHECK: tensor.empty(%[[LENGTH]]) : tensor<?x2xi1>
// CHECK: scf.for %[[PLACE:.*]] = %{{.*}} to %[[LENGTH]]
// CHECK: tensor.extract_slice %{{.*}}[%[[PLACE]], 0, 0] [1, 2, 4] [1, 1, 1] : tensor<?x2x4xf32> to tensor<2x4xf32>
// CHECK: func.call @step
// CHECK: tensor.insert_slice %{{.*}}[%[[PLACE]], 0] [1, 2] [1, 1] : tensor<2xi1> into tensor<?x2xi1>
