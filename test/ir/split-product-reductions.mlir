// RUN: pipeline-opt %s --split-product-reductions | filecheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d1)>
#column = affine_map<(d0, d1) -> (d0)>
#none = affine_map<(d0, d1) -> ()>

// Each row of a matrix is multiplied with one row, and all is summed.
// CHECK-LABEL: func.func @rows
func.func @rows(%x: tensor<?x5xf32>, %w: tensor<5xf32>, %e: tensor<?x5xf32>, %zero: tensor<f32>) -> tensor<f32> {
  // CHECK: %[[PRODUCTS:.*]] = linalg.generic
  %p = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %w : tensor<?x5xf32>, tensor<5xf32>) outs(%e : tensor<?x5xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.mulf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<?x5xf32>
  // CHECK: %[[SIZE:.*]] = tensor.dim %[[PRODUCTS]], %{{.*}} : tensor<?x5xf32>
  // CHECK: %[[EMPTY:.*]] = tensor.empty(%[[SIZE]]) : tensor<?xf32>
  // CHECK: %[[ZEROS:.*]] = linalg.fill ins(%{{.*}} : f32) outs(%[[EMPTY]] : tensor<?xf32>)
  // CHECK: %[[SUMS:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%[[PRODUCTS]] : tensor<?x5xf32>) outs(%[[ZEROS]] : tensor<?xf32>)
  // CHECK: arith.addf
  // CHECK: linalg.generic {{.*}} iterator_types = ["reduction"]} ins(%[[SUMS]] : tensor<?xf32>) outs(%{{.*}} : tensor<f32>)
  %s = linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction", "reduction"]}
      ins(%p : tensor<?x5xf32>) outs(%zero : tensor<f32>) {
  ^bb0(%a: f32, %b: f32):
    %t = arith.addf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  return %s : tensor<f32>
}

// A column for each column, and sums that are not of products, stay whole.
// CHECK-LABEL: func.func @columns
// CHECK-NOT: iterator_types = ["parallel", "reduction"]
func.func @columns(%x: tensor<3x5xf32>, %w: tensor<3xf32>, %v: tensor<5xf32>, %e: tensor<3x5xf32>, %zero: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %p = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %w : tensor<3x5xf32>, tensor<3xf32>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.mulf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<3x5xf32>
  %s = linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction", "reduction"]}
      ins(%p : tensor<3x5xf32>) outs(%zero : tensor<f32>) {
  ^bb0(%a: f32, %b: f32):
    %t = arith.addf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  %q = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %v : tensor<3x5xf32>, tensor<5xf32>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.subf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<3x5xf32>
  %r = linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction", "reduction"]}
      ins(%q : tensor<3x5xf32>) outs(%zero : tensor<f32>) {
  ^bb0(%a: f32, %b: f32):
    %t = arith.addf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  return %s, %r : tensor<f32>, tensor<f32>
}
