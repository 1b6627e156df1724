// RUN: pipeline-opt %s --fold-batch-norm | filecheck %s

// The factor goes into the weights, and the summand, which a convolution without bias has no place for, stays.
// CHECK-LABEL: func.func @convolution
// CHECK:         %[[COLUMN:.*]] = torch.aten.view %arg2, {{.*}} -> !torch.vtensor<[8,1,1,1],f32>
// CHECK:         %[[V:.*]] = torch.aten.mul.Tensor %arg1, %[[COLUMN]] : {{.*}} -> !torch.vtensor<[8,3,3,3],f32>
// CHECK:         %[[Y:.*]] = torch.aten.convolution %arg0, %[[V]], %none,
// CHECK-NOT:     torch.aten.mul.Tensor
// CHECK:         %[[R:.*]] = torch.aten.add.Tensor %[[Y]], %arg3,
// CHECK:         return %[[R]]
func.func @convolution(%x: !torch.vtensor<[?,3,9,9],f32> {pipeline.input = "x"}, %w: !torch.vtensor<[8,3,3,3],f32> {pipeline.weight = "w"}, %s: !torch.vtensor<[1,8,1,1],f32> {pipeline.weight = "s"}, %t: !torch.vtensor<[1,8,1,1],f32> {pipeline.weight = "t"}) -> !torch.vtensor<[?,8,7,7],f32> {
  %none = torch.constant.none
  %zero = torch.constant.int 0
  %one = torch.constant.int 1
  %false = torch.constant.bool false
  %ones = torch.prim.ListConstruct %one, %one : (!torch.int, !torch.int) -> !torch.list<int>
  %zeros = torch.prim.ListConstruct %zero, %zero : (!torch.int, !torch.int) -> !torch.list<int>
  %y = torch.aten.convolution %x, %w, %none, %ones, %zeros, %ones, %false, %zeros, %one : !torch.vtensor<[?,3,9,9],f32>, !torch.vtensor<[8,3,3,3],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[?,8,7,7],f32>
  %m = torch.aten.mul.Tensor %y, %s : !torch.vtensor<[?,8,7,7],f32>, !torch.vtensor<[1,8,1,1],f32> -> !torch.vtensor<[?,8,7,7],f32>
  %r = torch.aten.add.Tensor %m, %t, %one : !torch.vtensor<[?,8,7,7],f32>, !torch.vtensor<[1,8,1,1],f32>, !torch.int -> !torch.vtensor<[?,8,7,7],f32>
  return %r : !torch.vtensor<[?,8,7,7],f32>
}

// A transposed convolution has the channels of its result along the second axis of its weights; a bias takes both.
// CHECK-LABEL: func.func @transposed
// CHECK:         %[[COLUMN:.*]] = torch.aten.view %arg3, {{.*}} -> !torch.vtensor<[1,8,1],f32>
// CHECK:         %[[V:.*]] = torch.aten.mul.Tensor %arg1, %[[COLUMN]]
// CHECK:         %[[ROW:.*]] = torch.aten.view %arg3, {{.*}} -> !torch.vtensor<[8],f32>
// CHECK:         %[[C:.*]] = torch.aten.mul.Tensor %arg2, %[[ROW]]
// CHECK:         %[[SHIFT:.*]] = torch.aten.view %arg3, {{.*}} -> !torch.vtensor<[8],f32>
// CHECK:         %[[D:.*]] = torch.aten.add.Tensor %[[C]], %[[SHIFT]],
// CHECK:         %[[R:.*]] = torch.aten.convolution %arg0, %[[V]], %[[D]],
// CHECK:         return %[[R]]
func.func @transposed(%x: !torch.vtensor<[2,3,9],f32> {pipeline.input = "x"}, %w: !torch.vtensor<[3,8,2],f32> {pipeline.weight = "w"}, %b: !torch.vtensor<[8],f32> {pipeline.weight = "b"}, %s: !torch.vtensor<[8,1],f32> {pipeline.weight = "s"}) -> !torch.vtensor<[2,8,18],f32> {
  %zero = torch.constant.int 0
  %one = torch.constant.int 1
  %two = torch.constant.int 2
  %true = torch.constant.bool true
  %twos = torch.prim.ListConstruct %two : (!torch.int) -> !torch.list<int>
  %ones = torch.prim.ListConstruct %one : (!torch.int) -> !torch.list<int>
  %zeros = torch.prim.ListConstruct %zero : (!torch.int) -> !torch.list<int>
  %y = torch.aten.convolution %x, %w, %b, %twos, %zeros, %ones, %true, %zeros, %one : !torch.vtensor<[2,3,9],f32>, !torch.vtensor<[3,8,2],f32>, !torch.vtensor<[8],f32>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[2,8,18],f32>
  %m = torch.aten.mul.Tensor %y, %s : !torch.vtensor<[2,8,18],f32>, !torch.vtensor<[8,1],f32> -> !torch.vtensor<[2,8,18],f32>
  %r = torch.aten.add.Tensor %m, %s, %one : !torch.vtensor<[2,8,18],f32>, !torch.vtensor<[8,1],f32>, !torch.int -> !torch.vtensor<[2,8,18],f32>
  return %r : !torch.vtensor<[2,8,18],f32>
}

// A linear layer: the product of all rows, by one, and the bias, in its other dimensions.
// CHECK-LABEL: func.func @linear
// CHECK:         %[[ROW:.*]] = torch.aten.view %arg3, {{.*}} -> !torch.vtensor<[1,5],f32>
// CHECK:         %[[V:.*]] = torch.aten.mul.Tensor %arg1, %[[ROW]]
// CHECK:         %[[Y:.*]] = torch.aten.mm %arg0, %[[V]]
// CHECK:         %[[C:.*]] = torch.aten.mul.Tensor %arg2, %arg3
// CHECK:         %[[Z:.*]] = torch.aten.add.Tensor %[[C]], %[[Y]],
// CHECK:         %[[R:.*]] = torch.aten.view %[[Z]], {{.*}} -> !torch.vtensor<[2,3,5],f32>
// CHECK:         return %[[R]]
func.func @linear(%x: !torch.vtensor<[6,4],f32> {pipeline.input = "x"}, %w: !torch.vtensor<[4,5],f32> {pipeline.weight = "w"}, %b: !torch.vtensor<[5],f32> {pipeline.weight = "b"}, %s: !torch.vtensor<[5],f32> {pipeline.weight = "s"}) -> !torch.vtensor<[2,3,5],f32> {
  %one = torch.constant.int 1
  %two = torch.constant.int 2
  %three = torch.constant.int 3
  %five = torch.constant.int 5
  %shape = torch.prim.ListConstruct %two, %three, %five : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %y = torch.aten.mm %x, %w : !torch.vtensor<[6,4],f32>, !torch.vtensor<[4,5],f32> -> !torch.vtensor<[6,5],f32>
  %o = torch.aten.mul.Scalar %y, %one : !torch.vtensor<[6,5],f32>, !torch.int -> !torch.vtensor<[6,5],f32>
  %z = torch.aten.add.Tensor %b, %o, %one : !torch.vtensor<[5],f32>, !torch.vtensor<[6,5],f32>, !torch.int -> !torch.vtensor<[6,5],f32>
  %v = torch.aten.view %z, %shape : !torch.vtensor<[6,5],f32>, !torch.list<int> -> !torch.vtensor<[2,3,5],f32>
  %r = torch.aten.mul.Tensor %s, %v : !torch.vtensor<[5],f32>, !torch.vtensor<[2,3,5],f32> -> !torch.vtensor<[2,3,5],f32>
  return %r : !torch.vtensor<[2,3,5],f32>
}

// What stays: a factor that is state, a layer that is used again, a factor for each row, and narrow types.
// CHECK-LABEL: func.func @untouched
// CHECK-COUNT-4: = torch.aten.mul.Tensor {{.*}} -> !torch.vtensor<[5,5],
// CHECK-NOT:     torch.aten.mul.Tensor
func.func @untouched(%x: !torch.vtensor<[5,4],f32> {pipeline.input = "x"}, %h: !torch.vtensor<[5,4],f16> {pipeline.input = "h"}, %state: !torch.vtensor<[5],f32> {pipeline.state = "n"}, %w: !torch.vtensor<[4,5],f32> {pipeline.weight = "w"}, %s: !torch.vtensor<[5],f32> {pipeline.weight = "s"}, %k: !torch.vtensor<[5,1],f32> {pipeline.weight = "k"}, %wh: !torch.vtensor<[4,5],f16> {pipeline.weight = "wh"}, %sh: !torch.vtensor<[5],f16> {pipeline.weight = "sh"}) -> (!torch.vtensor<[5,5],f32>, !torch.vtensor<[5,5],f32>, !torch.vtensor<[5,5],f32>, !torch.vtensor<[5,5],f32>, !torch.vtensor<[5,5],f16>) {
  %a = torch.aten.mm %x, %w : !torch.vtensor<[5,4],f32>, !torch.vtensor<[4,5],f32> -> !torch.vtensor<[5,5],f32>
  %0 = torch.aten.mul.Tensor %a, %state : !torch.vtensor<[5,5],f32>, !torch.vtensor<[5],f32> -> !torch.vtensor<[5,5],f32>
  %b = torch.aten.mm %x, %w : !torch.vtensor<[5,4],f32>, !torch.vtensor<[4,5],f32> -> !torch.vtensor<[5,5],f32>
  %1 = torch.aten.mul.Tensor %b, %s : !torch.vtensor<[5,5],f32>, !torch.vtensor<[5],f32> -> !torch.vtensor<[5,5],f32>
  %c = torch.aten.mm %x, %w : !torch.vtensor<[5,4],f32>, !torch.vtensor<[4,5],f32> -> !torch.vtensor<[5,5],f32>
  %2 = torch.aten.mul.Tensor %c, %k : !torch.vtensor<[5,5],f32>, !torch.vtensor<[5,1],f32> -> !torch.vtensor<[5,5],f32>
  %d = torch.aten.mm %h, %wh : !torch.vtensor<[5,4],f16>, !torch.vtensor<[4,5],f16> -> !torch.vtensor<[5,5],f16>
  %3 = torch.aten.mul.Tensor %d, %sh : !torch.vtensor<[5,5],f16>, !torch.vtensor<[5],f16> -> !torch.vtensor<[5,5],f16>
  return %0, %1, %b, %2, %3 : !torch.vtensor<[5,5],f32>, !torch.vtensor<[5,5],f32>, !torch.vtensor<[5,5],f32>, !torch.vtensor<[5,5],f32>, !torch.vtensor<[5,5],f16>
}
