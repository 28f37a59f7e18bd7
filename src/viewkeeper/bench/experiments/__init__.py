"""One module per experiment, named for what it measures. Each says where it comes from and what limits it."""
