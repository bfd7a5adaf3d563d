"""Program `python -m benchmarks.layer_types`."""

from benchmarks.layer_types.run import main

if __name__ == "__main__":
    main()
