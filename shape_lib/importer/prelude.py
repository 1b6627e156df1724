"""Parts of Python that the Torch dialect has no operation for, in the Python that the importer reads.

Calls of `max`, slices, `in` and so on become calls of these functions, imported for the types at hand. They run as
they are, so that tests can compare them with what they stand for.
"""

# No annotations where any type of element will do: they are imported once for every type that is needed.
# pyright: reportArgumentType=false, reportReturnType=false


def contains(values, value) -> bool:
    """``value in values``"""
    found = False
    for element in values:
        if element == value:
            found = True
    return found


def lists_equal(left, right) -> bool:
    """``left == right``"""
    if len(left) != len(right):
        return False
    equal = True
    for i in range(len(left)):
        if left[i] != right[i]:
            equal = False
    return equal


def slice_list(values, start, stop, step):
    """``values[start:stop:step]``"""
    size = len(values)
    stride = 1 if step is None else step
    if stride == 0:
        raise ValueError("slice step cannot be zero")
    lowest = 0 if stride > 0 else -1
    highest = size if stride > 0 else size - 1
    if start is None:
        first = lowest if stride > 0 else highest
    else:
        first = _clamped(start, size, lowest, highest)
    if stop is None:
        last = highest if stride > 0 else lowest
    else:
        last = _clamped(stop, size, lowest, highest)
    result = []
    for i in range(range_length(first, last, stride)):
        result.append(values[first + i * stride])
    return result


def _clamped(bound: int, size: int, lowest: int, highest: int) -> int:
    position = bound + size if bound < 0 else bound
    return max(lowest, min(position, highest))


def range_length(start: int, stop: int, step: int) -> int:
    """``len(range(start, stop, step))``"""
    if step == 0:
        raise ValueError("range() arg 3 must not be zero")
    distance = stop - start if step > 0 else start - stop
    return max(0, (distance + abs(step) - 1) // abs(step))


def repeat_list(values, count: int):
    """``values * count``"""
    result = []
    for _ in range(count):
        result.extend(values)
    return result


def with_item(values, index: int, value):
    """`values` after ``values[index] = value``"""
    size = len(values)
    if index < -size or index >= size:
        raise IndexError("list assignment index out of range")
    position = index + size if index < 0 else index
    result = []
    for i in range(size):
        result.append(value if i == position else values[i])
    return result


def with_inserted(values, index: int, value):
    """`values` after ``values.insert(index, value)``"""
    size = len(values)
    position = _clamped(index, size, 0, size)
    result = []
    for i in range(size + 1):
        if i == position:
            result.append(value)
        elif i < position:
            result.append(values[i])
        else:
            result.append(values[i - 1])
    return result


def without_item(values, index: int):
    """`values` after ``del values[index]``"""
    size = len(values)
    if index < -size or index >= size:
        raise IndexError("pop index out of range")
    position = index + size if index < 0 else index
    result = []
    for i in range(size - 1):
        result.append(values[i] if i < position else values[i + 1])
    return result


def reversed_list(values):
    """``values[::-1]``"""
    result = []
    for i in range(len(values)):
        result.append(values[len(values) - 1 - i])
    return result


def sorted_list(values):
    """``sorted(values)``"""
    result = [element for element in values]
    for i in range(len(values)):
        for j in range(len(values) - 1 - i):
            low = min(result[j], result[j + 1])
            high = max(result[j], result[j + 1])
            result[j] = low
            result[j + 1] = high
    return result


def position_of(values, value) -> int:
    """``values.index(value)``"""
    found = -1
    for i in range(len(values)):
        if found < 0 and values[i] == value:
            found = i
    if found < 0:
        raise ValueError("the value is not in the list")
    return found


def count_of(values, value) -> int:
    """``values.count(value)``"""
    count = 0
    for element in values:
        if element == value:
            count += 1
    return count


def largest(values):
    """``max(values)``"""
    if len(values) == 0:
        raise ValueError("max() arg is an empty sequence")
    result = values[0]
    for element in values:
        result = max(result, element)
    return result


def smallest(values):
    """``min(values)``"""
    if len(values) == 0:
        raise ValueError("min() arg is an empty sequence")
    result = values[0]
    for element in values:
        result = min(result, element)
    return result


def total(values, start):
    """``sum(values, start)``"""
    result = start
    for element in values:
        result = result + element
    return result


def product(values, start):
    """``math.prod(values, start=start)``"""
    result = start
    for element in values:
        result = result * element
    return result


def integer_power(base: int, exponent: int) -> int:
    """``base ** exponent`` for exponents that give an int."""
    if exponent < 0:
        raise ValueError("int ** negative int is a float: write float(...) ** ...")
    result = 1
    for _ in range(exponent):
        result *= base
    return result


def greatest_common_divisor(a: int, b: int) -> int:
    """``math.gcd(a, b)``"""
    x = abs(a)
    y = abs(b)
    while y != 0:
        rest = x % y
        x = y
        y = rest
    return x


def rounded(value: float) -> int:
    """``round(value)``: to the nearest, halves to the even one."""
    below = -int_ceil(-value)
    distance = value - below
    if distance < 0.5:
        return below
    if distance > 0.5:
        return below + 1
    return below if below % 2 == 0 else below + 1


def int_ceil(value: float) -> int:
    """``math.ceil(value)``; its calls become the operation."""
    return int(value) + (1 if value > int(value) else 0)


def float_remainder(a: float, b: float) -> float:
    """``a % b``"""
    quotient = float_floor_division(a, b)
    return _exact_difference(a, quotient, b)


def float_floor_division(a: float, b: float) -> float:
    """``a // b``: the quotient of the division rounds, and so may be one too many; the exact remainder tells."""
    if b == 0.0:
        raise ZeroDivisionError("float floor division by zero")
    quotient = float(-int_ceil(-(a / b)))
    rest = _exact_difference(a, quotient, b)
    if (b > 0.0 and rest < 0.0) or (b < 0.0 and rest > 0.0):
        quotient = quotient - 1.0
    elif (b > 0.0 and rest >= b) or (b < 0.0 and rest <= b):
        quotient = quotient + 1.0
    return quotient


def _exact_difference(a: float, quotient: float, b: float) -> float:
    """``a - quotient * b`` without the rounding of the product (Dekker)."""
    high_q = _high_half(quotient)
    high_b = _high_half(b)
    low_q = quotient - high_q
    low_b = b - high_b
    product_ = quotient * b
    error = ((high_q * high_b - product_) + high_q * low_b + low_q * high_b) + low_q * low_b
    return (a - product_) - error


def _high_half(value: float) -> float:
    scaled = value * 134217729.0
    return scaled - (scaled - value)
