// A pass that fails leaves a folder, and the folder fails in the same way.
// RUN: rm -rf %t && mkdir %t
// RUN: env PIPELINE_REPRODUCERS=%t not pipeline-opt %s --pass-pipeline='builtin.module(cse,func.func(torch-finalizing-backend-type-conversion),canonicalize)' 2>&1 | filecheck %s
// RUN: not pipeline-opt %t/* 2>&1 | filecheck %s --check-prefix=AGAIN
// RUN: pipeline-opt %t/* --pass-pipeline=canonicalize | filecheck %s --check-prefix=IR

// CHECK: error: func.func(torch-finalizing-backend-type-conversion): {{.*}} failed to legalize operation 'torch.operator'
// CHECK: reproducer: {{.*}}pipeline-reproducer-
// AGAIN: error: func.func(torch-finalizing-backend-type-conversion): {{.*}} failed to legalize operation 'torch.operator'
// AGAIN-NOT: reproducer
// IR: torch.operator "torch.my.f"
func.func @f(%arg0: !torch.vtensor<[3],f32>) -> !torch.vtensor<[3],f32> {
  %0 = torch.operator "torch.my.f"(%arg0) : (!torch.vtensor<[3],f32>) -> !torch.vtensor<[3],f32>
  return %0 : !torch.vtensor<[3],f32>
}
