"""Translation API over HTTP: LibreTranslate's interface before a server of exports."""
