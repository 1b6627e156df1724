// RUN: pipeline-opt %s --from torch --to refined | filecheck %s

// Argument roles survive, types are refined, symbolic merges stay whole.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %arg0: !torch.vtensor<[?,?,6],f32> {pipeline.input = "x"}
// CHECK-SAME:    %arg1: !torch.vtensor<[6],f32> {pipeline.weight = "scale"}
// CHECK:         torch.aten.flatten.using_ints
// CHECK:         torch.aten.mul.Tensor {{.*}} -> !torch.vtensor<[?,6],f32>
func.func @main(%arg0: !torch.vtensor<[?,?,6],f32> {pipeline.input = "x"}, %arg1: !torch.vtensor<[6],f32> {pipeline.weight = "scale"}) -> !torch.vtensor<[?,6],f32> {
  %int0 = torch.constant.int 0
  %int1 = torch.constant.int 1
  %0 = torch.aten.flatten.using_ints %arg0, %int0, %int1 : !torch.vtensor<[?,?,6],f32>, !torch.int, !torch.int -> !torch.vtensor<[?,6],f32>
  %1 = torch.aten.mul.Tensor %0, %arg1 : !torch.vtensor<[?,6],f32>, !torch.vtensor<[6],f32> -> !torch.vtensor<[?,6],f32>
  return %1 : !torch.vtensor<[?,6],f32>
}
