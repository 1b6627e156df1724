// RUN: pipeline-opt %s --recognize-attention | filecheck %s

// CHECK-LABEL: func.func @masked
// CHECK:         %[[ZERO:.*]] = torch.aten.scalar_tensor %float0.000000e00
// CHECK:         %[[SUMMAND:.*]] = torch.aten.where.self %arg3, %{{.*}}, %[[ZERO]]
// CHECK:         %[[MASK:.*]] = torch.aten.broadcast_to %[[SUMMAND]], {{.*}} -> !torch.vtensor<[6,5,7],f32>
// CHECK:         %[[R:.*]] = torch.aten.scaled_dot_product_attention %arg0, %arg1, %arg2, %[[MASK]], %float0.000000e00{{.*}}, %false{{.*}}, %float2.500000e-01
// CHECK:         return %[[R]]
func.func @masked(%q: !torch.vtensor<[6,5,16],f32>, %k: !torch.vtensor<[6,7,16],f32>, %v: !torch.vtensor<[6,7,8],f32>, %m: !torch.vtensor<[5,7],i1>) -> !torch.vtensor<[6,5,8],f32> {
  %zero = torch.constant.int 0
  %one = torch.constant.int 1
  %two = torch.constant.int 2
  %six = torch.constant.int 6
  %last = torch.constant.int -1
  %four = torch.constant.float 4.0
  %inf = torch.constant.float 0xFFF0000000000000
  %none = torch.constant.none
  %false = torch.constant.bool false
  %order = torch.prim.ListConstruct %zero, %two, %one : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %kt = torch.aten.permute %k, %order : !torch.vtensor<[6,7,16],f32>, !torch.list<int> -> !torch.vtensor<[6,16,7],f32>
  %p = torch.aten.bmm %q, %kt : !torch.vtensor<[6,5,16],f32>, !torch.vtensor<[6,16,7],f32> -> !torch.vtensor<[6,5,7],f32>
  %s = torch.aten.div.Scalar %p, %four : !torch.vtensor<[6,5,7],f32>, !torch.float -> !torch.vtensor<[6,5,7],f32>
  %below = torch.aten.scalar_tensor %inf, %six, %none, %none, %none : !torch.float, !torch.int, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[],f32>
  %w = torch.aten.where.self %m, %below, %s : !torch.vtensor<[5,7],i1>, !torch.vtensor<[],f32>, !torch.vtensor<[6,5,7],f32> -> !torch.vtensor<[6,5,7],f32>
  %x = torch.aten._softmax %w, %last, %false : !torch.vtensor<[6,5,7],f32>, !torch.int, !torch.bool -> !torch.vtensor<[6,5,7],f32>
  %r = torch.aten.bmm %x, %v : !torch.vtensor<[6,5,7],f32>, !torch.vtensor<[6,7,8],f32> -> !torch.vtensor<[6,5,8],f32>
  return %r : !torch.vtensor<[6,5,8],f32>
}

// The softmax of columns is no attention, nor is one whose weights are a result too.
// CHECK-LABEL: func.func @untouched
// CHECK-NOT:     torch.aten.scaled_dot_product_attention
func.func @untouched(%q: !torch.vtensor<[6,5,16],f32>, %kt: !torch.vtensor<[6,16,7],f32>, %v: !torch.vtensor<[6,7,8],f32>) -> (!torch.vtensor<[6,5,8],f32>, !torch.vtensor<[6,5,8],f32>, !torch.vtensor<[6,5,7],f32>) {
  %one = torch.constant.int 1
  %last = torch.constant.int -1
  %false = torch.constant.bool false
  %p = torch.aten.bmm %q, %kt : !torch.vtensor<[6,5,16],f32>, !torch.vtensor<[6,16,7],f32> -> !torch.vtensor<[6,5,7],f32>
  %x = torch.aten._softmax %p, %one, %false : !torch.vtensor<[6,5,7],f32>, !torch.int, !torch.bool -> !torch.vtensor<[6,5,7],f32>
  %0 = torch.aten.bmm %x, %v : !torch.vtensor<[6,5,7],f32>, !torch.vtensor<[6,7,8],f32> -> !torch.vtensor<[6,5,8],f32>
  %p2 = torch.aten.bmm %q, %kt : !torch.vtensor<[6,5,16],f32>, !torch.vtensor<[6,16,7],f32> -> !torch.vtensor<[6,5,7],f32>
  %x2 = torch.aten._softmax %p2, %last, %false : !torch.vtensor<[6,5,7],f32>, !torch.int, !torch.bool -> !torch.vtensor<[6,5,7],f32>
  %1 = torch.aten.bmm %x2, %v : !torch.vtensor<[6,5,7],f32>, !torch.vtensor<[6,7,8],f32> -> !torch.vtensor<[6,5,8],f32>
  return %0, %1, %x2 : !torch.vtensor<[6,5,8],f32>, !torch.vtensor<[6,5,8],f32>, !torch.vtensor<[6,5,7],f32>
}
