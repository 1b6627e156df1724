"""Source of random shape functions: lists that share and change, branches, loops, early returns, checks."""

LISTS = "abc"
HEAD = """    a: list[int] = []
    b = x[:]
    c = [n, len(x)]
    k = n"""


class Writer:
    """Writes functions with the parameters ``x: list[int], n: int``; `rng` decides about everything."""

    def __init__(self, rng):
        self.rng = rng

    def function(self, name):
        body = "\n".join([HEAD, *self.block(1), *self.block(1)])
        result = self.rng.choice([*LISTS, "a + b", "a + c"])
        return f"def {name}(x: list[int], n: int) -> list[int]:\n{body}\n    return {result}\n"

    def block(self, depth):
        return [line for _ in range(self.rng.randrange(1, 4)) for line in self.statement(depth)]

    def statement(self, depth):
        nested = [self.branch, self.branch, self.loop] if depth < 3 else []
        simple = [self.append, self.append, self.assign, self.set_item, self.concatenate, self.slice]
        written = self.rng.choice([*simple, *nested, self.leave, self.check])(depth)
        return ["    " * depth + line for line in written] if written[0][0] != " " else written

    def append(self, depth):
        return [f"{self.list()}.append({self.number()})"]

    def assign(self, depth):
        return [f"k = {self.number()}"]

    def set_item(self, depth):
        changed = self.list()
        index = self.rng.choice(["0", "-1", f"k % len({changed})"])
        return [f"if len({changed}) > 0:", f"    {changed}[{index}] = {self.number()}"]

    def concatenate(self, depth):
        return [f"{self.list()} = {self.list()} + [{self.number()}]"]

    def slice(self, depth):
        return [f"{self.list()} = {self.list()}[{self.rng.choice([':', '1:', ':-1', ':2'])}]"]

    def check(self, depth):
        return [f"assert {self.condition()}"]

    def leave(self, depth):
        return [f"if {self.condition()}:", f"    return {self.list()}"]

    def branch(self, depth):
        lines = ["    " * depth + f"if {self.condition()}:", *self.block(depth + 1)]
        if self.rng.random() < 0.5:
            lines += ["    " * depth + "else:", *self.block(depth + 1)]
        return lines

    def loop(self, depth):
        index = f"i{depth}"
        over = self.rng.choice(["x", "range(len(x))", "range(2)", "range(min(max(n, 0), 3))"])
        lines = ["    " * depth + f"for {index} in {over}:", "    " * (depth + 1) + f"k = k + {index}"]
        lines += self.block(depth + 1)
        if self.rng.random() < 0.2:
            leave = self.rng.choice(["break", "continue"])
            lines += ["    " * (depth + 1) + f"if {self.condition()}:", "    " * (depth + 2) + leave]
        return lines

    def list(self):
        return self.rng.choice(LISTS)

    def number(self, depth=0):
        simple = ["k", "n", "len(x)", "len(a)", "len(b)", "len(c)", "0", "1", "3"]
        if depth == 2 or self.rng.random() < 0.4:
            return self.rng.choice(simple)
        left, right = self.number(depth + 1), self.number(depth + 1)
        return self.rng.choice(
            [
                f"max({left}, {right})",
                f"({left} {self.rng.choice('+-*')} {right})",
                f"({left} // 2)",
                f"({left} % 3)",
            ]
        )

    def condition(self):
        order = self.rng.choice([">", "<=", "==", "!="])
        return self.rng.choice(
            [
                f"len({self.list()}) {order} {self.rng.randrange(4)}",
                f"x[0] {order} {self.rng.randrange(4)}",
                "b == c",
                f"{self.number()} {order} {self.number()}",
            ]
        )
