"""Estimates from the records of a sampled trace, in the kernel's own fixed point
(kern/src/trace/sampler.cc), so that sums agree to the bit."""
_MEAN_SHIFT = 58
_ONE = 1 << _MEAN_SHIFT
_LN2 = 0xb17217f7d1cf79ab  # ln 2 · 2^64
_LN2_MEAN = _LN2 >> (64 - _MEAN_SHIFT)
_MASK = (1 << 64) - 1
SHIFT = 16  # of a weight


def _exp_minus(x):
    """e^-x · 2^63."""
    halvings = x // _LN2_MEAN
    if halvings >= 63:
        return 0
    t = x % _LN2_MEAN << (64 - _MEAN_SHIFT)
    total = 1 << 63
    for k in range(17, 0, -1):
        total = (1 << 63) - (total * t >> 64) // k
    return total >> halvings


def _series(x):
    """x / (1 - e^-x) · 2^60 for x up to 1."""
    square = x * x >> _MEAN_SHIFT
    total = _ONE // 30240 - square // 1209600
    total = _ONE // 720 - (total * square >> _MEAN_SHIFT)
    total = _ONE // 12 - (total * square >> _MEAN_SHIFT)
    return _ONE + x // 2 + (total * square >> _MEAN_SHIFT) << 2


def weight(size, rate):
    """(bytes, objects) represented by a record of `size` bytes at one sampling point in `rate`
    bytes (0: not sampled), in units of 2^-16."""
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
    """A sum of weights, rounded."""
    return value + (1 << (SHIFT - 1)) >> SHIFT
