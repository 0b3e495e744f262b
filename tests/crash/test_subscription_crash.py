"""Power losses while subscriptions are kept, dropped and begun anew: none goes back to what it was before."""

from __future__ import annotations

import pytest

import tidelog.store.subscriptions as subscriptions
from support.media.crash import Crash, RecordingMedium, kills, power_losses
from tidelog.store.subscriptions import Kept, SubscriptionLog, drop_subscription

STEPS = 12


def lived() -> RecordingMedium:
    """Steps of several journals, twice, and a drop in between and at the end."""
    medium = RecordingMedium()
    medium.make_directory("")
    for life in range(2):
        with SubscriptionLog.open(medium, "n") as log:
            for step in range(STEPS):
                medium.mark(("begun", life, step))
                log.commit(Kept({"life": life, "step": step}, {f"{step // 5}": bytes(40)}, bytes(step)))
                medium.mark(("kept", life, step))
        medium.mark(("dropping", life, STEPS))
        drop_subscription(medium, "n")
        medium.mark(("dropped", life, STEPS))
    return medium


def judge(crash: Crash) -> None:
    with SubscriptionLog.open(crash.medium(), "n") as log:
        kept = log.kept
    what, life, step = crash.marks[-1] if crash.marks else ("dropped", 0, STEPS)
    found = None if kept is None else (kept.values["life"], kept.values["step"], len(bytes(kept.output)))  # type: ignore[arg-type]
    before = (life, step - 1, step - 1) if step else None
    allowed = {
        "begun": {before, (life, step, step)},
        "kept": {(life, step, step)},
        "dropping": {before, None},
        "dropped": {None},
    }[what]
    assert found in allowed, crash


def test_none_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "_LONG", 900)
    medium = lived()
    assert len({operation.name for operation in medium.log if hasattr(operation, "name")}) > 4
    for crash in (*power_losses(medium), *kills(medium)):
        judge(crash)
