"""Stripe's secret key: its mode, and whether Stripe accepts it, asked before the service starts."""

import re

import aiohttp

from tonne.platform.values.context import Mode

STRIPE = "https://api.stripe.com"
TIMEOUT_S = 10.0
_KEY = re.compile(r"[sr]k_(live|test)_[A-Za-z0-9_]{1,250}")


class StripeKeyRejected(Exception):
    """Stripe does not accept the key, or it belongs to the test mode."""


class StripeNotReached(Exception):
    """Whether Stripe accepts the key is not known."""


def mode_of_key(secret_key: str) -> Mode:
    key = _KEY.fullmatch(secret_key)
    if key is None:
        raise ValueError(
            "The Stripe secret key must start with sk_live_ or rk_live_ and contain no spaces. Check "
            "TONNE_STRIPE_SECRET_KEY."
        )
    return Mode(key[1])


async def check_stripe_key(secret_key: str, api_base: str) -> None:
    """Raises StripeKeyRejected or StripeNotReached.

    The balance is what every secret key may read. A restricted key may lack the permission: Stripe's 403 then still
    shows that it knows the key.
    """
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(
                f"{(api_base or STRIPE).rstrip('/')}/v1/balance",
                headers={"Authorization": f"Bearer {secret_key}"},
                allow_redirects=False,
            ) as response,
        ):
            status = response.status
            is_live = status != 200 or (await response.json()).get("livemode", True)
    except (aiohttp.ClientError, TimeoutError, ValueError, AttributeError) as error:
        raise StripeNotReached(str(error) or type(error).__name__) from error
    if status == 401:
        raise StripeKeyRejected("Stripe does not know the key: it was revoked, or is not complete")
    if not is_live:
        raise StripeKeyRejected("Stripe says that the key belongs to its test mode")
    if status not in {200, 403}:
        raise StripeNotReached(f"unexpected status {status}")
