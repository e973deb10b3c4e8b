"""The checks, one module for each section of the interface."""

# In the order of the interface.
MODULES = (
    "preamble",
    "overview",
    "orders",
    "order_rules",
    "items",
    "lists",
    "states",
    "idempotency",
    "placing",
    "bundles",
    "payments",
    "registration",
    "delivery",
    "authentication",
    "signatures",
    "events",
    "guarantees",
    "timeouts",
    "modes",
    "limits",
)
