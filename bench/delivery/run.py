from collections.abc import Set as AbstractSet

from bench.delivery.growth import event_growth
from bench.delivery.idle_look import idle_look
from bench.delivery.latency import latency
from bench.delivery.single_event import single_event_cpu
from bench.delivery.throughput import deliver_200, deliver_one
from bench.delivery.webhooks import open_delivery
from bench.pace import QUICK_DELIVERY, DeliveryPace
from bench.report import Report

NAMES = ("latency", "single_event_cpu", "idle_look", "deliver_one", "deliver_200", "hanging", "event_growth")


async def run(names: AbstractSet[str], report: Report, *, quick: bool) -> None:
    pace = QUICK_DELIVERY if quick else DeliveryPace()
    async with open_delivery() as delivery:
        # Create the first orders: the others are copies of one of them. Four at once, to open connections of the api.
        environment = delivery.environment
        environment.run_load(environment.create_requests(), connections=4, seconds=0.3)
        if "latency" in names:
            report.add(*await latency(delivery, pace))
        if "single_event_cpu" in names:
            report.add(*await single_event_cpu(delivery, pace))
        if "idle_look" in names:
            report.add(await idle_look(delivery, pace))
        if "deliver_one" in names:
            report.add(*await deliver_one(delivery, pace))
        if not names.isdisjoint({"deliver_200", "hanging"}):
            report.add(*await deliver_200(delivery, pace, names))
        if "event_growth" in names:
            report.add(*await event_growth(delivery, pace))
