// RUN: not pipeline-opt %s --verify-refined 2>&1 | filecheck %s

// All that lack a type are named at once, each with its line.
// CHECK: error: verify-refined: the rank or dtype of these results is unknown:
// CHECK:   mylib.f: {{.*}} (at model.py:3)
// CHECK:   mylib.g: {{.*}} (at model.py:4)
// CHECK-NOT: aten.neg
func.func @f(%arg0: !torch.vtensor<[3],f32>) -> !torch.vtensor {
  %0 = torch.aten.neg %arg0 : !torch.vtensor<[3],f32> -> !torch.vtensor<[3],f32> loc("model.py":2:0)
  %1 = torch.operator "torch.mylib.f"(%0) : (!torch.vtensor<[3],f32>) -> !torch.vtensor<*,f32> loc("model.py":3:0)
  %2 = torch.operator "torch.mylib.g"(%1) : (!torch.vtensor<*,f32>) -> !torch.vtensor loc("model.py":4:0)
  return %2 : !torch.vtensor
}
