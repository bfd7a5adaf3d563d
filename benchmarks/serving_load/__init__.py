"""Load test of a server over gRPC, REST and the translation API."""
