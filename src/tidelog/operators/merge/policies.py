"""Policies by name, as :mod:`tidelog.operators.merge.reference.policies` has them in words."""

from __future__ import annotations

from typing import Final

from tidelog.model.errors import InputError, did_you_mean
from tidelog.model.times.clock import Clock
from tidelog.operators.merge import codes
from tidelog.operators.merge.batches.engine import Policy

POLICIES: Final = {
    "lazy": codes.LAZY,
    "aggressive": codes.AGGRESSIVE,
    "conservative": codes.FULLY_FROZEN,
    "half-frozen": codes.HALF_FROZEN,
    "open-ended": codes.OPEN_ENDED,
    "leader": codes.LEADER,
    "leader-by-start": codes.LEADER_BY_START,
    "leader-by-unfrozen": codes.LEADER_BY_UNFROZEN,
    "fraction": codes.FRACTION,
    "lagging": codes.LAGGING,
    "exact": codes.EXACT,
}


def policy_of(text: str, clock: Clock) -> Policy:
    """The policy of a text: its name; behind ``fraction`` stands the share of inputs, behind ``lagging`` a duration.

    Raises :class:`InputError` for what is none, :class:`~tidelog.model.errors.TimeError` for what is no duration.
    """
    name, _, value = text.strip().partition(" ")
    if name not in POLICIES:
        raise InputError(f"there is no policy {name!r}; {did_you_mean(name, POLICIES)}")
    code = POLICIES[name]
    if code == codes.FRACTION:
        try:
            share = float(value)
        except ValueError:
            share = -1.0
        if not 0 < share <= 1:
            raise InputError(
                f"found the policy {text!r}; expected a share of the inputs above 0 and up to 1, as in 'fraction 0.5'"
            )
        return Policy(code, share=share)
    if code == codes.LAGGING:
        if not value:
            raise InputError(f"found the policy {text!r}; expected how far it lags, as in 'lagging 10s'")
        return Policy(code, delay=clock.duration(int(value) if value.strip().isdecimal() else value))
    if value:
        raise InputError(f"found the policy {text!r}; expected nothing behind {name!r}")
    return Policy(code)
