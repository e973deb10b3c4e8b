"""What the dishonest seller says, and what somebody honest would say in the same situation.

`python -m tests.verify.lies FOLDER` writes each lie as files, an honest twin of each, and `lies.json`, which says how
each must be told.
"""

import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.verify.dishonest_pdf import Pdf, issuer_with_pdf, pdf_of
from tests.verify.dishonest_seller import (
    SERIAL,
    Certificate,
    Json,
    Listed,
    Logs,
    Retirement,
    issuer_file,
    policy,
    tell,
)


@dataclass(frozen=True)
class Lie:
    """The files of the lie, and those of somebody honest in the same situation."""

    code: int
    sentence: str
    files: Sequence[Certificate | Listed | Pdf]
    twin: Sequence[Certificate | Listed | Pdf]
    issuer: Json = field(default_factory=issuer_file)


LATER = "2024-05-04T11:00:00Z"
HONEST = Certificate()
OTHER = Certificate(number="EEEE-FFFF-GGGG-HHHH", retirements=(Retirement(19, 20, parcel="par_2"),))


def changed(made: Certificate, **changes: Any) -> Certificate:
    return dataclasses.replace(made, **changes)


def listed(*made: Certificate) -> Listed:
    return Listed(made)


def lies() -> dict[str, Lie]:
    return {
        **lies_about_the_log(),
        **lies_about_time(),
        **lies_about_tonnes(),
        **lies_about_statements(),
        **lies_about_names(),
        **lies_of_several_files(),
        **lies_of_pdfs(),
    }


def lies_about_the_log() -> dict[str, Lie]:
    ended = "2024-06-01T00:00:00Z"
    withdrawn = (("certificate.withdrawn", {"number": HONEST.number}, ended),)
    labelled, other_label = Retirement(labels=("CCP",)), Retirement(labels=("ICROA",))
    removal = Retirement(mechanism="removal")
    replaced = (("certificate.replaced", {"number": HONEST.number, "replaced_by": OTHER.number}, ended),)
    return {
        "never_logged": Lie(3, "no proof that it is in the log", [changed(HONEST, logged=False)], [HONEST]),
        "not_cosigned": Lie(3, "there is none", [changed(HONEST, cosigned_at=None)], [HONEST]),
        "invented_witness": Lie(3, "only the seller names this key", [changed(HONEST, witness="invented")], [HONEST]),
        "famous_name": Lie(3, "not by the key that you trust", [changed(HONEST, witness="impostor")], [HONEST]),
        "test": Lie(4, "no credits were retired", [changed(HONEST, mode="test")], [HONEST]),
        "withdrawn": Lie(1, f"withdrawn at {ended}", [changed(HONEST, later=withdrawn)], [HONEST]),
        "replaced": Lie(1, f"replaced this one, at {ended}", [changed(HONEST, later=replaced)], [HONEST]),
        "says_live_but_logs_test": Lie(
            1, "`mode` is 'live'", [changed(HONEST, mode="test", contradiction=(("mode", "live"),))], [HONEST]
        ),
        "label_that_is_not_logged": Lie(
            1,
            "`lines 1.facts.labels` is ['CCP'] in the credential, but the log does not state it",
            [changed(HONEST, contradiction=(("lines", [labelled.line]),))],
            [changed(HONEST, retirements=(labelled,))],
        ),
        "another_label_than_is_logged": Lie(
            1,
            "`lines 1.facts.labels 1` is 'CCP' in the credential, but 'ICROA' in the log",
            [changed(HONEST, retirements=(other_label,), contradiction=(("lines", [labelled.line]),))],
            [changed(HONEST, retirements=(other_label,))],
        ),
        "removal_that_is_not_logged": Lie(
            1,
            "`lines 1.facts.mechanism` is 'removal' in the credential, but the log does not state it",
            [changed(HONEST, contradiction=(("lines", [removal.line]),))],
            [changed(HONEST, retirements=(removal,))],
        ),
        "says_more_than_it_logs": Lie(
            1, "`total_quantity` is '2000'", [changed(HONEST, contradiction=(("total_quantity", "2000"),))], [HONEST]
        ),
    }


def lies_about_time() -> dict[str, Lie]:
    today = "2026-11-19T10:00:00Z"
    late = changed(HONEST, cosigned_at="2024-05-06T10:00:01Z")
    just_in_time = changed(HONEST, cosigned_at="2024-05-06T10:00:00Z")
    dated_forward = (Retirement(retired_on="2031-05-03"),)
    next_day = (Retirement(retired_on="2024-05-05"),)
    young = issuer_file(key_from="2026-01-01T00:00:00Z")
    return {
        "dated_back": Lie(
            3,
            "It claims 2024-05-04 10:00 UTC, and is proven since 2026-11-19 10:00 UTC only",
            [changed(HONEST, cosigned_at=today)],
            [HONEST],
        ),
        "a_second_too_late": Lie(3, "is proven since 2024-05-06", [late], [just_in_time]),
        "dated_back_in_a_list": Lie(
            3,
            "is proven since 2026-11-19",
            [listed(OTHER, changed(HONEST, cosigned_at=today))],
            [listed(OTHER, HONEST)],
        ),
        "dated_forward": Lie(
            1, "a witness had cosigned it by", [changed(HONEST, issued_at="2024-05-10T10:00:00Z")], [HONEST]
        ),
        "retired_later": Lie(
            1,
            "a retirement that it states is dated 2031-05-03",
            [changed(HONEST, retirements=dated_forward)],
            [changed(HONEST, retirements=next_day)],
        ),
        "signed_before_the_key_was_made": Lie(
            1,
            "The signature is dated 2024-05-04, but the key was made on 2026-01-01",
            [HONEST],
            [changed(HONEST, signed_at="2026-01-01T00:00:00Z")],
            young,
        ),
    }


def lies_about_tonnes() -> dict[str, Lie]:
    thousand = Retirement(retired="1000", claimed="1000")
    real_thousand = Retirement(17, 1016, "1000", "1000")
    overlap = (Retirement(1, 100, "100", "100"), Retirement(51, 150, "100", "100", parcel="par_2"))
    apart = (overlap[0], Retirement(101, 200, "100", "100", parcel="par_2"))
    isometric = "ISO-1-BSTORE-GBR-F5X7-2024-{}-{}"
    kilograms = Retirement(1, 3000, "3000", "3000", serial=isometric, registry="isometric", project="F5X7")
    three = dataclasses.replace(kilograms, retired="3", claimed="3")
    plain = Retirement(retired="3", claimed="3", serial="BLOCK 7 {}\u2013{}", registry="small registry")
    real_plain = dataclasses.replace(plain, last=19)
    return {
        "thousand_tonnes_of_two": Lie(
            1,
            "has 2 t, not the 1000 t",
            [changed(HONEST, total="1000", retirements=(thousand,))],
            [changed(HONEST, total="1000", retirements=(real_thousand,))],
        ),
        "kilograms_as_tonnes": Lie(
            1,
            "has 3 t, not the 3000 t",
            [changed(HONEST, total="3000", retirements=(kilograms,))],
            [changed(HONEST, total="3", retirements=(three,))],
        ),
        "more_than_the_units_of_a_small_registry": Lie(
            1,
            "has 2 t, not the 3 t",
            [changed(HONEST, total="3", retirements=(plain,))],
            [changed(HONEST, total="3", retirements=(real_plain,))],
        ),
        "serial_of_no_form": Lie(
            3,
            "its tonnes were not counted",
            [changed(HONEST, retirements=(dataclasses.replace(plain, retired="2", claimed="2", serial="a few"),))],
            [changed(HONEST, retirements=(dataclasses.replace(plain, retired="2", claimed="2"),))],
        ),
        "overlap_in_one_certificate": Lie(
            1,
            "overlap: a tonne is counted twice",
            [changed(HONEST, total="200", retirements=overlap)],
            [changed(HONEST, total="200", retirements=apart)],
        ),
        "more_than_was_retired": Lie(
            1,
            "more tonnes of",
            [changed(HONEST, total="2", retirements=(Retirement(retired="1"),))],
            [changed(HONEST, total="1", retirements=(Retirement(retired="1", claimed="1"),))],
        ),
        "lines_that_do_not_add_up": Lie(1, "do not add up", [changed(HONEST, total="3")], [HONEST]),
    }


def lies_about_statements() -> dict[str, Lie]:
    serial = "ISO-1-BSTORE-GBR-F5X7-2024-{}-{}"
    short_code = Retirement(1, 2000, serial=serial, registry="isometric", project="Biochar of Britain")
    return {
        "another_vintage": Lie(
            1,
            "is of 2024, not of the vintage 2008",
            [changed(HONEST, retirements=(Retirement(vintage="2008"),))],
            [HONEST],
        ),
        "another_project": Lie(
            1,
            "is of project 1, not of VCS-1340",
            [changed(HONEST, retirements=(Retirement(project="VCS-1340"),))],
            [changed(HONEST, retirements=(Retirement(project="VCS-0001"),))],
        ),
        "another_project_with_a_short_code": Lie(
            1,
            "is of project F5X7, not of Biochar of Britain",
            [changed(HONEST, retirements=(short_code,))],
            [changed(HONEST, retirements=(dataclasses.replace(short_code, alias="F5X7"),))],
        ),
        "another_country": Lie(
            1,
            "is of the country KE, not of Norway",
            [changed(HONEST, retirements=(Retirement(country="Norway"),))],
            [changed(HONEST, retirements=(Retirement(country="Kenya"),))],
        ),
        "another_country_in_three_letters": Lie(
            1,
            "is of the country GBR, not of Kenya",
            [changed(HONEST, retirements=(dataclasses.replace(short_code, alias="F5X7", country="Kenya"),))],
            [changed(HONEST, retirements=(dataclasses.replace(short_code, alias="F5X7", country="united kingdom"),))],
        ),
        "a_number_in_another_spelling": Lie(
            1,
            "is not a quantity in tonnes",
            [changed(HONEST, total="2_0", retirements=(Retirement(17, 36, "20", "20"),))],
            [changed(HONEST, total="20", retirements=(Retirement(17, 36, "20", "20"),))],
        ),
        "a_retirement_before_and_after_its_correction": Lie(
            1,
            "was revised in entry",
            [changed(HONEST, total="4", retirements=(Retirement(), Retirement(19, 20, revision=2)))],
            [changed(HONEST, total="4", retirements=(Retirement(), Retirement(19, 20, parcel="par_2")))],
        ),
        "one_retirement_with_two_statements": Lie(
            1,
            "has two statements that differ",
            [changed(HONEST, total="4", retirements=(Retirement(), Retirement(19, 20)))],
            [changed(HONEST, total="4", retirements=(Retirement(), Retirement(19, 20, parcel="par_2")))],
        ),
    }


def lies_about_names() -> dict[str, Lie]:
    """The seller hands out an entry without its names, as if a person had been erased, and states others."""
    erased = (("beneficiary", "erased"),)

    def assigned_to(name: str) -> Certificate:
        retired = Retirement(in_advance=(("retired_by", "Cheap Tonnes"), ("assigned_on", "2024-05-04")))
        in_advance = {**dict(retired.in_advance), "assigned_to": name}
        lines = [{**retired.line, "registry_name": "Acme", "in_advance": in_advance}]
        return changed(HONEST, names_kept=False, retirements=(retired,), contradiction=(*erased, ("lines", lines)))

    return {
        "name_that_is_not_logged": Lie(
            1, "The statement in the log has no names", [changed(HONEST, names_hashed=False)], [HONEST]
        ),
        "another_name_than_is_logged": Lie(
            1,
            "`beneficiary` is 'Zebra Inc' in the credential, but 'Acme Ltd' in the log",
            [changed(HONEST, contradiction=(("beneficiary", "Zebra Inc"),))],
            [HONEST],
        ),
        "name_left_out": Lie(
            3,
            "`beneficiary` is 'Acme Ltd' in the credential, but nothing shows that the log states it",
            [changed(HONEST, names_kept=False)],
            [changed(HONEST, names_kept=False, contradiction=erased)],
        ),
        "assigned_name_left_out": Lie(
            3, "`assigned_to` is 'Zebra Inc' in the credential", [assigned_to("Zebra Inc")], [assigned_to("erased")]
        ),
    }


def lies_of_several_files() -> dict[str, Lie]:
    same = changed(OTHER, retirements=HONEST.retirements)
    # A unit of two tonnes that two customers share.
    one, other = (Retirement(claimed=each) for each in ("1.5", "0.5"))
    shares = [changed(HONEST, total="1.5", retirements=(one,)), changed(OTHER, total="0.5", retirements=(other,))]
    greedy = [shares[0], changed(OTHER, total="0.6", retirements=(Retirement(claimed="0.6"),))]
    spelt = Retirement(18, 19, parcel="par_2", serial=SERIAL.replace("-", "\u2013").lower(), registry="VCS")
    revised = Retirement(19, 20, parcel="par_1", revision=2)
    renamed = changed(HONEST, beneficiary="Zebra Inc")
    reopened = changed(HONEST, generation="/2")
    replacing = changed(OTHER, replaces=HONEST.number, retirements=HONEST.retirements)
    return {
        "one_retirement_twice": Lie(1, "a tonne is counted twice", [HONEST, same], [HONEST, OTHER]),
        "shares_above_the_unit": Lie(1, "2.1 t of", greedy, shares),
        "overlap_in_other_spelling": Lie(
            1, "overlap: a tonne is counted twice", [HONEST, changed(OTHER, retirements=(spelt,))], [HONEST, OTHER]
        ),
        "overlap_in_a_list": Lie(
            1,
            "overlap: a tonne is counted twice",
            [listed(HONEST, changed(OTHER, retirements=(Retirement(18, 19, parcel="par_2"),)))],
            [listed(HONEST, OTHER)],
        ),
        "a_list_and_a_file": Lie(1, "a tonne is counted twice", [listed(HONEST), same], [listed(HONEST), OTHER]),
        "one_number_two_statements": Lie(
            1,
            "has two statements that differ",
            [HONEST, changed(OTHER, number=HONEST.number)],
            [HONEST, HONEST],
        ),
        "one_number_two_names": Lie(1, "has two names: 'Acme Ltd' in", [HONEST, renamed], [HONEST, reopened]),
        "one_number_two_names_in_a_list": Lie(
            1, "has two names", [listed(HONEST), renamed], [listed(HONEST), changed(reopened, beneficiary="erased")]
        ),
        "one_number_two_names_in_two_logs": Lie(
            1, "has two names", [HONEST, changed(reopened, beneficiary="Zebra Inc")], [HONEST, reopened]
        ),
        "one_number_logged_twice": Lie(
            1, "is issued by two entries", [HONEST, changed(HONEST, cosigned_at=LATER)], [HONEST, HONEST]
        ),
        "revised_after_it_was_stated": Lie(
            1, "was revised in", [HONEST, changed(OTHER, retirements=(revised,))], [HONEST, OTHER]
        ),
        "two_histories": Lie(
            1, "has signed two trees that do not agree", [HONEST, changed(OTHER, history="other")], [HONEST, OTHER]
        ),
        "two_histories_in_a_list": Lie(
            1,
            "has signed two trees that do not agree",
            [listed(HONEST, changed(OTHER, history="other"))],
            [listed(HONEST, OTHER)],
        ),
        "two_histories_of_one_size": Lie(
            1, "has signed two trees that do not agree", [HONEST, changed(HONEST, history="other")], [HONEST, HONEST]
        ),
        "replaced_and_counted": Lie(
            1, "was replaced by EEEE-FFFF-GGGG-HHHH on 2024-05-04", [HONEST, replacing], [replacing]
        ),
    }


def lies_of_pdfs() -> dict[str, Lie]:
    twin = [Pdf(HONEST)]
    return {
        "pdf_page_replaced": Lie(1, "Something was added to the PDF", [Pdf(HONEST, "page replaced")], twin),
        "pdf_attachment_replaced": Lie(1, "Something was added to the PDF", [Pdf(HONEST, "attachment replaced")], twin),
        "pdf_signed_by_somebody": Lie(
            1, "with a key that the issuer file does not list", [Pdf(HONEST, "signed by somebody")], twin
        ),
        "pdf_proof_of_another": Lie(
            1, "is not the proof in the credential", [Pdf(HONEST, "proof of another")], [Pdf(OTHER), *twin]
        ),
        "pdf_stamped_late": Lie(3, "Its signature is dated", [Pdf(HONEST, "stamped late")], twin),
        "pdf_of_another_name": Lie(
            1,
            "`beneficiary` is 'Zebra Inc' in the credential",
            [Pdf(changed(HONEST, contradiction=(("beneficiary", "Zebra Inc"),)))],
            twin,
        ),
        "pdf_and_file_of_one_retirement": Lie(
            1,
            "a tonne is counted twice",
            [Pdf(HONEST), changed(OTHER, retirements=HONEST.retirements)],
            [Pdf(HONEST), HONEST, OTHER],
        ),
    }


def write(folder: Path) -> None:
    found = {}
    (folder / "policy").write_text(policy())
    for name, lie in lies().items():
        (folder / name).mkdir(parents=True)
        files = [*lie.files, *lie.twin]
        issuer = issuer_with_pdf(lie.issuer) if any(isinstance(each, Pdf) for each in files) else lie.issuer
        (folder / name / "issuer.json").write_text(json.dumps(issuer))
        for kind, told in (("lie", lie.files), ("twin", lie.twin)):
            (folder / name / kind).mkdir()
            logs = Logs()
            for index, each in enumerate(told):
                path = folder / name / kind / str(index)
                if isinstance(each, Pdf):
                    path.with_suffix(".pdf").write_bytes(pdf_of(each, logs))
                else:
                    path.with_suffix(".json").write_text(json.dumps(tell([each], logs)[0]))
        found[name] = {"code": lie.code, "sentence": lie.sentence}
    (folder / "lies.json").write_text(json.dumps(found))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
