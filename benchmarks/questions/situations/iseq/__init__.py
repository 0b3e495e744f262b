"""An operator in the way of ISEQ: situations that have ended, at the last end, by scanning buffers."""
