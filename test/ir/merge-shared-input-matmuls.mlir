// RUN: pipeline-opt %s --merge-shared-input-matmuls | filecheck %s

// Biases are joined where each product has one.
// CHECK-LABEL: func.func @main
// CHECK:         torch.prim.ListConstruct %arg1, %arg2 : (!torch.vtensor<[8,5],f32>, !torch.vtensor<[8,3],f32>)
// CHECK:         %[[W:.*]] = torch.aten.cat {{.*}} -> !torch.vtensor<[8,8],f32>
// CHECK:         %[[Y:.*]] = torch.aten.mm %arg0, %[[W]]
// CHECK:         %[[B:.*]] = torch.aten.cat {{.*}} -> !torch.vtensor<[8],f32>
// CHECK:         %[[R:.*]] = torch.aten.add.Tensor %[[Y]], %[[B]]
// CHECK:         %[[LEFT:.*]] = torch.aten.slice.Tensor %[[R]], %int1{{.*}}, %int0{{.*}}, %int5{{.*}} -> !torch.vtensor<[4,5],f32>
// CHECK:         %[[RIGHT:.*]] = torch.aten.slice.Tensor %[[R]], %int1{{.*}}, %int5{{.*}}, %int8{{.*}} -> !torch.vtensor<[4,3],f32>
// CHECK-NOT:     torch.aten.mm
// CHECK:         return %[[LEFT]], %[[RIGHT]]
func.func @main(%x: !torch.vtensor<[4,8],f32> {pipeline.input = "x"}, %q: !torch.vtensor<[8,5],f32> {pipeline.weight = "q"}, %k: !torch.vtensor<[8,3],f32> {pipeline.weight = "k"}, %a: !torch.vtensor<[5],f32> {pipeline.weight = "a"}, %b: !torch.vtensor<[3],f32> {pipeline.weight = "b"}) -> (!torch.vtensor<[4,5],f32>, !torch.vtensor<[4,3],f32>) {
  %one = torch.constant.int 1
  %0 = torch.aten.mm %x, %q : !torch.vtensor<[4,8],f32>, !torch.vtensor<[8,5],f32> -> !torch.vtensor<[4,5],f32>
  %1 = torch.aten.add.Tensor %0, %a, %one : !torch.vtensor<[4,5],f32>, !torch.vtensor<[5],f32>, !torch.int -> !torch.vtensor<[4,5],f32>
  %2 = torch.aten.mm %x, %k : !torch.vtensor<[4,8],f32>, !torch.vtensor<[8,3],f32> -> !torch.vtensor<[4,3],f32>
  %3 = torch.aten.add.Tensor %b, %2, %one : !torch.vtensor<[3],f32>, !torch.vtensor<[4,3],f32>, !torch.int -> !torch.vtensor<[4,3],f32>
  return %1, %3 : !torch.vtensor<[4,5],f32>, !torch.vtensor<[4,3],f32>
}

// Not with many rows, nor with weights that another function reads, nor with other inputs.
// CHECK-LABEL: func.func @untouched
// CHECK-COUNT-4: torch.aten.mm
// CHECK-NOT:     torch.aten.cat
func.func @untouched(%x: !torch.vtensor<[33,8],f32> {pipeline.input = "x"}, %y: !torch.vtensor<[4,8],f32> {pipeline.input = "y"}, %q: !torch.vtensor<[8,5],f32> {pipeline.weight = "q2"}, %k: !torch.vtensor<[8,5],f32> {pipeline.weight = "k2"}, %shared: !torch.vtensor<[8,5],f32> {pipeline.weight = "s"}) -> (!torch.vtensor<[33,5],f32>, !torch.vtensor<[33,5],f32>, !torch.vtensor<[4,5],f32>, !torch.vtensor<[4,5],f32>) {
  %0 = torch.aten.mm %x, %q : !torch.vtensor<[33,8],f32>, !torch.vtensor<[8,5],f32> -> !torch.vtensor<[33,5],f32>
  %1 = torch.aten.mm %x, %k : !torch.vtensor<[33,8],f32>, !torch.vtensor<[8,5],f32> -> !torch.vtensor<[33,5],f32>
  %2 = torch.aten.mm %y, %q : !torch.vtensor<[4,8],f32>, !torch.vtensor<[8,5],f32> -> !torch.vtensor<[4,5],f32>
  %3 = torch.aten.mm %y, %shared : !torch.vtensor<[4,8],f32>, !torch.vtensor<[8,5],f32> -> !torch.vtensor<[4,5],f32>
  return %0, %1, %2, %3 : !torch.vtensor<[33,5],f32>, !torch.vtensor<[33,5],f32>, !torch.vtensor<[4,5],f32>, !torch.vtensor<[4,5],f32>
}

func.func @other(%s: !torch.vtensor<[8,5],f32> {pipeline.weight = "s"}) -> !torch.vtensor<[8,5],f32> {
  return %s : !torch.vtensor<[8,5],f32>
}
