from tonne.platform.values.errors import Kind, TonneError


class AddressNotFound(TonneError, kind=Kind.INVALID, code="address_not_found"):
    """An address has no city, or the city or country is not in the list, which has cities with at least 15,000
    inhabitants.

    Name the next larger city with its `country_code`, or send `lat` and `lon`.
    """

    message = (
        "There is no city of this name in our list, which has cities with at least 15,000 inhabitants. Name the next "
        "larger one with its country_code, or send lat and lon."
    )


class LocodeNotFound(TonneError, kind=Kind.INVALID, code="locode_not_found"):
    """The UN/LOCODE is not in the list of ports.

    Send a city, or `lat` and `lon`.
    """

    message = (
        "This UN/LOCODE is not in our list, which has ports such as NLRTM. "
        "Send the city and its country_code, or lat and lon."
    )


class PortNotFound(TonneError, kind=Kind.INVALID, code="port_not_found"):
    """A route by sea begins or ends more than 100 km away from a seaport.

    Send the `locode` of a port, and the way to it as a leg of its own.
    """

    message = "There is no seaport within 100 km of this place. Send the locode of a port, and the way to it as a leg."


class TransportRouteNotFound(TonneError, kind=Kind.INVALID, code="route_not_found"):
    message = "There is no such route. Send its length as amount and unit, or split it into legs."


class SourceCodeInvalid(TonneError, kind=Kind.INVALID, code="source_location_code_invalid"):
    """There is no airport with the `code` of the source.

    Send an IATA or ICAO code.
    """

    message = "There is no airport with this code at the source. Send an IATA or ICAO code, such as LHR or EGLL."


class DestinationCodeInvalid(TonneError, kind=Kind.INVALID, code="destination_location_code_invalid"):
    """There is no airport with the `code` of the destination.

    Send an IATA or ICAO code.
    """

    message = "There is no airport with this code at the destination. Send an IATA or ICAO code, such as LHR or EGLL."
