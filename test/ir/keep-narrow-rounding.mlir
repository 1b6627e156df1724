// RUN: pipeline-opt %s --keep-narrow-rounding | filecheck %s

#id = affine_map<(d0) -> (d0)>
#id2 = affine_map<(d0, d1) -> (d0, d1)>

// A bf16 is read by its bits: a sum of one would otherwise be of what was not rounded yet.
// CHECK-LABEL: func.func @wide
// CHECK-NOT: arith.extf
func.func @wide(%x: tensor<3xbf16>, %out: tensor<3xf32>) -> tensor<3xf32> {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<3xbf16>) outs(%out : tensor<3xf32>) {
  // CHECK: ^bb0(%[[X:.*]]: bf16,
  ^bb0(%a: bf16, %b: f32):
    // CHECK-DAG: %[[BITS:.*]] = arith.bitcast %[[X]] : bf16 to i16
    // CHECK-DAG: %[[LOW:.*]] = arith.extui %[[BITS]] : i16 to i32
    // CHECK-DAG: %[[SIXTEEN:.*]] = arith.constant 16 : i32
    // CHECK: %[[HIGH:.*]] = arith.shli %[[LOW]], %[[SIXTEEN]] : i32
    // CHECK: %[[WIDE:.*]] = arith.bitcast %[[HIGH]] : i32 to f32
    // CHECK: arith.addf %[[WIDE]], %[[WIDE]] : f32
    %w = arith.extf %a : bf16 to f32
    %s = arith.addf %w, %w : f32
    linalg.yield %s : f32
  } -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// Comparisons and conversions to whole numbers see the rounded value, too.
// CHECK-LABEL: func.func @looked_at
func.func @looked_at(%x: bf16, %y: bf16) -> (i1, i32, f64) {
  // CHECK: arith.cmpf olt, %{{.*}}, %{{.*}} : f32
  // CHECK: arith.fptosi %{{.*}} : f32 to i32
  // CHECK: arith.extf %{{.*}} : f32 to f64
  %c = arith.cmpf olt, %x, %y : bf16
  %i = arith.fptosi %x : bf16 to i32
  %d = arith.extf %x : bf16 to f64
  return %c, %i, %d : i1, i32, f64
}

// CHECK-LABEL: func.func @narrow
func.func @narrow(%x: f32) -> (f16, bf16) {
  // CHECK: arith.truncf %{{.*}} to_nearest_even : f32 to f16
  // CHECK: arith.truncf %{{.*}} : f32 to bf16
  %h = arith.truncf %x : f32 to f16
  %b = arith.truncf %x : f32 to bf16
  return %h, %b : f16, bf16
}

// IREE looks for the conversions of a product's operands. Another reader of the same tensor gets one of its own.
// CHECK-LABEL: func.func @product
func.func @product(%x: tensor<4x4xbf16>, %f: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  // CHECK: %[[OWN:.*]] = linalg.generic
  // CHECK: arith.bitcast
  // CHECK: %[[OPERAND:.*]] = linalg.generic
  // CHECK: arith.extf
  %w = linalg.generic {indexing_maps = [#id2, #id2], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x4xbf16>) outs(%f : tensor<4x4xf32>) {
  ^bb0(%a: bf16, %b: f32):
    %e = arith.extf %a : bf16 to f32
    linalg.yield %e : f32
  } -> tensor<4x4xf32>
  // CHECK: linalg.matmul ins(%[[OPERAND]], %[[OPERAND]]
  %p = linalg.matmul ins(%w, %w : tensor<4x4xf32>, tensor<4x4xf32>) outs(%f : tensor<4x4xf32>) -> tensor<4x4xf32>
  // CHECK: linalg.generic {{.*}} ins(%[[OWN]] :
  %n = linalg.generic {indexing_maps = [#id2, #id2], iterator_types = ["parallel", "parallel"]}
      ins(%w : tensor<4x4xf32>) outs(%f : tensor<4x4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %e = arith.negf %a : f32
    linalg.yield %e : f32
  } -> tensor<4x4xf32>
  return %p, %n : tensor<4x4xf32>, tensor<4x4xf32>
}
