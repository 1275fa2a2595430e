"""Computes estimates from the records of a sampled trace. Uses the fixed-point arithmetic of kern/trace/record/sampler.cc, so that the sums equal the
kernel's sums in every bit."""
_MEAN_SHIFT = 58
_ONE = 1 << _MEAN_SHIFT
_LN2 = 0xb17217f7d1cf79ab  # ln 2 · 2^64
_LN2_MEAN = _LN2 >> (64 - _MEAN_SHIFT)
_MASK = (1 << 64) - 1
SHIFT = 16  # bits after the binary point of a weight


def _exp_minus(x):
    """Returns e^-x · 2^63, for x in units of 2^-_MEAN_SHIFT."""
    halvings = x // _LN2_MEAN
    if halvings >= 63:
        return 0
    t = x % _LN2_MEAN << (64 - _MEAN_SHIFT)
    total = 1 << 63
    for k in range(17, 0, -1):
        total = (1 << 63) - (total * t >> 64) // k
    return total >> halvings


def _series(x):
    """Returns x / (1 - e^-x) · 2^60 for 0 < x ≤ 1. x is in units of 2^-_MEAN_SHIFT."""
    square = x * x >> _MEAN_SHIFT
    total = _ONE // 30240 - square // 1209600
    total = _ONE // 720 - (total * square >> _MEAN_SHIFT)
    total = _ONE // 12 - (total * square >> _MEAN_SHIFT)
    return _ONE + x // 2 + (total * square >> _MEAN_SHIFT) << 2


def weight(size, rate):
    """Returns the (bytes, objects) that a record of `size` bytes represents, in units of 2^-16. `rate`: the average number of bytes per
    sampling point; 0 if the trace is not sampled."""
    if rate == 0 or size == 0:
        return size << SHIFT, 1 << SHIFT
    x = min(size * (_ONE // rate), _MASK)
    if x > _ONE:
        p = (1 << 31) - (_exp_minus(x) >> 32)
        each = (1 << 63) // p
        return size * each >> (32 - SHIFT), each >> (32 - SHIFT)
    size_by_p = rate * _series(x) >> (60 - 29)
    return size_by_p >> (29 - SHIFT), size_by_p // size >> (29 - SHIFT)


def whole(value):
    """Returns a sum of weights rounded to a whole number."""
    return value + (1 << (SHIFT - 1)) >> SHIFT
