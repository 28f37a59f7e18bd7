"""`make demo`: the dashboard of a market place, whose views follow while its tables change."""
