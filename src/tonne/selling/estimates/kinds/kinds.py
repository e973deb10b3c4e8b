"""The kinds of estimates of this package."""

from collections.abc import Sequence
from typing import Any

from tonne.selling.estimates.calculated import EstimateKind
from tonne.selling.estimates.kinds.electricity import ELECTRICITY
from tonne.selling.estimates.kinds.emission_factor import EMISSION_FACTOR
from tonne.selling.estimates.kinds.flight import FLIGHT
from tonne.selling.estimates.kinds.hotel import HOTEL
from tonne.selling.estimates.kinds.passenger import PASSENGER_TRANSPORTATION

KINDS: Sequence[EstimateKind[Any]] = (FLIGHT, ELECTRICITY, PASSENGER_TRANSPORTATION, HOTEL, EMISSION_FACTOR)
