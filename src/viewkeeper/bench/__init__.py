"""How fast the project is, beside the same work done by hand: `python -m viewkeeper.bench`, or `make bench`.

One module per benchmark, with one function that measures and yields outcomes; `registry` knows them by name. A figure is
shown only for work whose result was compared with what it should be and found right.
"""
