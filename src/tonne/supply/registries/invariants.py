from tonne.platform.db.invariant import Invariant

INVARIANTS = (
    Invariant(
        "parcels are retired by the requests that registries have served",
        "A registry has refused to retire the parcel, or has retired it without a record here.",
        """
        SELECT format('parcel %s, request %s: %s', parcel.id, instruction.id, instruction.state) AS "where"
        FROM parcels parcel JOIN registry_instructions instruction ON instruction.id = parcel.instruction_id
        WHERE instruction.mode <> parcel.mode OR instruction.state = 'declined'
           OR (parcel.status = 'to_retire' AND instruction.state = 'retired')
        """,
    ),
    Invariant(
        "every recorded retirement exists at the simulated registry",
        "A recorded retirement is unknown to the registry, or one that was refused exists there.",
        """
        SELECT format('request %s is %s, at the registry %s', instruction.id, instruction.state,
                      coalesce(simulated.state, 'unknown')) AS "where"
        FROM registry_instructions instruction
        LEFT JOIN simulated_retirements simulated ON simulated.registry_account = instruction.registry_account
                                                 AND simulated.key = instruction.id
        WHERE instruction.registry_account LIKE 'sim-%' AND instruction.closed_at IS NOT NULL
          AND (instruction.state = 'retired') <> (coalesce(simulated.state, 'unknown') = 'retired')
        """,
    ),
)
