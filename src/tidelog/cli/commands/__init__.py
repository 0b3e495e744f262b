"""The commands, in families: their options and what they do. What takes long to load is loaded when one runs."""
