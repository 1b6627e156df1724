// Shape functions that change lists under other names. torch-mlir's simplification follows names and gets them wrong.

// a, b = [], []; c = a if len(x) == 2 else b; c.append(7); return [len(a), len(b)]
func.func @__torch_mlir_shape_fn.torch.mylib.one_of_two(%x: !torch.list<int>) -> !torch.list<int> {
  %two = torch.constant.int 2
  %seven = torch.constant.int 7
  %a = torch.prim.ListConstruct : () -> !torch.list<int>
  %b = torch.prim.ListConstruct : () -> !torch.list<int>
  %rank = torch.aten.len.t %x : !torch.list<int> -> !torch.int
  %is_matrix = torch.aten.eq.int %rank, %two : !torch.int, !torch.int -> !torch.bool
  %c = torch.prim.If %is_matrix -> (!torch.list<int>) {
    torch.prim.If.yield %a : !torch.list<int>
  } else {
    torch.prim.If.yield %b : !torch.list<int>
  }
  %0 = torch.aten.append.t %c, %seven : !torch.list<int>, !torch.int -> !torch.list<int>
  %na = torch.aten.len.t %a : !torch.list<int> -> !torch.int
  %nb = torch.aten.len.t %b : !torch.list<int> -> !torch.int
  %result = torch.prim.ListConstruct %na, %nb : (!torch.int, !torch.int) -> !torch.list<int>
  return %result : !torch.list<int>
}

// The same with a condition that a dynamic size leaves open: x[0] == 4.
func.func @__torch_mlir_shape_fn.torch.mylib.either(%x: !torch.list<int>) -> !torch.list<int> {
  %zero = torch.constant.int 0
  %four = torch.constant.int 4
  %seven = torch.constant.int 7
  %a = torch.prim.ListConstruct : () -> !torch.list<int>
  %b = torch.prim.ListConstruct : () -> !torch.list<int>
  %size = torch.aten.__getitem__.t %x, %zero : !torch.list<int>, !torch.int -> !torch.int
  %is_four = torch.aten.eq.int %size, %four : !torch.int, !torch.int -> !torch.bool
  %c = torch.prim.If %is_four -> (!torch.list<int>) {
    torch.prim.If.yield %a : !torch.list<int>
  } else {
    torch.prim.If.yield %b : !torch.list<int>
  }
  %0 = torch.aten.append.t %c, %seven : !torch.list<int>, !torch.int -> !torch.list<int>
  %na = torch.aten.len.t %a : !torch.list<int> -> !torch.int
  %nb = torch.aten.len.t %b : !torch.list<int> -> !torch.int
  %nc = torch.aten.len.t %c : !torch.list<int> -> !torch.int
  %result = torch.prim.ListConstruct %na, %nb, %nc : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  return %result : !torch.list<int>
}

// inner = []; outer = [inner]; outer[0].append(9); return [len(inner)]
func.func @__torch_mlir_shape_fn.torch.mylib.nested(%x: !torch.list<int>) -> !torch.list<int> {
  %zero = torch.constant.int 0
  %nine = torch.constant.int 9
  %inner = torch.prim.ListConstruct : () -> !torch.list<int>
  %outer = torch.prim.ListConstruct %inner : (!torch.list<int>) -> !torch.list<list<int>>
  %same = torch.aten.__getitem__.t %outer, %zero : !torch.list<list<int>>, !torch.int -> !torch.list<int>
  %0 = torch.aten.append.t %same, %nine : !torch.list<int>, !torch.int -> !torch.list<int>
  %n = torch.aten.len.t %inner : !torch.list<int> -> !torch.int
  %result = torch.prim.ListConstruct %n : (!torch.int) -> !torch.list<int>
  return %result : !torch.list<int>
}

// x.append(x[0]); x[0] = 1; return [len(x), x[0], x[-1]]
func.func @__torch_mlir_shape_fn.torch.mylib.own_argument(%x: !torch.list<int>) -> !torch.list<int> {
  %zero = torch.constant.int 0
  %one = torch.constant.int 1
  %last = torch.constant.int -1
  %first = torch.aten.__getitem__.t %x, %zero : !torch.list<int>, !torch.int -> !torch.int
  %0 = torch.aten.append.t %x, %first : !torch.list<int>, !torch.int -> !torch.list<int>
  %1 = torch.aten._set_item.t %x, %zero, %one : !torch.list<int>, !torch.int, !torch.int -> !torch.list<int>
  %n = torch.aten.len.t %x : !torch.list<int> -> !torch.int
  %a = torch.aten.__getitem__.t %x, %zero : !torch.list<int>, !torch.int -> !torch.int
  %b = torch.aten.__getitem__.t %x, %last : !torch.list<int>, !torch.int -> !torch.int
  %result = torch.prim.ListConstruct %n, %a, %b : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  return %result : !torch.list<int>
}

// a, b = [3], [3]; a.append(4); return [1] if a == b else [2]
func.func @__torch_mlir_shape_fn.torch.mylib.compared(%x: !torch.list<int>) -> !torch.list<int> {
  %one = torch.constant.int 1
  %two = torch.constant.int 2
  %three = torch.constant.int 3
  %a = torch.prim.ListConstruct %three : (!torch.int) -> !torch.list<int>
  %b = torch.prim.ListConstruct %three : (!torch.int) -> !torch.list<int>
  %0 = torch.aten.append.t %a, %two : !torch.list<int>, !torch.int -> !torch.list<int>
  %equal = torch.aten.eq.int_list %a, %b : !torch.list<int>, !torch.list<int> -> !torch.bool
  %n = torch.prim.If %equal -> (!torch.int) {
    torch.prim.If.yield %one : !torch.int
  } else {
    torch.prim.If.yield %two : !torch.int
  }
  %result = torch.prim.ListConstruct %n : (!torch.int) -> !torch.list<int>
  return %result : !torch.list<int>
}

// out = [n]; fill(out, x[0]); return out
func.func @__torch_mlir_shape_fn.torch.mylib.filled(%x: !torch.list<int>, %n: !torch.list<int>) -> !torch.list<int> {
  %zero = torch.constant.int 0
  %size = torch.aten.__getitem__.t %x, %zero : !torch.list<int>, !torch.int -> !torch.int
  %0 = call @fill(%n, %size) : (!torch.list<int>, !torch.int) -> !torch.none
  return %n : !torch.list<int>
}
func.func private @fill(%out: !torch.list<int>, %count: !torch.int) -> !torch.none {
  %true = torch.constant.bool true
  %none = torch.constant.none
  torch.prim.Loop %count, %true, init() {
  ^bb0(%i: !torch.int):
    %0 = torch.aten.append.t %out, %i : !torch.list<int>, !torch.int -> !torch.list<int>
    torch.prim.Loop.condition %true, iter()
  } : (!torch.int, !torch.bool) -> ()
  return %none : !torch.none
}

// a, b = [], []
// if x[0] == 4: a.append(7)
// if x[0] == 5: b.append(7); raise ValueError
// return [len(a), len(b)]
func.func @__torch_mlir_shape_fn.torch.mylib.branches(%x: !torch.list<int>) -> !torch.list<int> {
  %zero = torch.constant.int 0
  %four = torch.constant.int 4
  %five = torch.constant.int 5
  %seven = torch.constant.int 7
  %message = torch.constant.str "ValueError: five"
  %none = torch.constant.none
  %a = torch.prim.ListConstruct : () -> !torch.list<int>
  %b = torch.prim.ListConstruct : () -> !torch.list<int>
  %size = torch.aten.__getitem__.t %x, %zero : !torch.list<int>, !torch.int -> !torch.int
  %is_four = torch.aten.eq.int %size, %four : !torch.int, !torch.int -> !torch.bool
  torch.prim.If %is_four -> () {
    %0 = torch.aten.append.t %a, %seven : !torch.list<int>, !torch.int -> !torch.list<int>
    torch.prim.If.yield
  } else {
    torch.prim.If.yield
  }
  %is_five = torch.aten.eq.int %size, %five : !torch.int, !torch.int -> !torch.bool
  torch.prim.If %is_five -> () {
    %0 = torch.aten.append.t %b, %seven : !torch.list<int>, !torch.int -> !torch.list<int>
    torch.prim.RaiseException %message, %none : !torch.str, !torch.none
    torch.prim.If.yield
  } else {
    torch.prim.If.yield
  }
  %na = torch.aten.len.t %a : !torch.list<int> -> !torch.int
  %nb = torch.aten.len.t %b : !torch.list<int> -> !torch.int
  %result = torch.prim.ListConstruct %na, %nb : (!torch.int, !torch.int) -> !torch.list<int>
  return %result : !torch.list<int>
}
