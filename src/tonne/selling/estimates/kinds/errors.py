from tonne.platform.values.errors import Kind, TonneError


class AirportInvalid(TonneError, kind=Kind.INVALID, code="airport_invalid"):
    """There is no airport with this code.

    Send its IATA code, such as `BER`, or its ICAO code, such as `EDDB`.
    """

    message = "There is no airport with this code. Send its IATA code, such as BER, or its ICAO code, such as EDDB."


class RouteRequired(TonneError, kind=Kind.INVALID, code="airport_route_required"):
    """A route has neither two airports nor a distance, or both.

    Send `source` and `destination`, or `amount` and `unit`.
    """

    message = (
        "Send a route: source and destination, each with the code of an airport, or a distance with amount and unit."
    )


class DistanceInvalid(TonneError, kind=Kind.INVALID, code="distance_invalid"):
    """A distance is 0 or more than 100,000 km, or both ends of a route are the same.

    Check amount and unit, or the two places.
    """

    message = "The distance must be more than 0 and at most 100,000 km. Check amount and unit, or the two places."


class CountryInvalid(TonneError, kind=Kind.INVALID, code="estimate_country_invalid"):
    """There is no emission factor for the country.

    Send another ISO 3166 code; the message says which exist or what else to do.
    """

    message = "There is no emission factor for this country. Send an ISO 3166 code, such as DEU."
