"""Its presence puts this folder on the path, so that tests in every folder below can import `support`."""
