"""Documents WMT14 and checks a prepared copy of it; the builder is TFDS's own."""
