"""How many primes there are: chunk by chunk as the jobs count them, and all at once in another way to compare with."""

from __future__ import annotations

from math import isqrt


def primes_between(low: int, high: int) -> int:
    """How many primes p there are with low <= p < high, by trial division: slow, and needs no memory."""
    return sum(1 for number in range(low, high) if is_prime(number))


def is_prime(number: int) -> bool:
    if number < 4 or number % 2 == 0:
        return number in (2, 3)
    return all(number % divisor for divisor in range(3, isqrt(number) + 1, 2))


def primes_below(high: int) -> int:
    """The same from 0 on, by the sieve of Eratosthenes: fast, in `high` bytes."""
    unmarked = bytearray([1]) * max(high, 2)
    unmarked[0:2] = b"\0\0"
    for number in range(2, isqrt(max(high, 2) - 1) + 1):
        if unmarked[number]:
            unmarked[number * number :: number] = bytes(len(range(number * number, len(unmarked), number)))
    return sum(unmarked)
