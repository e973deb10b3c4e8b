"""What replaces the data of a person who was erased."""

from tonne_verify import openings

# In the place of an e-mail address or a name. No valid address is equal to it.
ERASED = openings.ERASED
# In the place of the digest of a request that contained the data: a repeat of the request counts as different.
ERASED_DIGEST = bytes(32)
