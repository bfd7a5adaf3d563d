"""Station 1: text comes in, subword ids go out, and back again."""
