"""What helps to test a store and what stands on one: a store in memory, and the contract's test suite."""
