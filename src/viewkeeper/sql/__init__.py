"""Text -> frozen values that say what to do. The only package that knows sqlglot."""
