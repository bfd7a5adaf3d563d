"""HTTP for the REST API and the translation API: a server, and bodies of requests."""
