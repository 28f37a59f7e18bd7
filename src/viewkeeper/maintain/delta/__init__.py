"""The delta rules, one module per operator: how the change of an input becomes the change of an output."""
