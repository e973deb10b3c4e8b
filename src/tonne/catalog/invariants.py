from tonne.db.invariant import Invariant

INVARIANTS = (
    Invariant(
        "no serial number is in two lots",
        "A credit could be sold twice.",
        """
        SELECT format('lots %s and %s', one.id, other.id) AS "where"
        FROM lots one JOIN lots other
          ON one.serial_block = other.serial_block AND one.id < other.id
         AND one.first_number <= other.last_number AND one.last_number >= other.first_number
        """,
    ),
    Invariant(
        "no lot is over-allocated",
        "More grams were allocated from a lot than it holds.",
        """
        SELECT format('lot %s: %s of %s g', id, allocated_grams, quantity_grams) AS "where"
        FROM lots WHERE allocated_grams < 0 OR allocated_grams > quantity_grams
        """,
    ),
)
