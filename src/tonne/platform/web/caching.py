"""How long browsers and caches may keep what the public pages return."""

# The figures change only when an order completes, so they may be a minute old.
ONE_MINUTE = {"Cache-Control": "public, max-age=60"}
ONE_YEAR = {"Cache-Control": "public, max-age=31536000, immutable"}
# Opened on its own, an image can load and run nothing.
IMAGE_POLICY = {"Content-Security-Policy": "default-src 'none'"}
