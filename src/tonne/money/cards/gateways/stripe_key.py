"""Asks Stripe whether it accepts the secret key, before the service starts."""

import aiohttp

STRIPE = "https://api.stripe.com"
TIMEOUT_S = 10.0


class StripeKeyRejected(Exception):
    """Stripe does not accept the key, or it belongs to the test mode."""


class StripeNotReached(Exception):
    """Whether Stripe accepts the key is not known."""


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
