"""The kinds of estimates of this package."""

from collections.abc import Sequence
from typing import Any

from tonne.calculations.electricity import ELECTRICITY
from tonne.calculations.emission_factor import EMISSION_FACTOR
from tonne.calculations.flight import FLIGHT
from tonne.calculations.hotel import HOTEL
from tonne.calculations.passenger import PASSENGER_TRANSPORTATION
from tonne.estimates.calculated import EstimateKind

KINDS: Sequence[EstimateKind[Any]] = (FLIGHT, ELECTRICITY, PASSENGER_TRANSPORTATION, HOTEL, EMISSION_FACTOR)
