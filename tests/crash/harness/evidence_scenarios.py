"""Which process of Evidence dies at which point: making, importing, publishing, recovering, exporting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.evidence_trial import EvidenceTrial, has_exiftool
from harness.processes import Victim
from harness.scenarios import Scenario
from harness.trial import Plant
from perenne import crashpoints
from perenne.apps.evidence import places
from perenne.apps.evidence.identities import SPECIMEN_MAIL


def _with_picture(folder: Path, plant: Plant) -> EvidenceTrial:
    return EvidenceTrial(folder, plant, with_picture=True)


def _with_a_whole_mail(folder: Path, plant: Plant) -> EvidenceTrial:
    return EvidenceTrial(folder, plant, whole=True)


def _made(trial: EvidenceTrial) -> None:
    trial.do("init-specimen")


def _half_made(trial: EvidenceTrial) -> None:
    """A specimen into which nothing was imported any more, and whose folder for pictures is gone."""
    trial.kill(trial.maker("import.staged"), "import.staged")
    (trial.root / places.IMAGE_ORIGINALS).rmdir()


def _submitted(trial: EvidenceTrial) -> None:
    _made(trial)
    trial.do("import", *trial.files)
    trial.submit()


def submitted_over_a_leftover(trial: EvidenceTrial) -> None:
    """A folder is missing, and a stage file of the first job is there: of an attempt that another program recovered."""
    _submitted(trial)
    folder = trial.root / places.MAIL_DERIVATIVES
    identity = SPECIMEN_MAIL.identity
    (folder / f"{identity.derivative_id}.json.stage-{identity.extraction_id}").write_bytes(b"torn")


def _submitted_without_a_folder(trial: EvidenceTrial) -> None:
    _submitted(trial)
    (trial.root / places.MAIL_DERIVATIVES).rmdir()


def _after(prepare: Callable[[EvidenceTrial], None], who: str, point: str) -> Callable[[EvidenceTrial], None]:
    """A first process died at this point."""

    def prepared(trial: EvidenceTrial) -> None:
        prepare(trial)
        trial.kill(getattr(trial, who)(point), point)

    return prepared


def _failing_worker(trial: EvidenceTrial, point: str) -> Victim:
    """A worker whose first publication fails just before it would be committed."""

    def fail_once() -> None:
        def observer(passed: str) -> None:
            if passed == "publish.written":
                crashpoints.observe(None)
                raise OSError("injected")

        crashpoints.observe(observer)

    return trial.command("run", point=point, before=fail_once)


def _scenario(
    name: str, prepare: Callable[[EvidenceTrial], object], doomed: Callable[[EvidenceTrial, str], Victim]
) -> Scenario[EvidenceTrial]:
    return Scenario(name, EvidenceTrial, prepare, doomed)


MAKING = _scenario("making", lambda trial: None, EvidenceTrial.maker)
IMPORTING = _scenario("importing", _made, EvidenceTrial.importer)
IMPORTING_AGAIN = _scenario("again", _after(_made, "importer", "import.staged:2"), EvidenceTrial.importer)
IMPORTING_WITHOUT_A_FOLDER = _scenario("without a folder", _half_made, EvidenceTrial.input_importer)
FAILING_TO_IMPORT = _scenario("failing to import", _made, EvidenceTrial.failing_importer)
WORKING = _scenario("working", _submitted, EvidenceTrial.worker)
WORKING_ON_A_PICTURE = Scenario("working on a picture", _with_picture, _submitted, EvidenceTrial.worker)
WORKING_ON_A_WHOLE_MAIL = Scenario("working on a whole mail", _with_a_whole_mail, _submitted, EvidenceTrial.worker)
WORKING_OVER_A_LEFTOVER = _scenario("over a leftover", submitted_over_a_leftover, EvidenceTrial.worker)
WORKING_WITHOUT_A_FOLDER = _scenario("without a folder", _submitted_without_a_folder, EvidenceTrial.worker)
FAILING_TO_PUBLISH = _scenario("failing to publish", _submitted, _failing_worker)
RECOVERING = _scenario("recovering", _after(_submitted, "worker", "publish.renamed"), EvidenceTrial.worker)
EXPORTING = _scenario("exporting", _submitted, EvidenceTrial.exporter)
EXPORTING_AGAIN = _scenario("again", _after(_submitted, "exporter", "export.staged"), EvidenceTrial.exporter)

BY_PROTOCOL: dict[str, tuple[Scenario[EvidenceTrial], ...]] = {
    "create": (MAKING,),
    "migrate": (MAKING,),
    "import": (MAKING, IMPORTING),
    "mail": (WORKING_ON_A_WHOLE_MAIL,),
    "publish": (WORKING, WORKING_ON_A_WHOLE_MAIL),
    "acknowledge": (WORKING, WORKING_ON_A_WHOLE_MAIL),
    "recover": (RECOVERING,),
    "export": (EXPORTING,),
    "run": (WORKING_ON_A_PICTURE,) if has_exiftool() else (),
}
BY_POINT = {
    "import.folder_made": (IMPORTING_WITHOUT_A_FOLDER,),
    "import.leftover_removed": (IMPORTING_AGAIN,),
    "import.rolled_back": (FAILING_TO_IMPORT,),
    "import.undone": (FAILING_TO_IMPORT,),
    "publish.folder_made": (WORKING_WITHOUT_A_FOLDER,),
    "publish.leftover_removed": (WORKING_OVER_A_LEFTOVER,),
    "publish.rolled_back": (FAILING_TO_PUBLISH,),
    "publish.undone": (FAILING_TO_PUBLISH,),
    "export.leftover_removed": (EXPORTING_AGAIN,),
}


def of_point(point: str) -> tuple[Scenario[EvidenceTrial], ...]:
    """The scenarios of Evidence in which this point may be passed."""
    return BY_POINT.get(point) or BY_PROTOCOL.get(point.partition(".")[0], ())
