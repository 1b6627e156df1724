// RUN: pipeline-opt %s --separate-convolution-bias | filecheck %s

// CHECK-LABEL: func.func @bias
// CHECK-SAME:      %[[X:.*]]: !torch.vtensor<[?,3,9],f32>, %[[W:.*]]: !torch.vtensor<[8,3,3],f32>, %[[B:.*]]: !torch.vtensor<[8],f32>
// CHECK:         %[[NONE:.*]] = torch.constant.none
// CHECK:         %[[Y:.*]] = torch.aten.convolution %[[X]], %[[W]], %[[NONE]],
// CHECK:         %[[COLUMN:.*]] = torch.aten.view %[[B]], {{.*}} -> !torch.vtensor<[8,1],f32>
// CHECK:         %[[R:.*]] = torch.aten.add.Tensor %[[Y]], %[[COLUMN]], {{.*}} -> !torch.vtensor<[?,8,7],f32>
// CHECK:         return %[[R]]
func.func @bias(%x: !torch.vtensor<[?,3,9],f32>, %w: !torch.vtensor<[8,3,3],f32>, %b: !torch.vtensor<[8],f32>) -> !torch.vtensor<[?,8,7],f32> {
  %zero = torch.constant.int 0
  %one = torch.constant.int 1
  %false = torch.constant.bool false
  %ones = torch.prim.ListConstruct %one : (!torch.int) -> !torch.list<int>
  %zeros = torch.prim.ListConstruct %zero : (!torch.int) -> !torch.list<int>
  %r = torch.aten.convolution %x, %w, %b, %ones, %zeros, %ones, %false, %zeros, %one : !torch.vtensor<[?,3,9],f32>, !torch.vtensor<[8,3,3],f32>, !torch.vtensor<[8],f32>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[?,8,7],f32>
  return %r : !torch.vtensor<[?,8,7],f32>
}
