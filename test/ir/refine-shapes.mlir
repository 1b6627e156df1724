// RUN: pipeline-opt %s --refine-shapes=%S/Inputs/my_shapes.py --verify-refined | filecheck %s
// RUN: pipeline-opt %s --pass-pipeline='builtin.module(refine-shapes{library=%S/Inputs/my_shapes.py},verify-refined)' | filecheck %s

// A custom operator with list and optional arguments and two results, between operators that torch-mlir knows. The
// function's own type follows.
// CHECK-LABEL: func.func @chain
// CHECK-SAME:    -> (!torch.vtensor<[?,8],f16>, !torch.vtensor<[?],si64>)
func.func @chain(%x: !torch.vtensor<[?,5],f16>, %m: !torch.vtensor<[7],i1>) -> (!torch.vtensor, !torch.vtensor) {
  %int1 = torch.constant.int 1
  %int8 = torch.constant.int 8
  %none = torch.constant.none
  %to = torch.prim.ListConstruct %int1, %int8 : (!torch.int, !torch.int) -> !torch.list<int>
  // CHECK: torch.aten.tanh {{.*}} -> !torch.vtensor<[?,5],f16>
  %0 = torch.aten.tanh %x : !torch.vtensor<[?,5],f16> -> !torch.vtensor
  // CHECK: pad_and_count{{.*}} -> (!torch.vtensor<[?,8],f16>, !torch.vtensor<[?],si64>)
  %1:2 = torch.operator "torch.mylib.pad_and_count"(%0, %to, %none) : (!torch.vtensor, !torch.list<int>, !torch.none) -> (!torch.vtensor, !torch.vtensor)
  // CHECK: pad_and_count{{.*}} -> (!torch.vtensor<[?,8],f16>, !torch.vtensor<[7],si64>)
  %2:2 = torch.operator "torch.mylib.pad_and_count"(%1#0, %to, %m) : (!torch.vtensor, !torch.list<int>, !torch.vtensor<[7],i1>) -> (!torch.vtensor, !torch.vtensor)
  return %2#0, %1#1 : !torch.vtensor, !torch.vtensor
}

// A function returns what its last operation gives, and its calls follow, also where they come first.
// CHECK-LABEL: func.func @caller
// CHECK-SAME:    -> !torch.vtensor<[2,8],f32>
// CHECK:         call @called(%arg0) : (!torch.vtensor<[2,3],f32>) -> !torch.vtensor<[2,8],f32>
func.func @caller(%x: !torch.vtensor<[2,3],f32>) -> !torch.vtensor {
  %0 = call @called(%x) : (!torch.vtensor<[2,3],f32>) -> !torch.vtensor
  %1 = torch.aten.tanh %0 : !torch.vtensor -> !torch.vtensor
  return %1 : !torch.vtensor
}
// CHECK-LABEL: func.func private @called
// CHECK-SAME:    -> !torch.vtensor<[2,8],f32>
func.func private @called(%x: !torch.vtensor<[2,3],f32>) -> !torch.vtensor {
  %0 = call @inner(%x) : (!torch.vtensor<[2,3],f32>) -> !torch.vtensor
  return %0 : !torch.vtensor
}
func.func private @inner(%x: !torch.vtensor<[2,3],f32>) -> !torch.vtensor {
  %int1 = torch.constant.int 1
  %int8 = torch.constant.int 8
  %none = torch.constant.none
  %to = torch.prim.ListConstruct %int1, %int8 : (!torch.int, !torch.int) -> !torch.list<int>
  %0:2 = torch.operator "torch.mylib.pad_and_count"(%x, %to, %none) : (!torch.vtensor<[2,3],f32>, !torch.list<int>, !torch.none) -> (!torch.vtensor, !torch.vtensor)
  return %0#0 : !torch.vtensor
}
