"""The pictures of bundles and projects: what pages show now, and uploading others."""

from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import Form, OperatorViewer
from tonne.platform.http.limits.turns import in_turn
from tonne.platform.http.route import Response
from tonne.platform.web.render import see_other
from tonne.selling.catalogue.errors import PictureInvalid, PictureSubjectNotFound
from tonne.selling.catalogue.pictures.import_pictures import NamedPicture, import_pictures
from tonne.selling.catalogue.pictures.model import MAX_FILE_BYTES, Picture
from tonne.selling.catalogue.pictures.pictures import PictureKind, bundle_picture, project_picture
from tonne.selling.catalogue.store import load_catalogue

PICTURES = "/catalogue/pictures"
# Large pictures are imported by the command: each upload is held in memory.
MAX_UPLOAD_BYTES = MAX_FILE_BYTES // 2


class PicturesPage(DashboardPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={PICTURES: self.show},
            forms={PICTURES: self.upload, f"{PICTURES}/remove": self.remove},
            errors=(PictureSubjectNotFound,),
            uploads={PICTURES: MAX_UPLOAD_BYTES + 64 * 1024},
        )

    async def upload(self, viewer: OperatorViewer, form: Form) -> Response:
        sent = viewer.request.file("picture")
        subject = _subject(form.value("subject"))
        if subject is None:
            form.fail("subject", "Choose a bundle or a project.")
        if sent is None or not sent.content:
            form.fail("picture", "Choose a JPEG, PNG or WebP file.")
        elif subject is not None:
            try:
                picture = await in_turn(_encode, sent.content)
            except PictureInvalid as error:
                form.fail("picture", str(error))
            else:
                return await self._save(viewer, NamedPicture(*subject, picture), "picture_changed")
        return await self.show(viewer, form)

    async def remove(self, viewer: OperatorViewer, form: Form) -> Response:
        subject = _subject(form.value("subject"))
        if subject is None:
            raise PictureSubjectNotFound
        return await self._save(viewer, NamedPicture(*subject, None), "picture_removed")

    async def _save(self, viewer: OperatorViewer, named: NamedPicture, done: str) -> Response:
        await self.database.commit(import_pictures, viewer.mode, [named], by=viewer.actor.at(self.clock()))
        return see_other(f"{viewer.base}{PICTURES}?done={done}")

    async def show(self, viewer: OperatorViewer, form: Form | None = None) -> Response:
        form = form or Form()
        async with self.database.snapshot() as connection:
            catalogue = await load_catalogue(connection, viewer.mode, "")
        bundles = list(catalogue.bundles.values()) if catalogue else []
        projects = sorted(catalogue.projects.values(), key=lambda project: project.name) if catalogue else []
        return self.layout.page(
            viewer,
            "operator_pictures.html",
            form,
            shown=[
                ("Bundles", "bundle", [(each, bundle_picture(each)) for each in bundles]),
                ("Projects", "project", [(each, project_picture(each)) for each in projects]),
            ],
            entered=form,
        )


def _subject(text: str) -> tuple[PictureKind, str] | None:
    """`bundle:bun_...` or `project:prj_...`."""
    kind, _, subject_id = text.partition(":")
    if kind == "bundle" and subject_id:
        return "bundle", subject_id
    return ("project", subject_id) if kind == "project" and subject_id else None


def _encode(content: bytes) -> Picture:
    from tonne.selling.catalogue.pictures.encode_picture import encode_picture  # noqa: PLC0415 - it imports PIL

    return encode_picture(content)
