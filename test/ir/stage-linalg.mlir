// RUN: pipeline-opt %s --from torch --to linalg | filecheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME:    %arg0: tensor<2x4xf32> {pipeline.input = "x"}
// CHECK-SAME:    %arg1: tensor<4x3xf32> {pipeline.weight = "fc.weight"}
// CHECK:         linalg.matmul ins(%arg0, %arg1
// CHECK-NOT:     torch.aten
func.func @main(%arg0: !torch.vtensor<[2,4],f32> {pipeline.input = "x"}, %arg1: !torch.vtensor<[4,3],f32> {pipeline.weight = "fc.weight"}) -> !torch.vtensor<[2,3],f32> attributes {pipeline.state_outputs = []} {
  %0 = torch.aten.mm %arg0, %arg1 : !torch.vtensor<[2,4],f32>, !torch.vtensor<[4,3],f32> -> !torch.vtensor<[2,3],f32>
  return %0 : !torch.vtensor<[2,3],f32>
}
