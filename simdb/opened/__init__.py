"""A collection as the engine uses it: settings, signer, catalogue."""
