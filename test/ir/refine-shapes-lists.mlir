// RUN: pipeline-opt %s --refine-shapes=%S/Inputs/changed-lists.mlir | filecheck %s

// CHECK-LABEL: func.func @names
func.func @names(%matrix: !torch.vtensor<[5,6],f32>, %row: !torch.vtensor<[4],f32>, %open: !torch.vtensor<[?],f32>) {
  // CHECK: one_of_two{{.*}}<[5,6],f32>) -> !torch.vtensor<[1,0],unk>
  %0 = torch.operator "torch.mylib.one_of_two"(%matrix) : (!torch.vtensor<[5,6],f32>) -> !torch.vtensor
  // CHECK: one_of_two{{.*}}<[4],f32>) -> !torch.vtensor<[0,1],unk>
  %1 = torch.operator "torch.mylib.one_of_two"(%row) : (!torch.vtensor<[4],f32>) -> !torch.vtensor
  // CHECK: either{{.*}}<[4],f32>) -> !torch.vtensor<[1,0,1],unk>
  %2 = torch.operator "torch.mylib.either"(%row) : (!torch.vtensor<[4],f32>) -> !torch.vtensor
  // Either list may have grown: nothing is said of them, nor of the one that certainly did.
  // CHECK: either{{.*}}<[?],f32>) -> !torch.vtensor<[?,?,?],unk>
  %3 = torch.operator "torch.mylib.either"(%open) : (!torch.vtensor<[?],f32>) -> !torch.vtensor
  // CHECK: nested{{.*}} -> !torch.vtensor<[1],unk>
  %4 = torch.operator "torch.mylib.nested"(%row) : (!torch.vtensor<[4],f32>) -> !torch.vtensor
  // CHECK: compared{{.*}} -> !torch.vtensor<[2],unk>
  %5 = torch.operator "torch.mylib.compared"(%row) : (!torch.vtensor<[4],f32>) -> !torch.vtensor
  // What one branch changes the other does not see, and a branch that raises is not taken.
  // CHECK: branches{{.*}}<[4],f32>) -> !torch.vtensor<[1,0],unk>
  %6 = torch.operator "torch.mylib.branches"(%row) : (!torch.vtensor<[4],f32>) -> !torch.vtensor
  // CHECK: branches{{.*}}<[?],f32>) -> !torch.vtensor<[?,0],unk>
  %7 = torch.operator "torch.mylib.branches"(%open) : (!torch.vtensor<[?],f32>) -> !torch.vtensor
  return
}

// A function changes its argument; the next one that gets the same tensor, or list, sees nothing of it.
// CHECK-LABEL: func.func @arguments
func.func @arguments(%x: !torch.vtensor<[4,6],f32>, %open: !torch.vtensor<[?,6],f32>, %three: !torch.vtensor<[3],f32>) {
  // CHECK: own_argument{{.*}} -> !torch.vtensor<[3,1,4],unk>
  %0 = torch.operator "torch.mylib.own_argument"(%x) : (!torch.vtensor<[4,6],f32>) -> !torch.vtensor
  // CHECK: own_argument{{.*}} -> !torch.vtensor<[3,1,4],unk>
  %1 = torch.operator "torch.mylib.own_argument"(%x) : (!torch.vtensor<[4,6],f32>) -> !torch.vtensor
  // CHECK: own_argument{{.*}} -> !torch.vtensor<[3,1,?],unk>
  %2 = torch.operator "torch.mylib.own_argument"(%open) : (!torch.vtensor<[?,6],f32>) -> !torch.vtensor
  %int8 = torch.constant.int 8
  %list = torch.prim.ListConstruct %int8 : (!torch.int) -> !torch.list<int>
  // CHECK: filled{{.*}} -> !torch.vtensor<[8,0,1,2],unk>
  %3 = torch.operator "torch.mylib.filled"(%three, %list) : (!torch.vtensor<[3],f32>, !torch.list<int>) -> !torch.vtensor
  // CHECK: filled{{.*}} -> !torch.vtensor<[8,0,1,2,3],unk>
  %4 = torch.operator "torch.mylib.filled"(%x, %list) : (!torch.vtensor<[4,6],f32>, !torch.list<int>) -> !torch.vtensor
  // An unknown number of sizes: no rank.
  // CHECK: filled{{.*}} -> !torch.vtensor{{ *$}}
  %5 = torch.operator "torch.mylib.filled"(%open, %list) : (!torch.vtensor<[?,6],f32>, !torch.list<int>) -> !torch.vtensor
  return
}
