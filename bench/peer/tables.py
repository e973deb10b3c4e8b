"""The tables of the peer, in a database of its own."""

from datetime import datetime

from sqlalchemy import BigInteger, DateTime, ForeignKeyConstraint, Identity, Index, LargeBinary, UniqueConstraint
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    type_annotation_map = {int: BigInteger, datetime: DateTime(timezone=True), bytes: LargeBinary}  # noqa: RUF012


class AccountRow(Base):
    __tablename__ = "accounts"

    id: Mapped[str] = mapped_column(primary_key=True)
    organisation_id: Mapped[str]
    currency: Mapped[str]
    beneficiary: Mapped[str]
    payment_method: Mapped[str]
    # In hundred-thousandths.
    fee_rate: Mapped[int]
    tax_rate: Mapped[int]
    # Pairs of a bundle's id and its hundredths of a per cent.
    default_selection: Mapped[list[tuple[str, int]]] = mapped_column(JSONB)


class ApiKeyRow(Base):
    __tablename__ = "api_keys"

    secret_hash: Mapped[bytes] = mapped_column(primary_key=True)
    account_id: Mapped[str]
    revoked_at: Mapped[datetime | None]


class BundleRow(Base):
    __tablename__ = "bundles"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    primary_image: Mapped[str | None]
    unit_price_minor: Mapped[int]
    available_grams: Mapped[int]
    enabled: Mapped[bool]


class EstimateRow(Base):
    __tablename__ = "estimates"

    account_id: Mapped[str] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    mass_grams: Mapped[int]


class OrderRow(Base):
    __tablename__ = "orders"

    account_id: Mapped[str] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    idempotency_key: Mapped[str]
    request_digest: Mapped[bytes]
    type: Mapped[str]
    status: Mapped[str]
    currency: Mapped[str]
    payment_method: Mapped[str]
    payment_state: Mapped[str]
    requested_quantity_grams: Mapped[int | None]
    requested_value_minor: Mapped[int | None]
    quantity_grams: Mapped[int]
    offset_cost_minor: Mapped[int]
    total_cost_minor: Mapped[int]
    commission_minor: Mapped[int]
    tax_minor: Mapped[int]
    refunded_minor: Mapped[int]
    estimate_id: Mapped[str | None]
    offset_link_id: Mapped[str | None]
    email: Mapped[str | None]
    beneficiary: Mapped[str]
    failure_reason: Mapped[str | None]
    cancellation_reason: Mapped[str | None]
    # JSON as text, which keeps the order of its keys.
    order_metadata: Mapped[str]
    created_at: Mapped[datetime]

    __table_args__ = (
        UniqueConstraint("account_id", "idempotency_key"),
        Index("orders_by_time", "account_id", "created_at", "id"),
    )


class OrderLineRow(Base):
    __tablename__ = "order_lines"

    account_id: Mapped[str] = mapped_column(primary_key=True)
    order_id: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    bundle_id: Mapped[str]
    bundle_name: Mapped[str]
    primary_image: Mapped[str | None]
    quantity_grams: Mapped[int]
    unit_price_minor: Mapped[int]
    gross_unit_price_minor: Mapped[int]
    offset_cost_minor: Mapped[int]
    insufficient_available_quantity: Mapped[bool]

    __table_args__ = (ForeignKeyConstraint(["account_id", "order_id"], ["orders.account_id", "orders.id"]),)


class OutboxRow(Base):
    """Events to deliver, written in the transaction of the order."""

    __tablename__ = "outbox"

    position: Mapped[int] = mapped_column(Identity(), primary_key=True)
    id: Mapped[str]
    organisation_id: Mapped[str]
    account_id: Mapped[str]
    event_type: Mapped[str]
    payload: Mapped[str]
    created_at: Mapped[datetime]
