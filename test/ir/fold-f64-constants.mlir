// RUN: pipeline-opt %s --pass-pipeline='builtin.module(fold-f64-constants,canonicalize)' | filecheck %s

#id = affine_map<(d0) -> (d0)>

// Rounded once here, instead of in each element; beyond f32's range it is infinite, as a narrowing gives.
// CHECK-LABEL: func.func @narrowed
// CHECK-NOT: f64
func.func @narrowed(%x: tensor<3xf32>, %out: tensor<3xf32>) -> tensor<3xf32> {
  %eps = arith.constant 1.0e-05 : f64
  %big = arith.constant 1.0e+300 : f64
  // CHECK-DAG: arith.constant 9.99999974E-6 : f32
  // CHECK-DAG: arith.constant 0x7F800000 : f32
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<3xf32>) outs(%out : tensor<3xf32>) {
  ^bb0(%a: f32, %b: f32):
    %e = arith.truncf %eps : f64 to f32
    %f = arith.truncf %big : f64 to f32
    %s = arith.addf %a, %e : f32
    %t = arith.addf %s, %f : f32
    linalg.yield %t : f32
  } -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// A comparison is narrowed only where the constant is exact in f32.
// CHECK-LABEL: func.func @compared
func.func @compared(%x: tensor<3xf32>, %out: tensor<3xi1>) -> (tensor<3xi1>, tensor<3xi1>, tensor<3xi1>) {
  %inf = arith.constant 0xFFF0000000000000 : f64
  %tenth = arith.constant 1.0e-01 : f64
  %nan = arith.constant 0x7FF8000000000000 : f64
  // CHECK-DAG: %[[TENTH:.*]] = arith.constant 1.000000e-01 : f64
  // CHECK-DAG: %[[INF:.*]] = arith.constant 0xFF800000 : f32
  %0:3 = linalg.generic {indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<3xf32>) outs(%out, %out, %out : tensor<3xi1>, tensor<3xi1>, tensor<3xi1>) {
  // CHECK: ^bb0(%[[X:.*]]: f32,
  ^bb0(%a: f32, %b: i1, %c: i1, %d: i1):
    // CHECK: %[[WIDE:.*]] = arith.extf %[[X]] : f32 to f64
    %w = arith.extf %a : f32 to f64
    // CHECK: arith.cmpf oeq, %[[X]], %[[INF]] : f32
    %e = arith.cmpf oeq, %w, %inf : f64
    // CHECK: arith.cmpf ult, %[[TENTH]], %[[WIDE]] : f64
    %l = arith.cmpf ult, %tenth, %w : f64
    %n = arith.cmpf une, %w, %nan : f64
    linalg.yield %e, %l, %n : i1, i1, i1
  } -> (tensor<3xi1>, tensor<3xi1>, tensor<3xi1>)
  return %0#0, %0#1, %0#2 : tensor<3xi1>, tensor<3xi1>, tensor<3xi1>
}
