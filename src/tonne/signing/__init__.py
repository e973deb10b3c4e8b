"""Keys with which the operator signs documents, credentials and the transparency log."""
