"""Continuous queries while rows arrive: inputs, the flow through a plan, subscriptions (docs/design/010).

The queue of an input is the stream itself, in which a subscription has a position: so it holds whatever does not fit
into memory, and a row that was taken is never taken again, whoever appended it, and however often it was interrupted.
"""
