"""What helps to test a store and what stands on one: a store in memory, the contract's test suite, a checker of histories."""
